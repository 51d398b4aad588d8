"""A user's own aggregate: four functions, with which it combines and runs in parallel like a built-in one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa


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
