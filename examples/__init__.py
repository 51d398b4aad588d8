"""Small example apps. Run one with `stretto run examples.highest_bid:app`."""
