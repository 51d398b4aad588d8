"""The coordinator machine and its parts: events in, effects out. Pure.

It decides which workers are members, which actor runs on which worker, when a job is ready, finished, failed or
stopped, when a checkpoint begins and when it is complete. It must never know Spark, sockets or the clock; the driver's
runtime reports events and carries out effects.

A part declares the events and frames that it handles and its next deadline (`part.py`); only `machine.py` knows all
parts. The observation (`observing.py`) is the only way to read what the cluster does.

Read next: `machine.py`, `records.py` (what is kept about a job), `membership.py`, `jobs.py`, `checkpointing.py`,
`recovery.py`.
"""

from stretto.coordinator.machine import Coordinator, CoordinatorParts

__all__ = ["Coordinator", "CoordinatorParts"]
