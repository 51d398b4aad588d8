"""Tests the protocols: random dataflows and faults by seed, recorded histories, checkers, planted mutations.

A checker reads a history and returns a verdict with a witness. It must never know how the protocol works.
Read next: `barriers.py` and `faults.py` (one seed each), `checkers.py`, `mutations.py`,
`serializability/` (histories of transactions).
"""
