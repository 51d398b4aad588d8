"""What `key_by` groups by, and what `aggregate` computes: calls of aggregates, and a select over their results.

`sum(price) / count(*) AS mean` keeps the state of `sum(price)` and of `count(*)`, each once, however many texts use it.
The select after them is an ordinary step, so every engine runs it, and state and checkpoints know only calls. So is the
select that makes a column of a key which is an expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from stretto.errors import ExpressionError, PlanError
from stretto.expressions import AggregateCall, compile_scalar
from stretto.expressions.aggregate_texts import CallText
from stretto.expressions.aggregates import GROUPING_CALLS, AggregateText, compiled_call, read_aggregates
from stretto.expressions.scalar import quoted
from stretto.operators.user_aggregate import UserAggregate

Aggregate = str | UserAggregate
Call = AggregateCall | UserAggregate


@dataclass(frozen=True)
class Grouping:
    """The calls, the columns that keys, windows and calls make, and the texts of the selects that follow, one after the
    other; none if the columns are the result."""

    calls: tuple[Call, ...]
    schema: pa.Schema
    selects: tuple[tuple[str, ...], ...]


class Sets(Protocol):
    """Grouping sets, seen from an aggregate over them: columns of the input that are keys, their names in the result,
    and what the functions of grouping sets mean there."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def keys(self) -> tuple[str, ...]: ...
    def expression(self, call: CallText) -> str: ...


def grouping(
    stream: str,
    schema: pa.Schema,
    leading: Sequence[pa.Field],
    time: str | None,
    calls: Sequence[Aggregate],
    named: Mapping[str, Aggregate],
    sets: Sets | None = None,
) -> Grouping:
    """Returns what a verb computes on rows of a schema. `leading` are the columns of keys and windows, `time` that of
    the event time."""
    read = [_read(call, alias, sets) for alias, call in [*((None, call) for call in calls), *named.items()]]
    plain = sets is None and all(isinstance(each, UserAggregate) or each.call is not None for each in read)
    renamed = {} if sets is None else dict(zip(sets.columns, sets.names, strict=True))
    visible = [renamed.get(field.name, field.name) for field in leading]
    _refuse_twice(stream, [*visible, *(each.name for each in read)])
    collector = _Calls(schema, time, [*visible, *renamed], sets)
    columns = [collector.column(each, shared=not plain) for each in read]
    found = tuple(collector.calls)
    result = pa.schema([*leading, *(pa.field(call.name, call.type) for call in found)])
    if plain:
        return Grouping(found, result, ())
    named_result = pa.schema([field.with_name(renamed.get(field.name, field.name)) for field in result])
    for each, column in zip(read, columns, strict=True):
        _check_columns(each, column, schema, named_result)
    wanted = [f"{column} AS {quoted(each.name)}" for each, column in zip(read, columns, strict=True)]
    kept = [name for name in visible if sets is None or name in sets.keys or name not in sets.names]
    select = (*map(quoted, kept), *wanted)
    if sets is None:
        return Grouping(found, result, (select,))
    pairs = zip(result.names, named_result.names, strict=True)
    return Grouping(found, result, (tuple(f"{quoted(old)} AS {quoted(new)}" for old, new in pairs), select))


def keys_of(verb: str, schema: pa.Schema, texts: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Returns the columns to key by, and the select that adds those which are expressions; None if none is."""
    names, added = [], []
    columns = {name.lower(): name for name in schema.names}
    for text in texts:
        if text.lower() in columns:
            names.append(text if text in schema.names else columns[text.lower()])
            continue
        key = compile_scalar(text, schema)
        names.append(key.name)
        if key.column == key.name:
            continue
        if key.name.lower() in columns:
            raise PlanError(
                f"{verb}: the key {text!r} has the name of a column", key.name, f"Name it: {key.sql} AS a_new_name."
            )
        columns[key.name.lower()] = key.name
        added.append(f"{key.sql} AS {quoted(key.name)}")
    return names, ["*", *added] if added else None


def _read(call: Aggregate, alias: str | None, sets: Sets | None) -> AggregateText | UserAggregate:
    if isinstance(call, str):
        return read_aggregates(call, alias, GROUPING_CALLS if sets is not None else ())
    return call if alias is None else call.named(alias)


class _Calls:
    """Calls with names of their own."""

    def __init__(self, schema: pa.Schema, time: str | None, taken: Sequence[str], sets: Sets | None) -> None:
        self._schema = schema
        self._time = time
        self._sets = sets
        self._taken = {name.lower() for name in taken}
        self.calls: list[Call] = []

    def column(self, read: AggregateText | UserAggregate, shared: bool) -> str:
        """Returns an expression over the results of calls. With `shared`, the same call is computed once."""
        if isinstance(read, UserAggregate):
            for column in read.columns:
                compile_scalar(quoted(column), self._schema)
            return quoted(self._add(read, read.name))
        expressions = {}
        for column, text in read.columns.items():
            if self._sets is not None and text.name in GROUPING_CALLS:
                expressions[column] = self._sets.expression(text)
                continue
            call = compiled_call(text, self._schema, read.text, self._time)
            known = self._known(call) if shared else None
            name = known or self._add(call, read.name if read.call is not None else text.text)
            expressions[column] = quoted(name)
        return read.over(expressions)

    def _known(self, call: AggregateCall) -> str | None:
        same = (each.name for each in self.calls if isinstance(each, AggregateCall) and each.sql == call.sql)
        return next(same, None)

    def _add(self, call: Call, wanted: str) -> str:
        name, number = wanted, 2
        while name.lower() in self._taken:
            name, number = f"{wanted} #{number}", number + 1
        self._taken.add(name.lower())
        self.calls.append(call.named(name) if isinstance(call, UserAggregate) else replace(call, name=name))
        return name


def _check_columns(read: AggregateText | UserAggregate, text: str, schema: pa.Schema, result: pa.Schema) -> None:
    """Raises an error that names the column which is neither a key nor inside an aggregate."""
    if isinstance(read, UserAggregate):
        return
    try:
        compile_scalar(text, result)
    except ExpressionError as error:
        known = {name.lower() for name in result.names}
        for column in schema.names:
            if column.lower() not in known and f"unknown column {column!r}".lower() in str(error).lower():
                raise ExpressionError(
                    f"column {column!r} is neither a key nor inside an aggregate",
                    f"in {read.text!r}",
                    f"key the stream by it, or use any_value({column})",
                ) from None
        raise


def _refuse_twice(stream: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PlanError(
            f"an aggregate on '{stream}' has two columns of one name",
            ", ".join(twice),
            'Name them: total="sum(price)".',
        )


def refuse_arrival(stream: str, calls: Sequence[Call], where: str = "in a window") -> None:
    """Refuses first and last of rows without event time where rows come together in any order, as in windows."""
    for call in calls:
        if isinstance(call, AggregateCall) and call.is_by_arrival:
            raise PlanError(
                f"{call.function} {where} needs event time, and stream '{stream}' has none",
                f"the aggregate '{call.name}'",
                "Give time='column' at the source, or use min_by or max_by.",
            )
