"""Sponge's evaluation (sponge.txt 6) in virtual time: queries with the rates and state sizes of table 1, bursts, the
ways to scale that the paper compares, and its figures beside ours.

Read next: `queries.py` (what runs), `machines.py` (what it costs, and when machines are there), `approaches.py` (one
run), `figures.py` (what is compared).
"""
