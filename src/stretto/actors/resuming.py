"""An instance resumes from snapshots: its own, or its part of those that other partitions of its function left.

Keyed state goes where the rows of its keys go. State that is not keyed goes as a whole to one partition, and is merged
there if several partitions had some.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import compress
from typing import TYPE_CHECKING, Any

from stretto.actors.context import Clock
from stretto.actors.dividing import PartitionKeys, Place
from stretto.actors.function import Function
from stretto.actors.metrics import summed
from stretto.actors.snapshot import Content, Origin
from stretto.actors.timers import Pending
from stretto.errors import StorageError, StrettoError
from stretto.rendering import error_text
from stretto.state import State
from stretto.state.kinds import key_columns
from stretto.state.packing import packed, unpacked

if TYPE_CHECKING:
    from stretto.actors.instance import Instance


@contextmanager
def read_from(instance: Instance, origin: Origin) -> Iterator[None]:
    """Turns whatever is raised by content that does not fit into a StorageError that names the files."""
    try:
        yield
    except StrettoError:
        raise
    except Exception as error:
        files = ", ".join(content.path for content in origin.contents.values()) or f"checkpoint {origin.checkpoint}"
        raise StorageError(
            f"function '{instance.address.function}' cannot resume from {files}",
            f"{type(error).__name__}: {error}",
            "Start the app as it was, or from another checkpoint or savepoint.",
        ) from error


def rebuild(instance: Instance, content: Content) -> None:
    """Restores the same partition as in the checkpoint, with the shards that its tasks had; states that are new stay
    empty."""
    for name, state in instance.function.states().items():
        if _has(content, name):
            with _fitting(instance, name, content):
                _rebuild(state, name, content)
        for part in content.parts:
            if _has(part, name):
                with _fitting(instance, name, part):
                    state.take_in(_rebuilt(state, name, part))


def _has(content: Content, state: str) -> bool:
    return state in content.fragments or state in content.exported


def _rebuild(state: State, name: str, content: Content) -> None:
    if name in content.exported:
        state.restore(content.exported[name])
    else:
        state.rebuild(content.fragments[name])


def _rebuilt(state: State, name: str, content: Content) -> State:
    part = state.fresh()
    _rebuild(part, name, content)
    return part


def divide(instance: Instance, origin: Origin) -> None:
    """Build the states from this partition's parts of the states of former partitions."""
    found = [(former, each) for former, whole in sorted(origin.contents.items()) for each in (whole, *whole.parts)]
    for former, content in found:
        for name, state in instance.function.states().items():
            if _has(content, name):
                with _fitting(instance, name, content):
                    _take(instance, origin, former, name, state, _rebuilt(state, name, content))


def consolidated_of(instance: Instance, origin: Origin) -> bytes | None:
    """Returns the consolidated state that lessees read, built in the same way."""
    found: dict[str, State] = {}
    for former, content in sorted(origin.contents.items()):
        if content.plain.consolidated is None:
            continue
        for name, exported in unpacked(content.plain.consolidated).items():
            part = instance.function.states()[name].fresh()
            part.restore(exported)
            _take(instance, origin, former, name, found.setdefault(name, part.fresh()), part)
    return packed({name: state.export() for name, state in found.items()}) if found else None


def _take(instance: Instance, origin: Origin, former: int, name: str, state: State, part: State) -> None:
    keys = _keys_of(instance, origin, former, name)
    try:
        if keys is not None:
            part.keep(keys)
        state.take_in(part)
    except StorageError as error:
        raise StorageError(
            f"{_named(instance, name)} cannot be divided among {instance.spec.parallelism} partitions",
            error.fact,
            "Start the app with the parallelism that the function had in the checkpoint.",
        ) from error


def _keys_of(instance: Instance, origin: Origin, former: int, state: str) -> PartitionKeys | None:
    """The keys of a state that belong to the instance, or None where it gets the whole state."""
    spec = instance.spec
    if not spec.partitioned_by or spec.parallelism == 1:
        return None
    keys = spec.keys_of(instance.function.input_of(state))
    before = Place(former, origin.shards) if origin.shards is not None else None
    return PartitionKeys(keys, Place(instance.address.partition, spec.shards), before)


@contextmanager
def _fitting(instance: Instance, state: str, content: Content) -> Iterator[None]:
    """Names the state, and the files that it is read from, if its content does not fit."""
    try:
        yield
    except StrettoError:
        raise
    except Exception as error:
        raise StorageError(
            f"{_named(instance, state)} does not fit its content in {content.paths.get(state) or 'the checkpoint'}",
            error_text(error),
            "Give the function another name to start it empty, or start the app as it was.",
        ) from error


def _named(instance: Instance, state: str) -> str:
    return f"state '{state}' of function '{instance.address.function}'"


def regrouped(instance: Instance, origin: Origin) -> Any:
    """Returns what the function is to recall; None if the checkpoint does not have the function."""
    if not origin.parallelism:
        return None
    remembered = {former: content.plain.remembered for former, content in sorted(origin.contents.items())}
    try:
        return instance.function.regroup(remembered, origin.checkpoint)
    except StorageError as error:
        raise StorageError(
            f"function '{instance.address.function}' cannot resume with {instance.spec.parallelism} partitions",
            f"{error.fact}, and it had {origin.parallelism}",
            error.fix,
        ) from error


def timers_of(instance: Instance, origin: Origin) -> Pending | None:
    """Returns the pending timers of this partition's keys; None if there were none."""
    found: Pending = {clock.value: [] for clock in Clock}
    for content in origin.contents.values():
        for clock, pending in all_timers(content).items():
            found[clock] += pending
    if not any(found.values()):
        return None
    if instance.spec.partitioned_by and instance.spec.parallelism > 1:
        if type(instance.function).timer_key is not Function.timer_key:
            return {clock: _own_timers(instance, sorted(pending, key=_due)) for clock, pending in found.items()}
        raise StorageError(
            f"timers of function '{instance.address.function}' are pending",
            f"nobody knows for which keys, so they cannot be divided among {instance.spec.parallelism} partitions",
            f"Start the app with the parallelism that the function had: {origin.parallelism}, or define timer_key().",
        )
    return {clock: sorted(pending, key=_due) for clock, pending in found.items()}


def _own_timers(instance: Instance, pending: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Returns the timers of the keys of this partition."""
    if not pending:
        return []
    keys = instance.spec.keys_of(None)
    columns = key_columns((instance.function.timer_key(tag) for _, tag in pending), keys)
    mine = PartitionKeys(keys, Place(instance.address.partition, instance.spec.shards)).mine(columns)
    return list(compress(pending, mine.tolist()))


def all_timers(content: Content) -> Pending:
    """Returns the timers of a partition, with those of its tasks, the earliest first."""
    parts = (content, *content.parts)
    return {
        clock.value: sorted((timer for part in parts for timer in part.plain.timers[clock.value]), key=_due)
        for clock in Clock
    }


def _due(timer: tuple[int, Any]) -> int:
    return timer[0]


def counts_of(origin: Origin) -> dict[str, int]:
    """Returns the sum of the counters of the former partitions that this one leads."""
    return all_counts([origin.contents[former] for former in sorted(origin.leads & origin.contents.keys())])


def all_counts(contents: list[Content]) -> dict[str, int]:
    """Returns the sum of the counters of partitions, with those of their tasks."""
    return summed(part.plain.counts for content in contents for part in (content, *content.parts))
