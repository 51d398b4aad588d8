"""A user's own aggregate: four functions, with which it combines and runs in parallel like a built-in one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from stretto.errors import FunctionError
from stretto.expressions.types import loses_fraction
from stretto.rendering import message_of


@dataclass(frozen=True)
class UserAggregate:
    """`init() -> acc`; `add(acc, rows) -> acc` with the group's rows of one batch as a RecordBatch of `columns`;
    `combine(acc, acc) -> acc`; `finish(acc) -> value` of `type`."""

    init: Callable[[], Any]
    add: Callable[[Any, pa.RecordBatch], Any]
    combine: Callable[[Any, Any], Any]
    finish: Callable[[Any], Any]
    type: pa.DataType
    columns: tuple[str, ...]
    name: str = "aggregate"

    def named(self, name: str) -> UserAggregate:
        return replace(self, name=name)


def value_column(aggregate: UserAggregate, values: list[Any]) -> pa.Array:
    """Returns what `finish` has returned for each group as a column of the declared type."""
    try:
        for value in values:
            if loses_fraction(value, aggregate.type):
                raise ValueError(f"{value} is not a whole number")
        return pa.array(values, aggregate.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise FunctionError(
            f"`finish` of the aggregate '{aggregate.name}' returned a value of the wrong type",
            f"{message_of(error)}; the declared type is {aggregate.type}",
            "Return values of the declared type, or declare another.",
        ) from None
