"""Sources whose rows are emitted by the entities of the app: what they ask for, and what comes, by errands.

Such a function says which rows it wants, which the worker asks for (`worker/emitted.py`). It seals at marks and is told
of complete checkpoints, as sinks are: then the rows before them need not be kept any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from stretto.actors.work import Errand, Outcome

if TYPE_CHECKING:
    from stretto.actors.instance import Instance


class Wanted(NamedTuple):
    """What a source wants of a place of the entities: rows of a stream from number `since` on (None: from the first
    that is kept), and to hear of the time when it has come to `at_us`. Rows before `settled` it never needs again."""

    stream: str
    place: int
    since: int | None
    settled: int
    at_us: int | None


class EmittedRow(Protocol):
    """A row as bytes, and the time of its epoch."""

    @property
    def at_us(self) -> int: ...

    @property
    def data(self) -> bytes: ...


class PlacesKnown(Errand):
    """The entities are in so many places."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count


class RowsEmitted(Errand):
    """Rows of a place have come, by the number of the first; later ones are not older than `reached_us`. Or rows
    that were wanted are `missing`, with the reason."""

    __slots__ = ("first", "missing", "place", "reached_us", "rows")

    def __init__(
        self, place: int, first: int, rows: Sequence[EmittedRow], reached_us: int, missing: str | None = None
    ) -> None:
        self.place = place
        self.first = first
        self.rows = rows
        self.reached_us = reached_us
        self.missing = missing


def places_known(instance: Instance, errand: PlacesKnown, now_ns: int) -> Outcome:
    instance.function.read_places(errand.count)
    return Outcome(now_ns)


def rows_emitted(instance: Instance, errand: RowsEmitted, now_ns: int) -> Outcome:
    instance.function.take(errand, now_ns)
    return Outcome(now_ns)


APPLIES: dict[type[Errand], Callable[[Any, Any, int], Outcome]] = {
    PlacesKnown: places_known,
    RowsEmitted: rows_emitted,
}
