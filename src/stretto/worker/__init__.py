"""The worker machine and its parts: events in, effects out. Pure.

It decides which message runs next, where outputs go, when a sender must wait for credits, what a barrier holds back and
what the coordinator hears. It must never know the clock, sockets, Spark or files: time comes with each event, and
whatever takes time or touches the world is an effect that comes back as an event.

A part declares which events and frames it handles, what follows a run, when it wants to be woken and what it does when
a job is dropped (`part.py`). It reaches the machine through `Host` and other parts through the protocols that it
declares beside itself; only `machine.py` knows all of them.

Read next: `machine.py`, then `channels.py` (messages and credits), `leasing/` (dual-mode actors), `snapshots.py`
(checkpoints), `desk.py` (what strategies see), `jobs.py` (the life of a job here).
"""

from stretto.worker.machine import Worker, WorkerParts

__all__ = ["Worker", "WorkerParts"]
