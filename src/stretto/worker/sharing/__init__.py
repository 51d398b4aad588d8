"""Shared objects on a worker: `reads.py` gets what batches here will read, `homes.py` answers for the objects here.

A function never waits for an object while it runs: its batch asks first, waits beside the mailbox as one that has not
run, and runs when all is here. So whatever waits for batches (barriers, marks, moves) waits for these too. `servers.py`
does the same with a server, which is an effect that comes back as an event.
"""
