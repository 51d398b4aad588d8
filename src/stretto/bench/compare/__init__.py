"""Compares stretto with other engines: one query, the same events, in one run, in interleaved rounds.

`feed` presents pre-generated events to every system in the same way; `peers/` holds one script for each system, which
runs in its own environment; `measure` turns timed outputs into figures; `rounds` searches for the rate that each system
sustains; `compare` combines them. `bench/README.md` describes the method.
"""
