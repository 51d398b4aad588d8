"""Where the entities of a workload run, as the workloads see it: in this process (`in_process.py`), or on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from stretto.protocol.transactions import Reply
from stretto.transactions.activation import MadeCall
from stretto.transactions.entity import Entity

Fields = dict[str, Any]
"""The fields of one entity, as plain data."""


class Service(Protocol):
    """Runs calls, and shows what they have left behind."""

    def map(self, calls: Sequence[MadeCall]) -> list[Reply]:
        """Run these calls, many at once. Returns their replies in the same order, aborted ones included."""
        ...

    def rows(self, kind: type[Entity]) -> dict[str, Fields]:
        """Returns the entities of a class by their keys, but for those that nobody has written."""
        ...


@dataclass(frozen=True, slots=True)
class Done:
    """A call and its reply."""

    made: MadeCall
    reply: Reply

    @property
    def arguments(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.msgpack.decode(self.made.arguments)
        return found

    @property
    def value(self) -> Any:
        """What the transaction returned; of one that was aborted, see `reply.failure`."""
        return None if self.reply.value is None else msgspec.msgpack.decode(self.reply.value)


def call(service: Service, made: Any) -> Done:
    """Run one call."""
    return Done(made, service.map([made])[0])
