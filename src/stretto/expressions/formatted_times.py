"""Functions of times and texts by a pattern: date_format, to_timestamp, to_date, unix_timestamp, from_unixtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stretto.expressions import types
from stretto.expressions.arithmetic import truncated_quotient
from stretto.expressions.attempts import attempted
from stretto.expressions.casts import cast
from stretto.expressions.format_parsing import read_by
from stretto.expressions.format_writing import writer
from stretto.expressions.formats import for_parsing, parsed
from stretto.expressions.local_times import TimeOverflow, overflow
from stretto.expressions.moments import integer, moment, string
from stretto.expressions.nodes import Node, Site, combine, constant, elementwise, null
from stretto.expressions.registry import Function, fixed
from stretto.expressions.vectors import Value, arrow_operand, from_arrow, to_arrow, validity
from stretto.expressions.zones import MICROS_PER_SECOND, session_zone

_DEFAULT = "yyyy-MM-dd HH:mm:ss"
ByPattern = Callable[[str, pa.Array], pa.Array]
"""Called with a pattern and the rows that have it; returns their results."""


def _default_pattern(site: Site) -> Node:
    return constant(types.STRING, (pa.scalar(_DEFAULT), None), site)


def _by_pattern(
    kind: pa.DataType, node: Node, pattern: Node, check: Callable[[str], Any], apply: ByPattern, site: Site
) -> Node:
    """Returns what `apply` makes of the rows of each pattern. A constant pattern is checked here."""
    patterns, source = string(pattern, site), node.type
    only = None
    if not patterns.columns:
        only = arrow_operand(patterns.constant, types.STRING).as_py()
        if only is None:
            return null(kind, site)
        check(only)
    run_node, run_patterns = node.run, patterns.run

    def run(batch: pa.RecordBatch) -> Value:
        rows = batch.num_rows if node.columns or patterns.columns else 1
        given = to_arrow(run_node(batch), source, rows)
        if only is not None:
            result = apply(only, given)
        else:
            result = _of_each(to_arrow(run_patterns(batch), types.STRING, rows), given, apply, kind)
        if node.columns or patterns.columns:
            return from_arrow(result, kind)
        return from_arrow(result[0], kind)

    return combine(kind, run, site, (node, patterns), fallible=True)


def _of_each(patterns: pa.Array, given: pa.Array, apply: ByPattern, kind: pa.DataType) -> pa.Array:
    """Returns the results of rows whose patterns differ, in their order."""
    encoded = patterns.dictionary_encode()
    places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    order, results = [np.flatnonzero(places < 0)], [pa.nulls(int((places < 0).sum()), kind)]
    for place, pattern in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(places == place)
        order.append(rows)
        results.append(apply(pattern, given.take(pa.array(rows))))
    back = np.empty(len(places), np.int64)
    back[np.concatenate(order)] = np.arange(len(places))
    return pa.concat_arrays(results).take(pa.array(back))


def date_format(site: Site, node: Node, pattern: Node) -> Node:
    """Returns timestamps as text by a pattern."""
    zone = session_zone()

    def apply(text: str, moments: pa.Array) -> pa.Array:
        micros = pc.fill_null(moments.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        written = writer(text)(micros, zone)
        if isinstance(written, pa.Scalar):
            written = pa.repeat(written, len(micros))
        return written if not moments.null_count else pc.if_else(moments.is_valid(), written, None)

    return _by_pattern(types.STRING, moment(node, site), pattern, parsed, apply, site)


def from_unixtime(site: Site, node: Node, pattern: Node | None = None) -> Node:
    """Returns seconds since 1970 as text."""
    # What does not fit 64 bits wraps, as in Spark.
    seconds = integer(node, site, types.BIGINT)
    moments = elementwise(types.TIMESTAMP, lambda values: values * np.int64(MICROS_PER_SECOND), site, (seconds,))
    return date_format(site, moments, pattern or _default_pattern(site))


def _read(site: Site, node: Node, pattern: Node) -> Node:
    """Returns the timestamps of texts by a pattern. Dates and timestamps need none."""
    if types.is_nested(pattern.type):
        raise site.wrong_type("a pattern", pattern.type)
    if types.is_temporal(node.type):
        return cast(node, types.TIMESTAMP, site)
    if node.type not in (types.STRING, types.NULL):
        raise site.wrong_type("string, date or timestamp", node.type)
    zone = session_zone()

    def apply(text: str, strings: pa.Array) -> pa.Array:
        micros, exists, far = read_by(text, strings, zone)
        if far.any():
            raise overflow(site)
        bad = validity(strings) & ~exists
        if bad.any():
            raise site.error(
                f"{strings[int(bad.argmax())].as_py()!r} does not fit the pattern {text!r}", None,
                "use try_to_timestamp for NULL instead",
            )  # fmt: skip
        return pa.array(micros, pa.int64(), mask=~exists).cast(types.TIMESTAMP)

    return _by_pattern(types.TIMESTAMP, cast(node, types.STRING, site), pattern, for_parsing, apply, site)


def to_timestamp(site: Site, node: Node, pattern: Node | None = None) -> Node:
    return cast(node, types.TIMESTAMP, site) if pattern is None else _read(site, node, pattern)


def to_date(site: Site, node: Node, pattern: Node | None = None) -> Node:
    if pattern is not None:
        return cast(_read(site, node, pattern), types.DATE, site)
    return cast(node if types.is_temporal(node.type) else string(node, site), types.DATE, site)


def to_unix_timestamp(site: Site, node: Node, pattern: Node | None = None) -> Node:
    """Returns the whole seconds since 1970 of a time, or of a text by a pattern."""
    moments = _read(site, node, pattern or _default_pattern(site))

    def seconds(micros: Any) -> Any:
        return truncated_quotient(micros, MICROS_PER_SECOND)

    return elementwise(types.BIGINT, seconds, site, (moments,))


def _trying(build: Callable[..., Node]) -> Function:
    return Function(lambda site, *nodes: _attempted(build, nodes, site), 1, 2)


def _attempted(build: Callable[..., Node], nodes: tuple[Node, ...], site: Site) -> Node:
    """Returns what is null for a text that does not fit; a time that is too far away fails, as in Spark."""
    return attempted(lambda *given: build(given[-1], *given[:-1]), nodes, site, TimeOverflow)


FUNCTIONS = {
    "date_format": fixed(date_format, 2),
    "from_unixtime": Function(from_unixtime, 1, 2),
    "to_timestamp": Function(to_timestamp, 1, 2),
    "to_timestamp_ltz": Function(to_timestamp, 1, 2),
    "try_to_timestamp": _trying(to_timestamp),
    "to_date": Function(to_date, 1, 2),
    "try_to_date": _trying(to_date),
    "unix_timestamp": Function(to_unix_timestamp, 1, 2),
    "to_unix_timestamp": Function(to_unix_timestamp, 1, 2),
}
