"""CAST in ANSI mode: a value that does not fit or does not parse is an error, never a silent NULL.

Casts of text use Python for the rare forms (decimals, Java's format of doubles); casts between numbers and between time
types use numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Context
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stretto.expressions import decimals, nested_casts, texts, time_texts, types
from stretto.expressions.folding import of_seen_nulls
from stretto.expressions.implicit_casts import noted
from stretto.expressions.intervals import fields_of, interval_text, is_interval
from stretto.expressions.java_digits import rounded_at
from stretto.expressions.local_times import date_to_timestamp, timestamp_to_date
from stretto.expressions.nodes import Node, Site, combine, constant, elementwise, kernel, known, null
from stretto.expressions.vectors import INT64_MAX, Value, arrow_operand, bound, dtype_of, is_wide, null_of, widened
from stretto.expressions.zones import MICROS_PER_SECOND

#: Decimals of so many digits are longs in Spark.
_LONG_DIGITS = 18
_TIME_WRITERS = {types.DATE: time_texts.date_writer, types.TIMESTAMP: time_texts.timestamp_writer}


def cast(node: Node, kind: pa.DataType, site: Site) -> Node:
    """Returns the node as another type, or itself if it has that type already."""
    made = of_seen_nulls(_cast(node, kind, site), (node,))
    return noted(node, made if made.folds <= node.folds else replace(made, folds=node.folds))


def _cast(node: Node, kind: pa.DataType, site: Site) -> Node:
    source = node.type
    if source == kind:
        return node
    if source == types.NULL:
        return _void(node, kind, site) if node.fallible else null(kind, site)
    if types.is_nested(source):
        return nested_casts.cast_nested(node, kind, site, cast)
    build = _find(source, kind)
    if build is None:
        raise nested_casts.no_cast(source, kind, site)
    return build(node, kind, site)


def _void(node: Node, kind: pa.DataType, site: Site) -> Node:
    """Returns nulls, after the node has run, which may fail: raise_error('...')."""
    run_inner = node.run

    def run(batch: pa.RecordBatch) -> Value:
        run_inner(batch)
        return null_of(kind)

    return combine(kind, run, site, (node,), fallible=True)


def _find(source: pa.DataType, kind: pa.DataType) -> Callable[[Node, Any, Site], Node] | None:
    if source == types.BOOLEAN and types.is_numeric(kind):
        return _from_boolean
    if types.is_numeric(source):
        if types.is_integral(kind):
            return _number_to_integral
        if types.is_fractional(kind):
            return _number_to_fractional
        if types.is_decimal(kind):
            return _number_to_decimal
        if kind == types.BOOLEAN:
            return lambda node, kind, site: elementwise(
                kind, lambda values: np.asarray(values != 0, np.bool_)[()], site, (node,)
            )
        if kind == types.TIMESTAMP:
            return _number_to_timestamp
    if types.is_temporal(source) and types.is_temporal(kind):
        return _between_times
    if source == types.TIMESTAMP and types.is_numeric(kind):
        return _timestamp_to_number
    if kind == types.STRING:
        return _to_string
    if source == types.STRING:
        return _from_string
    return None


def _from_boolean(node: Node, kind: Any, site: Site) -> Node:
    as_int = elementwise(types.INT, lambda values: values.astype(np.int32), site, (node,))
    return cast(as_int, kind, site)


def _out_of_range(kind: pa.DataType, site: Site) -> Exception:
    name = types.spark_type_name(kind)
    return site.error(f"cast overflow to {name}", f"a value does not fit {name}", "use a wider type")


def _number_to_integral(node: Node, kind: Any, site: Site) -> Node:
    dtype = dtype_of(kind)
    if types.is_integral(node.type) and dtype_of(node.type).itemsize <= dtype.itemsize:
        return elementwise(kind, lambda values: values.astype(dtype), site, (node,))
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    inner, source = node.run, node.type
    # Spark makes a double of a wide decimal on its way to an int, though not to a bigint: 0.99999999999999999999 is 1.
    wide = types.is_decimal(source) and source.precision > _LONG_DIGITS and kind != types.BIGINT
    by_double = wide or types.is_fractional(source)

    def run(batch: pa.RecordBatch) -> Value:
        values, valid = inner(batch)
        if by_double:
            doubles = decimals.to_double(values, source.scale) if types.is_decimal(source) else values
            return _whole(np.trunc(doubles, dtype=np.float64), valid, kind, site), valid
        if types.is_decimal(source):
            values = _truncate_decimal(values, source.scale)
        inside = (values >= low) & (values <= high)
        if not np.all(inside if valid is None else inside | ~valid):
            raise _out_of_range(kind, site)
        if valid is not None:
            values = np.where(inside, values, 0)[()]
        return (values.astype(dtype) if hasattr(values, "astype") else dtype.type(values)), valid

    return combine(kind, run, site, (node,), fallible=True)


def _whole(values: Any, valid: Any, kind: Any, site: Site) -> Any:
    """Returns whole doubles as integers. Java takes 2.0**63, the double next to the largest bigint, for that bigint."""
    dtype = dtype_of(kind)
    low, high = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
    inside = (values >= low) & (values <= high)  # NaN is in no range.
    if not np.all(inside if valid is None else inside | ~valid):
        raise _out_of_range(kind, site)
    if valid is not None:
        values = np.where(inside, values, 0.0)[()]
    if kind != types.BIGINT or not np.any(values == high):
        return values.astype(dtype)
    below = np.where(values == high, 0.0, values).astype(dtype)
    return np.where(values == high, np.iinfo(dtype).max, below)[()]


def _truncate_decimal(values: Any, scale: int) -> Any:
    if scale == 0:
        return values
    divisor = 10**scale
    if scale > _LONG_DIGITS or bound(values) > INT64_MAX:  # The lowest int64 has no magnitude among them.
        values = widened(values)
    return decimals.signed(values < 0, abs(values) // divisor)


def _number_to_fractional(node: Node, kind: Any, site: Site) -> Node:
    dtype = dtype_of(kind)
    if types.is_decimal(node.type):
        scale = node.type.scale
        return elementwise(kind, lambda values: decimals.to_double(values, scale).astype(dtype), site, (node,))
    return elementwise(kind, lambda values: values.astype(dtype), site, (node,))


def _number_to_decimal(node: Node, kind: Any, site: Site) -> Node:
    inner = node.run
    source_scale = 0 if types.is_fractional(node.type) else types.as_decimal(node.type).scale
    fractional = types.is_fractional(node.type)

    def run(batch: pa.RecordBatch) -> Value:
        values, valid = inner(batch)
        if fractional:
            finite = np.isfinite(values)
            if not np.all(finite):
                # Spark makes these NULL, even in ANSI mode.
                valid = finite if valid is None else valid & finite
            unscaled = _unscale_doubles(values, valid, kind)
        else:
            if not is_wide(values):
                values = values.astype(np.int64)
            unscaled = decimals.rescale(values, source_scale, kind.scale)
        return decimals.fit(unscaled, valid, kind, site), valid

    return combine(kind, run, site, (node,), fallible=True)


def _unscale_doubles(values: Any, valid: Any, kind: Any) -> Any:
    """Returns unscaled decimals. Java rounds the text of a double, so 1.255 becomes 1.26; a float is a double first."""
    if valid is not None:
        values = np.where(valid, values, 0.0)[()]
    scale = kind.scale

    def unscale(value: Any) -> int:
        unscaled = rounded_at(abs(float(value)), scale)
        return -unscaled if value < 0 else unscaled

    return np.frompyfunc(unscale, 1, 1)(values)


def _between_times(node: Node, kind: Any, site: Site) -> Node:
    return date_to_timestamp(node, site) if kind == types.TIMESTAMP else timestamp_to_date(node, site)


def _timestamp_to_number(node: Node, kind: Any, site: Site) -> Node:
    if types.is_fractional(kind):
        dtype = dtype_of(kind)
        return elementwise(kind, lambda micros: (micros / MICROS_PER_SECOND).astype(dtype), site, (node,))
    seconds = elementwise(types.BIGINT, lambda micros: micros // MICROS_PER_SECOND, site, (node,))
    if types.is_decimal(kind):
        unscaled = elementwise(pa.decimal128(20, 6), lambda micros: micros, site, (node,))
        return cast(unscaled, kind, site)
    return cast(seconds, kind, site)


def _number_to_timestamp(node: Node, kind: Any, site: Site) -> Node:
    """Returns a number of seconds since 1970 as a timestamp."""
    if types.is_fractional(node.type):
        seconds = cast(node, types.DOUBLE, site)
        micros = elementwise(types.DOUBLE, lambda values: values * MICROS_PER_SECOND, site, (seconds,))
        return times_micros(cast(micros, types.BIGINT, site), 1, site)
    if types.is_decimal(node.type):
        return _decimal_to_timestamp(node, site)
    return _saturated_micros(cast(node, types.BIGINT, site), site)


def _saturated_micros(node: Node, site: Site) -> Node:
    """Returns seconds as a timestamp: the first or the last of all where it would be out of range, as in Spark."""
    limit = INT64_MAX // MICROS_PER_SECOND

    def apply(values: Any) -> Any:
        micros = values * np.int64(MICROS_PER_SECOND)
        if bound(values) <= limit:
            return micros
        return np.where(values > limit, INT64_MAX, np.where(values < -limit, -INT64_MAX - 1, micros))[()]

    return elementwise(types.TIMESTAMP, apply, site, (node,))


#: Java's MathContext.DECIMAL128, to which Spark rounds the product of seconds and a million.
_DECIMAL128 = Context(prec=34)
_of_34_digits = np.frompyfunc(lambda value: int(_DECIMAL128.create_decimal(int(value))), 1, 1)


def _decimal_to_timestamp(node: Node, site: Site) -> Node:
    """Returns a decimal number of seconds as a timestamp; what is below a microsecond is cut off, not rounded, and of
    what does not fit only the lowest 64 bits are kept, as in Spark."""
    scale = node.type.scale

    def whole_micros(values: Any) -> Any:
        values = _of_34_digits(values) if is_wide(values) else values.astype(np.int64)
        micros = _truncate_decimal(decimals.scale_up(values, max(0, 6 - scale)), max(0, scale - 6))
        if not is_wide(micros):
            return micros
        return np.asarray((micros + 2**63) % 2**64 - 2**63, np.int64)[()]

    return elementwise(types.TIMESTAMP, whole_micros, site, (node,))


def times_micros(node: Node, factor: int, site: Site) -> Node:
    """Returns a bigint, in some unit since 1970, as a timestamp."""
    inner, limit = node.run, INT64_MAX // factor

    def run(batch: pa.RecordBatch) -> Value:
        values, valid = inner(batch)
        if factor > 1 and bound(values) > limit:
            over = (values > limit) | (values < -limit)
            if np.any(over if valid is None else over & valid):
                raise _out_of_range(types.TIMESTAMP, site)
        return values * np.int64(factor), valid

    if factor == 1:
        return elementwise(types.TIMESTAMP, lambda values: values, site, (node,))
    return combine(types.TIMESTAMP, run, site, (node,), fallible=True)


def _to_string(node: Node, kind: Any, site: Site) -> Node:
    source = node.type
    if source == types.BOOLEAN or types.is_integral(source):
        return kernel(kind, lambda values: pc.cast(values, types.STRING), site, (node,))
    if source == types.BINARY:
        return kernel(kind, lambda values: _decoded(values, site), site, (node,), fallible=True)
    if types.is_temporal(source):
        return time_texts.written(node, _TIME_WRITERS[source](), site)
    if types.is_fractional(source):
        return written(node, texts.java_double if source == types.DOUBLE else texts.java_float, site)
    if is_interval(source):
        return written(node, interval_text(fields_of(node)), site)
    if types.is_decimal(source):
        return written(node, texts.plain_decimal(source.scale), site)
    raise site.error(f"cannot cast {types.spark_type_name(source)} to string")


def _decoded(values: Any, site: Site) -> Any:
    try:
        return pc.cast(values, types.STRING)
    except pa.ArrowInvalid:
        raise site.error(
            "bytes that are not UTF-8", "a string here has no other bytes", "use decode(value, 'ISO-8859-1') or hex()"
        ) from None


def written(node: Node, write: Callable[[Any], str], site: Site) -> Node:
    """Returns text by one Python call per row; only for texts that no kernel writes as Java does."""
    inner, vectorised = node.run, np.frompyfunc(write, 1, 1)

    def run(batch: pa.RecordBatch) -> Value:
        values, valid = inner(batch)
        if np.ndim(values) == 0 and (valid is None or np.ndim(valid) == 0):
            return pa.scalar(write(values) if valid is None or valid else None, types.STRING), None
        written = np.broadcast_to(vectorised(values), np.shape(values) or np.shape(valid))
        return pa.array(
            written, types.STRING, mask=None if valid is None else ~np.broadcast_to(valid, written.shape)
        ), None

    return combine(types.STRING, run, site, (node,))


def _from_string(node: Node, kind: Any, site: Site) -> Node:
    if kind == types.BINARY:
        return kernel(kind, lambda strings: pc.cast(strings, types.BINARY), site, (node,))
    parse = texts.parser(kind)
    if parse is None:
        raise site.error(f"cannot cast string to {types.spark_type_name(kind)}")
    if types.is_temporal(kind) and str(known(node)).strip().lower() == "epoch":
        return constant(kind, (dtype_of(kind).type(0), None), site)  # Only as a constant, as in Spark.
    inner, name = node.run, types.spark_type_name(kind)

    def run(batch: pa.RecordBatch) -> Value:
        strings = arrow_operand(inner(batch), types.STRING)
        try:
            return parse(strings)
        except texts.Unreadable as error:
            raise site.error(
                f"cannot cast {error.text!r} to {name}", f"it is not a {name}", "clean it first, or use map()"
            ) from None

    return combine(kind, run, site, (node,), fallible=True)
