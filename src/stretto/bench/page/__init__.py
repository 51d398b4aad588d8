"""What the page costs: throughput with it open and without, and how fast a browser draws many jobs.

Read next: `feed.py` (observations of a made-up cluster of any size), `browser.py` (Chromium, driven over a pipe),
`drawing.py` (first paint and updates), `overhead.py` (throughput with the page open).
"""
