"""The coordinator machine and its parts: events in, effects out. Pure.

It decides who is a member, which actor lives on which worker, when a job has become ready, finished, failed or stopped,
when a checkpoint begins and whether it counts. It must never know Spark, sockets or the clock; the driver's runtime
reports what happened and carries out what it says.

A part declares which events and frames it handles and when it wants to be woken (`part.py`); only `machine.py` knows
all parts. Whoever wants to know what the cluster does reads its observation (`observing.py`), and nothing else.

Read next: `machine.py`, `records.py` (what is kept of a job), `membership.py`, `jobs.py`, `checkpointing.py`,
`recovery.py`.
"""

from stretto.coordinator.machine import Coordinator, CoordinatorParts

__all__ = ["Coordinator", "CoordinatorParts"]
