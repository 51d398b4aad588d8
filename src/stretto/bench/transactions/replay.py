"""Replies and final state against a plain sequential model, which runs one call after another in the order of places.

The order is what the workers say (`Reply.place`): by epoch, and by TID within a phase of it. That some serial order
explains everything is what serializable means; that it is this one is what a replay of the log needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

import msgspec

from stretto.bench.transactions.service import Done, Fields
from stretto.transactions.entity import Entity
from stretto.transactions.kinds import described

SHOWN_MAX = 5
"""The most differences of one sort that are reported."""


class Aborted(Exception):
    """Of a model: the transaction is aborted by an exception of this class."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Model(Protocol):
    """The workload without entities, workers or epochs."""

    def answer(self, done: Done) -> Any:
        """Run the call to its end. Returns what it returns, or raises `Aborted` and has changed nothing."""
        ...

    def rows(self) -> Mapping[str, Mapping[str, Fields]]:
        """Returns the entities by class and key, at least those that were written."""
        ...


def differences(
    entities: Collection[type[Entity]], done: Sequence[Done], model: Model, rows: Mapping[str, Mapping[str, Fields]]
) -> Iterator[str]:
    """Returns what differs between the replies, the final state and the model. A call that only reads has no place:
    what it reads must be the same all the time in the workload."""
    kinds = {entity.__name__: described(entity) for entity in entities}
    looks = [each for each in done if kinds[each.made.kind].method(each.made.method).only_reads]
    placed = [each for each in done if each.reply.place is not None]
    if len(placed) + len(looks) < len(done):
        yield f"{len(done) - len(placed) - len(looks)} calls have no place in the order"
    ordered = sorted(placed, key=lambda one: one.reply.place or ())
    yield from islice(_other_replies([*ordered, *looks], model), SHOWN_MAX)
    found = model.rows()
    for entity in entities:
        name = entity.__name__
        yield from islice(_other_rows(entity, rows.get(name, {}), found.get(name, {})), SHOWN_MAX)


def _other_replies(done: Iterable[Done], model: Model) -> Iterator[str]:
    for each in done:
        right = _answer(model, each)
        got = each.reply.failure.kind if each.reply.failure is not None else each.value
        if got != right:
            made = each.made
            yield f"{made.kind}/{made.key}.{made.method} at {each.reply.place} gave {got}, and {right} in the replay"


def _answer(model: Model, done: Done) -> Any:
    try:
        return model.answer(done)
    except Aborted as aborted:
        return aborted.kind


def _other_rows(entity: type[Entity], rows: Mapping[str, Fields], right: Mapping[str, Fields]) -> Iterator[str]:
    """What nobody has written is as in the beginning, on either side."""
    kind = described(entity)
    initial = msgspec.msgpack.decode(kind.fields(kind.instance("", None)))
    for key in sorted({*rows, *right}):
        found, replayed = rows.get(key, initial), right.get(key, initial)
        if found != replayed:
            yield f"{kind.name}/{key} is {found} in the end, and {replayed} in the replay"
