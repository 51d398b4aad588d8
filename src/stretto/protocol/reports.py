"""What workers report to the coordinator."""

from __future__ import annotations

import msgspec

from stretto.actors.metrics import FunctionMetrics


class Report(msgspec.Struct, frozen=True, tag="report"):
    """Totals per function and partition of the sender's instances, and when they were read; what its process holds in
    memory, 0 if that is unknown."""

    job: str
    functions: dict[str, dict[int, FunctionMetrics]]
    refused: int = 0
    measured_ns: int = 0
    memory_bytes: int = 0


class LongRuns(msgspec.Struct, frozen=True, tag="longruns"):
    """A function has runs that are longer than the objectives of other jobs on the same worker, which are in `delayed`:
    by job, in nanoseconds."""

    job: str
    function: str
    run_ns: int
    delayed: dict[str, int]


class Misbehaved(msgspec.Struct, frozen=True, tag="misbehaved"):
    """What misbehaved on a worker, of a function or of all. A user's strategy or policy that was given up; the default
    decides there. A source that read rows which its watermark does not follow. A function that has ended its worker, or
    does not return."""

    job: str
    function: str | None
    what: str
    traceback: str


class Stuck(msgspec.Struct, frozen=True, tag="stuck"):
    """A run of the sender has not returned for a while: the attempt of the job, the function (None: its code is being
    loaded), for how long, and where it is. Its loop answers nothing meanwhile."""

    job: str
    function: str | None
    for_ns: int
    stack: str
