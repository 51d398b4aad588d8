"""What a page may change: stop a job, take a savepoint or a checkpoint, add and remove workers, rescale a function,
change an objective.

A request names one action and its arguments, as JSON of a declared type. It is carried out by the methods that users
have in Python, so it is refused for the same reasons, and leaves the same record of a decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Protocol, TypeVar

import msgspec

from stretto.api.slo import SLO
from stretto.errors import UserError
from stretto.serving.refusals import Refused, Why

WORKERS_MAX = 64
"""How many workers one request may add or remove."""
NAME_LENGTH_MAX = 200
TIMEOUT_S = 120.0
LATENCY_MS_MAX = 7 * 24 * 3_600_000
PRIORITY_MAX = 1_000_000

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
Count = Annotated[int, msgspec.Meta(ge=1, le=WORKERS_MAX)]


class Stop(msgspec.Struct, frozen=True, tag_field="action", tag="stop", forbid_unknown_fields=True):
    """Ends a job: at once, or with `drain` after all rows read so far are processed."""

    job: Name
    drain: bool = False


class Savepoint(msgspec.Struct, frozen=True, tag_field="action", tag="savepoint", forbid_unknown_fields=True):
    """Takes a savepoint under this name, and ends the job."""

    job: Name
    name: Name


class TakeCheckpoint(msgspec.Struct, frozen=True, tag_field="action", tag="checkpoint", forbid_unknown_fields=True):
    """Takes a checkpoint now."""

    job: Name


class AddWorkers(msgspec.Struct, frozen=True, tag_field="action", tag="add_workers", forbid_unknown_fields=True):
    """Adds workers."""

    count: Count = 1


class RemoveWorkers(msgspec.Struct, frozen=True, tag_field="action", tag="remove_workers", forbid_unknown_fields=True):
    """Has so many workers leave, or this one."""

    count: Count = 1
    worker: Name | None = None


class Rescale(msgspec.Struct, frozen=True, tag_field="action", tag="rescale", forbid_unknown_fields=True):
    """Gives a function another number of partitions."""

    job: Name
    function: Name
    parallelism: Annotated[int, msgspec.Meta(ge=1, le=4_096)]


class SetObjective(msgspec.Struct, frozen=True, tag_field="action", tag="objective", forbid_unknown_fields=True):
    """Gives a job another objective: the latency at a percentile and the part of the input that is processed, each null
    if none is promised, and the priority. Its share and its utility function stay as they are."""

    job: Name
    latency_ms: Annotated[float, msgspec.Meta(gt=0, le=LATENCY_MS_MAX)] | None = None
    percentile: Annotated[float, msgspec.Meta(gt=0, le=100)] = 99.0
    throughput: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    priority: Annotated[float, msgspec.Meta(gt=0, le=PRIORITY_MAX)] = 1.0


T = TypeVar("T")
Action = Stop | Savepoint | TakeCheckpoint | AddWorkers | RemoveWorkers | Rescale | SetObjective
ACTIONS: tuple[type[Any], ...] = (Stop, Savepoint, TakeCheckpoint, AddWorkers, RemoveWorkers, Rescale, SetObjective)
_decoder: msgspec.json.Decoder[Action] = msgspec.json.Decoder(Action)


class Execution(Protocol):
    """What a job offers."""

    def stop(self, drain: bool, savepoint: str | None) -> None: ...

    def checkpoint(self, timeout_s: float) -> int: ...

    def rescale(self, parallelism: Mapping[str, int], timeout_s: float) -> Any: ...

    @property
    def objective(self) -> SLO: ...

    def set_objective(self, slo: SLO, timeout_s: float) -> Any: ...


class Controlled(Protocol):
    """What a cluster offers."""

    def execution_of(self, job: str) -> Execution: ...

    def scale_out(self, workers: int = 1, *, timeout: float) -> list[Any]: ...

    def scale_in(self, workers: int = 1, *, timeout: float) -> list[str]: ...

    def drain(self, worker: str, *, timeout: float) -> None: ...


def action_of(body: bytes) -> Action:
    """Returns the action that a request names, or raises a Refused."""
    return decoded(_decoder, body)


def decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Returns what a body says, which is of a declared type, or raises a Refused."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Refused(Why.WRONG_ARGUMENTS, str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(Why.MALFORMED, f"the body is not a JSON object: {error}") from error


def carried_out(cluster: Controlled, action: Action) -> str:
    """Carries an action out, and returns what has happened. It may take a while; an error says why it cannot be."""
    match action:
        case Stop(job=job, drain=drain):
            cluster.execution_of(job).stop(drain, None)
            return f"job '{job}' ends" + (" when its rows are processed" if drain else "")
        case Savepoint(job=job, name=name):
            cluster.execution_of(job).stop(False, name)
            return f"job '{job}' takes the savepoint '{name}' and ends"
        case TakeCheckpoint(job=job):
            return f"checkpoint {cluster.execution_of(job).checkpoint(TIMEOUT_S)} of job '{job}' is complete"
        case AddWorkers(count=count):
            names = [member.name for member in cluster.scale_out(count, timeout=TIMEOUT_S)]
            return f"{', '.join(names)} joined"
        case RemoveWorkers(worker=str(worker)):
            cluster.drain(worker, timeout=TIMEOUT_S)
            return f"{worker} left"
        case RemoveWorkers(count=count):
            return f"{', '.join(cluster.scale_in(count, timeout=TIMEOUT_S))} left"
        case Rescale(job=job, function=function, parallelism=parallelism):
            cluster.execution_of(job).rescale({function: parallelism}, TIMEOUT_S)
            return f"function '{function}' of job '{job}' has {parallelism} partitions"
        case SetObjective(job=job):
            execution = cluster.execution_of(job)
            slo = _changed(execution.objective, action)
            execution.set_objective(slo, TIMEOUT_S)
            return f"job '{job}' promises {slo.describe()}"
    raise UserError("there is no such action", type(action).__name__)


def _changed(slo: SLO, action: SetObjective) -> SLO:
    latency_ms, percentile = action.latency_ms, action.percentile
    return replace(slo, latency_ms=latency_ms, percentile=percentile, juice=action.throughput, priority=action.priority)
