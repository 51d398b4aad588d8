"""stretto beside other engines: one query, the same events, in one run, in interleaved rounds.

`feed` puts pre-generated events in front of every system in the same way; `peers/` holds one script for each system,
which runs in an environment of its own; `measure` turns what a system gave, and when, into figures; `rounds` looks for
the rate that each one sustains; `compare` puts it all together. The method is written down in `bench/README.md`.
"""
