"""Accumulators: the partial columns that an aggregate keeps per group.

`lift` turns the rows of each group into a partial (one value per group in each column), `merge` turns several partials
of each group into one, `finish` makes the result. Counts, sums, extremes and averages are of constant size; distinct
values, quantiles and collected values are lists that grow. Nulls are ignored as in SQL, and NaN is the greatest
number, as in Spark.
"""

from __future__ import annotations

import copy
import decimal
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stretto.errors import ExpressionError, FunctionError, PlanError
from stretto.operators.grouping import (
    INT64_MAX,
    Bools,
    Column,
    Groups,
    Int64s,
    fixed_array,
    fixed_values,
    group,
    order_codes,
    physical_dtype,
    plain_type,
    take_column,
    valid_rows,
)
from stretto.operators.user_aggregate import UserAggregate, value_column
from stretto.rendering import traceback_of

_INT64 = np.dtype(np.int64)
_LOW_32 = 0xFFFFFFFF
# Integers of this many decimal digits are exact in a double.
_EXACT_DIGITS = 15
_WIDE = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)


class Scalar(Protocol):
    """A compiled expression: one value per row."""

    @property
    def type(self) -> pa.DataType: ...

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array: ...


class Call(Protocol):
    """A compiled call of an aggregate function, such as `expressions.AggregateCall`."""

    @property
    def name(self) -> str: ...
    @property
    def function(self) -> str: ...
    @property
    def argument(self) -> Scalar | None: ...
    @property
    def ordering(self) -> Scalar | None: ...
    @property
    def parameter(self) -> Any: ...
    @property
    def type(self) -> pa.DataType: ...


class Accumulator:
    """One aggregate over groups of rows. `arity` is the number of input columns, `width` that of partial columns.

    `objects` is true if partials are Python objects, in numpy arrays rather than in Arrow arrays.
    """

    arity = 1
    objects = False

    def __init__(self, name: str, result: pa.DataType, partials: Sequence[pa.DataType]) -> None:
        self.name = name
        self.result = result
        self.partials = tuple(partials)

    @property
    def width(self) -> int:
        return len(self.partials)

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        """Returns a partial of each group from its rows."""
        raise NotImplementedError

    def merge(self, groups: Groups, partials: Sequence[Column]) -> list[Column]:
        """Returns one partial of each group from several; by default partials are merged like rows."""
        return self.lift(groups, partials)

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        """Returns the results, of the declared type."""
        raise NotImplementedError


def accumulator(call: Call | UserAggregate) -> Accumulator:
    """Returns the accumulator of an aggregate call."""
    if isinstance(call, UserAggregate):
        return UserDefined(call)
    name, result, argument = call.name, call.type, call.argument
    if call.function == "count":
        return Count(name, result, argument is not None)
    if argument is None:
        raise PlanError(f"{call.function} needs an argument", None, f"Write {call.function}(column).")
    kind = plain_type(argument.type)
    match call.function:
        case "sum":
            return DecimalSum(name, result, kind) if pa.types.is_decimal(kind) else Sum(name, result)
        case "avg":
            return DecimalAverage(name, result, kind) if pa.types.is_decimal(kind) else Average(name, result)
        case "min" | "max":
            return Extreme(name, result, kind, call.function == "max")
        case "max_by" | "min_by":
            if call.ordering is None:
                raise PlanError(f"{call.function} needs two arguments", None, "Give a value and a value to order by.")
            return ExtremeBy(name, result, kind, plain_type(call.ordering.type), call.function == "max_by")
        case "count_distinct":
            return CountDistinct(name, result, kind)
        case "top_k":
            return TopK(name, result, kind, int(call.parameter))
        case "quantile":
            return Quantile(name, result, float(call.parameter))
        case "collect":
            return Collect(name, result, kind)
    raise PlanError(
        "the aggregate function is unknown",
        repr(call.function),
        "Use one of count, sum, min, max, avg, count_distinct, top_k, quantile, collect, max_by, min_by.",
    )


def _reduce(
    ufunc: Any, groups: Groups, values: npt.NDArray[Any], valid: Bools | None, identity: Any
) -> tuple[npt.NDArray[Any], Bools | None]:
    """Returns the values of each group reduced by the ufunc, and which groups had any value (None: all)."""
    index = groups.index
    if valid is not None:
        values, index = values[valid], index[valid]
    if groups.count == 1 and len(values):
        return np.array([ufunc.reduce(values)], values.dtype), None
    result = np.full(groups.count, identity, values.dtype)
    with np.errstate(invalid="ignore"):  # NaN is an ordinary value here
        ufunc.at(result, index, values)
    return result, None if valid is None else np.bincount(index, minlength=groups.count) > 0


def _identity(dtype: np.dtype[Any], largest: bool) -> Any:
    if dtype.kind == "f":
        return -np.inf if largest else np.inf
    info = np.iinfo(dtype)
    return info.min if largest else info.max


def extremes(
    groups: Groups, values: npt.NDArray[Any], valid: Bools | None, largest: bool
) -> tuple[npt.NDArray[Any], Bools | None]:
    """Returns the greatest or least value of each group, with NaN as the greatest, and which groups had any."""
    ufunc = np.maximum if largest else np.minimum
    if not largest and values.dtype.kind == "f":
        missing = np.isnan(values)
        if missing.any():
            return _least_with_nan(groups, values, missing, valid)
    return _reduce(ufunc, groups, values, valid, _identity(values.dtype, largest))


def _least_with_nan(
    groups: Groups, values: npt.NDArray[Any], missing: Bools, valid: Bools | None
) -> tuple[npt.NDArray[Any], Bools | None]:
    numbers = ~missing if valid is None else valid & ~missing
    least, found = _reduce(np.minimum, groups, values, numbers, np.inf)
    if found is not None:
        least[~found] = np.nan
    if valid is None:
        return least, None
    return least, np.bincount(groups.index[valid], minlength=groups.count) > 0


class Count(Accumulator):
    """count(*) and count(x)."""

    def __init__(self, name: str, result: pa.DataType, counts_values: bool) -> None:
        super().__init__(name, result, [pa.int64()])
        self.arity = 1 if counts_values else 0

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        if inputs and inputs[0].null_count:
            counts = np.bincount(groups.index[valid_rows(inputs[0])], minlength=groups.count)
        else:
            counts = groups.sizes
        return [fixed_array(counts.astype(np.int64, copy=False), pa.int64())]

    def merge(self, groups: Groups, partials: Sequence[Column]) -> list[Column]:
        counts, _ = _reduce(np.add, groups, fixed_values(partials[0], _INT64), None, 0)
        return [fixed_array(counts, pa.int64())]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        return _cast(partials[0], self.result)


class Sum(Accumulator):
    """sum of integers, exact, or of floats, in doubles.

    An integer sum is kept in 64 bits and a carry, so that only a final result that does not fit raises, as in Spark's
    ANSI mode, and not a partial sum.
    """

    def __init__(self, name: str, result: pa.DataType) -> None:
        self._floating = pa.types.is_floating(result)
        super().__init__(name, result, [pa.float64()] if self._floating else [pa.int64(), pa.int64()])

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        values, valid = _numbers(inputs[0])
        if self._floating:
            return [_float_sums(groups, values.astype(np.float64, copy=False), valid)]
        return _carried_sums(groups, values.astype(np.int64, copy=False), valid)

    def merge(self, groups: Groups, partials: Sequence[Column]) -> list[Column]:
        sums = self.lift(groups, partials[:1])
        if self._floating:
            return sums
        carries = fixed_values(partials[1], _INT64)
        if carries.any():
            more, _ = _reduce(np.add, groups, carries, None, 0)
            sums[1] = fixed_array(fixed_values(sums[1], _INT64) + more, pa.int64())
        return sums

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        if not self._floating and fixed_values(partials[1], _INT64).any():
            raise ExpressionError(
                "a sum does not fit into a bigint",
                f"the aggregate '{self.name}'",
                "CAST the argument to DOUBLE or a DECIMAL.",
            )
        return _cast(partials[0], self.result)


def _numbers(array: pa.Array) -> tuple[npt.NDArray[Any], Bools | None]:
    dtype = physical_dtype(array.type)
    if dtype is None:
        array = array.cast(pa.float64() if pa.types.is_decimal(array.type) else pa.int64())
        dtype = np.dtype(np.float64 if pa.types.is_floating(array.type) else np.int64)
    return fixed_values(array, dtype), valid_rows(array)


def _float_sums(groups: Groups, values: npt.NDArray[np.float64], valid: Bools | None) -> pa.Array:
    if valid is None:
        return fixed_array(np.bincount(groups.index, values, groups.count), pa.float64())
    index = groups.index[valid]
    sums = np.bincount(index, values[valid], groups.count)
    return fixed_array(sums, pa.float64(), np.bincount(index, minlength=groups.count) > 0)


def _carried_sums(groups: Groups, values: Int64s, valid: Bools | None) -> list[Column]:
    """Returns the low 64 bits of each sum, and how often 2**64 must be added."""
    if len(values) and max(-int(values.min()), int(values.max())) * len(values) > INT64_MAX:
        low, found = _reduce(np.add, groups, values & _LOW_32, valid, 0)
        high, _ = _reduce(np.add, groups, values >> 32, valid, 0)
        high = high + (low >> 32)
        sums = (high << 32) | (low & _LOW_32)
        carries = (high - (sums >> 32)) >> 32
    else:
        sums, found = _reduce(np.add, groups, values, valid, 0)
        carries = np.zeros(groups.count, np.int64)
    return [fixed_array(sums, pa.int64(), found), fixed_array(carries, pa.int64())]


class Average(Accumulator):
    """avg of numbers, as a double."""

    def __init__(self, name: str, result: pa.DataType) -> None:
        super().__init__(name, result, [pa.float64(), pa.int64()])

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        values, valid = _numbers(inputs[0])
        index = groups.index
        if valid is None:
            counts = groups.sizes
        else:
            values, index = values[valid], index[valid]
            counts = np.bincount(index, minlength=groups.count)
        sums = np.bincount(index, values.astype(np.float64, copy=False), groups.count)
        return [fixed_array(sums, pa.float64()), fixed_array(counts.astype(np.int64, copy=False), pa.int64())]

    def merge(self, groups: Groups, partials: Sequence[Column]) -> list[Column]:
        sums = np.bincount(groups.index, fixed_values(partials[0], np.dtype(np.float64)), groups.count)
        counts, _ = _reduce(np.add, groups, fixed_values(partials[1], _INT64), None, 0)
        return [fixed_array(sums, pa.float64()), fixed_array(counts, pa.int64())]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        sums = fixed_values(partials[0], np.dtype(np.float64))
        counts = fixed_values(partials[1], _INT64)
        found = counts > 0
        averages = sums / np.maximum(counts, 1)
        return _cast(fixed_array(averages, pa.float64(), None if found.all() else found), self.result)


class DecimalSum(Accumulator):
    """sum of decimals, exact."""

    def __init__(self, name: str, result: pa.DataType, argument: pa.DataType) -> None:
        super().__init__(name, result, [pa.decimal128(38, argument.scale)])

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        return [_decimal_sums(groups, inputs[0], self.partials[0], self.name)]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        try:
            return partials[0].cast(self.result)
        except pa.ArrowInvalid as error:
            raise _decimal_overflow(self.name, str(error)) from None


def _decimal_overflow(name: str, detail: str) -> ExpressionError:
    return ExpressionError(
        "a sum does not fit into its decimal type", f"the aggregate '{name}': {detail}", "CAST the argument to DOUBLE."
    )


def _decimal_sums(groups: Groups, array: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    """Returns exact sums: each 32-bit limb of a decimal is summed in 64 bits, and Python combines the limbs."""
    words = fixed_values(array.cast(kind), np.dtype("<u8,<u8"))
    valid = valid_rows(array)
    low, high = words["f0"], words["f1"].view(np.int64)
    mask = np.uint64(_LOW_32)
    limbs = ((low & mask).astype(np.int64), (low >> np.uint64(32)).astype(np.int64), high & _LOW_32, high >> 32)
    found: Bools | None = None
    totals = np.zeros(groups.count, object)
    for place, limb in enumerate(limbs):
        sums, found = _reduce(np.add, groups, limb, valid, 0)
        totals += sums.astype(object) * (1 << (32 * place))
    limit = 10**38
    if any(not -limit < total < limit for total in totals):
        raise _decimal_overflow(name, "more than 38 digits")
    values = [decimal.Decimal(total).scaleb(-kind.scale, _WIDE) for total in totals]
    return pa.array(values, kind, mask=None if found is None else ~found)


class DecimalAverage(Accumulator):
    """avg of decimals: the exact sum by the count, rounded half up to the declared scale."""

    def __init__(self, name: str, result: pa.DataType, argument: pa.DataType) -> None:
        super().__init__(name, result, [pa.decimal128(38, argument.scale), pa.int64()])

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        valid = valid_rows(inputs[0])
        counts = groups.sizes if valid is None else np.bincount(groups.index[valid], minlength=groups.count)
        sums = _decimal_sums(groups, inputs[0], self.partials[0], self.name)
        return [sums, fixed_array(counts.astype(np.int64, copy=False), pa.int64())]

    def merge(self, groups: Groups, partials: Sequence[Column]) -> list[Column]:
        counts, _ = _reduce(np.add, groups, fixed_values(partials[1], _INT64), None, 0)
        return [_decimal_sums(groups, partials[0], self.partials[0], self.name), fixed_array(counts, pa.int64())]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        unit = decimal.Decimal(1).scaleb(-self.result.scale)
        averages = [
            None if total is None else _WIDE.divide(total, decimal.Decimal(count)).quantize(unit, context=_WIDE)
            for total, count in zip(partials[0].to_pylist(), partials[1].to_pylist(), strict=True)
        ]
        return pa.array(averages, self.result)


class Extreme(Accumulator):
    """min and max of ordered values."""

    def __init__(self, name: str, result: pa.DataType, argument: pa.DataType, largest: bool) -> None:
        super().__init__(name, result, [argument])
        self._largest = largest
        self._dtype = physical_dtype(argument)

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        array = inputs[0]
        if self._dtype is None:
            rows, found = winners(groups, order_codes(array), valid_rows(array), self._largest)
            return [take_column(array, rows, found)]
        values, found = extremes(groups, fixed_values(array, self._dtype), valid_rows(array), self._largest)
        return [fixed_array(values, array.type, found)]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        return _cast(partials[0], self.result)


def winners(
    groups: Groups, codes: Int64s, valid: Bools | None, largest: bool
) -> tuple[npt.NDArray[np.intp], Bools | None]:
    """Returns for each group a row with the greatest or least code, and which groups have one."""
    best, found = extremes(groups, codes, valid, largest)
    hit = codes == best[groups.index]
    if valid is not None:
        hit &= valid
    hits = np.flatnonzero(hit)
    rows = np.zeros(groups.count, np.intp)
    rows[groups.index[hits]] = hits
    return rows, found


class ExtremeBy(Accumulator):
    """max_by and min_by; of tied values the greatest or the least, so that the order of arrival does not matter."""

    arity = 2

    def __init__(
        self, name: str, result: pa.DataType, argument: pa.DataType, ordering: pa.DataType, largest: bool
    ) -> None:
        super().__init__(name, result, [argument, ordering])
        self._largest = largest

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        values, ordering = inputs
        valid = valid_rows(ordering)
        codes = order_codes(ordering)
        best, _ = extremes(groups, codes, valid, self._largest)
        hit = codes == best[groups.index]
        if valid is not None:
            hit &= valid
        hits = np.flatnonzero(hit)
        ties = Groups(groups.index[hits], groups.count)
        chosen, _ = winners(ties, order_codes(take_column(values, hits)), None, self._largest)
        found = None if valid is None else ties.sizes > 0
        rows = hits[chosen] if len(hits) else chosen
        return [take_column(values, rows, found), take_column(ordering, rows, found)]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        return _cast(partials[0], self.result)


class _Listed(Accumulator):
    """Aggregates that keep a list of values per group."""

    def __init__(self, name: str, result: pa.DataType, item: pa.DataType) -> None:
        super().__init__(name, result, [pa.large_list(item)])
        self._item = item

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        array, index = inputs[0], groups.index
        if array.null_count:
            index = index[valid_rows(array)]
            array = array.drop_null()
        return [self._listed(Groups(index, groups.count), _cast(array, self._item))]

    def merge(self, groups: Groups, partials: Sequence[Column]) -> list[Column]:
        lengths = partials[0].value_lengths().to_numpy()
        return [self._listed(Groups(np.repeat(groups.index, lengths), groups.count), partials[0].flatten())]

    def _listed(self, groups: Groups, values: pa.Array) -> pa.Array:
        return self._lists(groups.sizes, take_column(values, groups.order))

    def _lists(self, sizes: npt.NDArray[Any], values: pa.Array) -> pa.Array:
        offsets = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        return pa.LargeListArray.from_arrays(pa.array(offsets), values, type=self.partials[0])

    def _sorted(self, lists: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
        """Returns the lengths of the lists, and their values sorted within each."""
        lengths = lists.value_lengths().to_numpy()
        values = lists.flatten()
        owner = np.repeat(np.arange(len(lists)), lengths)
        return lengths, take_column(values, np.lexsort((order_codes(values), owner)))


class CountDistinct(_Listed):
    """count(distinct x): each group keeps each of its values once."""

    def _listed(self, groups: Groups, values: pa.Array) -> pa.Array:
        pairs = group([values], len(values), groups.index.astype(np.int64, copy=False))
        rows = pairs.sample
        return self._lists(np.bincount(groups.index[rows], minlength=groups.count), take_column(values, rows))

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        return _cast(partials[0].value_lengths(), self.result)


class TopK(_Listed):
    """The k greatest values, in descending order."""

    def __init__(self, name: str, result: pa.DataType, item: pa.DataType, k: int) -> None:
        super().__init__(name, result, item)
        self._k = k

    def _listed(self, groups: Groups, values: pa.Array) -> pa.Array:
        order = np.lexsort((~order_codes(values), groups.index))
        place = np.arange(len(order)) - np.repeat(groups.starts[:-1], groups.sizes)
        return self._lists(np.minimum(groups.sizes, self._k), take_column(values, order[place < self._k]))

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        return _cast(partials[0], self.result)


class Collect(_Listed):
    """All values, sorted: sort_array(collect_list(x))."""

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        lengths, values = self._sorted(partials[0])
        return _cast(self._lists(lengths, values), self.result)


class Quantile(_Listed):
    """An exact quantile with linear interpolation, as Spark's percentile."""

    def __init__(self, name: str, result: pa.DataType, q: float) -> None:
        super().__init__(name, result, pa.float64())
        self._q = q

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        array = inputs[0]
        return super().lift(groups, [_doubles(array) if pa.types.is_decimal(array.type) else array])

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        lengths, ordered = self._sorted(partials[0])
        values = fixed_values(ordered, np.dtype(np.float64))
        found = lengths > 0
        if not len(values):
            return pa.nulls(len(lengths), self.result)
        starts = np.cumsum(lengths) - lengths
        position = np.where(found, self._q * (lengths - 1), 0.0)
        below, above = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
        last = len(values) - 1
        low, high = values[np.minimum(starts + below, last)], values[np.minimum(starts + above, last)]
        with np.errstate(invalid="ignore"):
            between = low + (high - low) * (position - below)
        quantiles = np.where((below == above) | (low == high), low, between)
        return _cast(fixed_array(quantiles, pa.float64(), None if found.all() else found), self.result)


def _doubles(array: pa.Array) -> pa.Array:
    """Returns the nearest doubles to decimals; Arrow's own cast is sometimes off by one bit."""
    if array.type.precision > _EXACT_DIGITS:
        return pa.array([None if value is None else float(value) for value in array.to_pylist()], pa.float64())
    units = fixed_values(array.cast(pa.decimal128(38, array.type.scale)), np.dtype("<i8,<i8"))["f0"]
    return fixed_array(units / 10.0**array.type.scale, pa.float64(), valid_rows(array))


class UserDefined(Accumulator):
    """A user's own aggregate: one Python object per group, `add` once per group and flush."""

    objects = True

    def __init__(self, aggregate: UserAggregate) -> None:
        super().__init__(aggregate.name, aggregate.type, [pa.null()])
        if not aggregate.columns:
            raise PlanError(
                f"the aggregate '{aggregate.name}' reads no column", None, "Name the columns that it reads."
            )
        self._aggregate = aggregate
        self.arity = len(aggregate.columns)

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        aggregate = self._aggregate
        ordered = [take_column(column, groups.order) for column in inputs]
        rows = pa.RecordBatch.from_arrays(ordered, names=list(aggregate.columns))
        starts = groups.starts.tolist()
        partials = np.empty(groups.count, object)
        for number in range(groups.count):
            part = rows.slice(starts[number], starts[number + 1] - starts[number])
            partials[number] = self._run("add", aggregate.add, self._run("init", aggregate.init), part)
        return [partials]

    def merge(self, groups: Groups, partials: Sequence[Column]) -> list[Column]:
        ordered, starts = partials[0][groups.order], groups.starts.tolist()
        result = np.empty(groups.count, object)
        for number in range(groups.count):
            first, *others = ordered[starts[number] : starts[number + 1]]
            if others:  # `combine` may change its first argument, which another window may still need
                first = copy.deepcopy(first)
            for other in others:
                first = self._run("combine", self._aggregate.combine, first, other)
            result[number] = first
        return [result]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        values = [self._run("finish", self._aggregate.finish, partial) for partial in partials[0]]
        return value_column(self._aggregate, values)

    def _run(self, part: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            raise FunctionError(
                f"`{part}` of the aggregate '{self.name}' raised", traceback_of(error), "Fix the function."
            ) from None


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns the array in the declared type; times are truncated to microseconds, as in Spark."""
    if array.type == kind:
        return array
    if pa.types.is_timestamp(kind) and array.type.unit == "ns":
        return fixed_array(fixed_values(array, _INT64) // 1_000, pa.timestamp("us"), valid_rows(array)).cast(kind)
    return pc.cast(array, kind)
