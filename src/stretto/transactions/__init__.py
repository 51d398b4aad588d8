"""Entities whose calls are serializable transactions, exactly once (styx.txt 3-8). Pure.

Developers write classes (`entity.py`); a call and all that it calls is one transaction. The room decides in which order
transactions run (`sequencing.py`), runs them on the state before the epoch (`execution.py`), finds conflicts
(`conflicts.py`), and runs the losers again under locks (`locks.py`). It must never know a clock, a socket or a file:
`machine.py` is a machine per worker, whose log and snapshots are effects.

Read next: `entity.py`, `execution.py`, `epoch.py` (the phases of an epoch), `machine.py`, `coordinating.py`.
"""
