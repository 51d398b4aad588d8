"""Small apps to run, read and change: `stretto run examples.highest_bid:app`."""
