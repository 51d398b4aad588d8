"""The parts of a join node: the pairs of key columns, the result's columns, and the bounds of an interval."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from stretto.errors import PlanError
from stretto.expressions import Scalar, compile_scalar, compile_value
from stretto.operators.windows import EventTime

JoinOn = str | Sequence[str] | Sequence[tuple[str, str]]

_EQUALITY = re.compile(r"^\s*`?(\w+)`?\s*={1,2}\s*`?(\w+)`?\s*$")
_NAME = re.compile(r"^\s*`?\w+`?\s*$")
_PROBES_US = (0, 10_000_000_000_000, 1_700_000_000_000_000)


def join_pairs(
    on: JoinOn, left: str, left_schema: pa.Schema, right: str, right_schema: pa.Schema
) -> tuple[tuple[str, str], ...]:
    """Returns the (left column, right column) pairs of a join condition, checked against both schemas."""
    pairs = []
    for left_column, right_column in _parsed(on, left, right):
        left_key = compile_scalar(f"`{left_column}`", left_schema)
        right_key = compile_scalar(f"`{right_column}`", right_schema)
        if not _comparable(left_key.type, right_key.type):
            raise PlanError(
                f"join of '{left}' and '{right}': the keys have different types",
                f"{left_column} is {left_key.type}, {right_column} is {right_key.type}",
                "Cast one of them with select before the join.",
            )
        pairs.append((_stored_name(left_column, left_schema), _stored_name(right_column, right_schema)))
    return tuple(pairs)


def _parsed(on: JoinOn, left: str, right: str) -> list[tuple[str, str]]:
    if isinstance(on, str):
        parts = re.split(r"\s+and\s+", on, flags=re.IGNORECASE)
        if _NAME.match(on):
            return [(on.strip().strip("`"), on.strip().strip("`"))]
        matches = [_EQUALITY.match(part) for part in parts]
        if not all(matches):
            raise PlanError(
                f"join of '{left}' and '{right}': the condition cannot be read",
                repr(on),
                'Write "left_column = right_column AND ...", a column name, or a list of names or pairs.',
            )
        return [(match.group(1), match.group(2)) for match in matches if match]
    pairs = [(item, item) if isinstance(item, str) else (item[0], item[1]) for item in on]
    if not pairs:
        raise PlanError(f"join of '{left}' and '{right}' has no key", None, "Name at least one pair of columns.")
    return pairs


def _stored_name(column: str, schema: pa.Schema) -> str:
    return column if column in schema.names else next(n for n in schema.names if n.lower() == column.lower())


def _comparable(left: pa.DataType, right: pa.DataType) -> bool:
    if left == right:
        return True
    for kind in (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_floating):
        if kind(left) and kind(right):
            return True
    return False


def joined_schema(left: pa.Schema, right: pa.Schema, suffix: str) -> pa.Schema:
    """Returns the left columns, then the right ones; a right column whose name is taken gets the suffix."""
    fields = list(left)
    taken = set(left.names)
    for field in right:
        name = field.name
        while name in taken:
            name += suffix
        taken.add(name)
        fields.append(field.with_name(name))
    return pa.schema(fields)


def interval_bounds(left: str, lower: str, upper: str, schema: pa.Schema) -> tuple[Scalar, Scalar]:
    """Returns both bounds, compiled over the left row's columns; they must be timestamps."""
    bounds = compile_value(lower, schema, "a bound"), compile_value(upper, schema, "a bound")
    for text, bound in zip((lower, upper), bounds, strict=True):
        if not pa.types.is_timestamp(bound.type):
            raise PlanError(
                f"interval_join on '{left}': a bound is not a timestamp",
                f"{text!r} is {bound.type}",
                'Write it over the left time column, such as "dateTime - INTERVAL 5 SECONDS".',
            )
    return bounds


def lower_offset_us(lower: str, time: EventTime, schema: pa.Schema) -> int | None:
    """Returns the constant c if the lower bound is the left time plus c, else None.

    It is found by probing: the bound reads only the time column, and has the same offset to it at three times."""
    bound = compile_scalar(lower, schema)
    if bound.columns != {time.column}:
        return None
    index = schema.get_field_index(time.column)
    kind = schema.field(index).type
    columns = [
        pa.array(_PROBES_US, pa.timestamp("us", tz="UTC")).cast(kind)
        if i == index
        else pa.nulls(len(_PROBES_US), f.type)
        for i, f in enumerate(schema)
    ]
    given = bound.evaluate(pa.RecordBatch.from_arrays(columns, schema=schema)).cast(pa.timestamp("us", tz="UTC"))
    offsets = {found - probe for found, probe in zip(given.cast(pa.int64()).to_pylist(), _PROBES_US, strict=True)}
    return offsets.pop() + time.offset_us if len(offsets) == 1 else None
