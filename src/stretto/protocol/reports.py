"""What workers report to the coordinator."""

from __future__ import annotations

import msgspec

from stretto.actors.metrics import FunctionMetrics


class Report(msgspec.Struct, frozen=True, tag="report"):
    """Totals per function and partition of the sender's instances, and when they were read."""

    job: str
    functions: dict[str, dict[int, FunctionMetrics]]
    refused: int = 0
    measured_ns: int = 0


class LongRuns(msgspec.Struct, frozen=True, tag="longruns"):
    """A function has runs that are longer than the objectives of other jobs on the same worker, which are in `delayed`:
    by job, in nanoseconds."""

    job: str
    function: str
    run_ns: int
    delayed: dict[str, int]


class Misbehaved(msgspec.Struct, frozen=True, tag="misbehaved"):
    """A user's strategy or policy was given up on a worker, for a function or for all, and the default decides there.
    Or a source read rows that its watermark does not follow."""

    job: str
    function: str | None
    what: str
    traceback: str
