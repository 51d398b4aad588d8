"""What one side says about an expression: that it refuses it, or a type and a value or a failure for each row."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Failure:
    """An error at a row. `crash` is true if it is not one that stretto raises on purpose."""

    text: str
    crash: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The expression does not compile. `crash` is true if what is raised then is no refusal: a constant that fails."""

    reason: str
    crash: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """The type's name in Spark, and a plain value or a `Failure` for each row.

    `on_nothing` is how evaluating an empty batch failed, if it did. `comparable` is false for values that Spark cannot
    send to Python."""

    kind: str
    rows: list[Any]
    on_nothing: Failure | None = None
    comparable: bool = True


Answer = Refused | Answered


def same(mine: Any, theirs: Any) -> bool:
    """Whether two plain values are the same: NaN is NaN, and -0.0 is not 0.0."""
    if isinstance(mine, float) and isinstance(theirs, float):
        if math.isnan(mine) or math.isnan(theirs):
            return math.isnan(mine) and math.isnan(theirs)
        return struct.pack("d", mine) == struct.pack("d", theirs)
    if isinstance(mine, list | tuple) and isinstance(theirs, list | tuple):
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    return type(mine) is type(theirs) and bool(mine == theirs)
