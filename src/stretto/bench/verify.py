"""Compares two tables as multisets of rows, with witnesses when they differ.

Rows have no order and columns are matched by name. Integers, text, times and decimals must be equal (whatever their
width or encoding), floating-point numbers within a relative tolerance; a null equals a null and a NaN a NaN; a row
that is repeated counts as often as it occurs. An expected table without columns is an error, and the
verdict says when it has no rows.

Method: every row of both tables gets a group number, refined column by column, so that two rows share a group exactly
when they are equal. The comparison then counts the two sides of each group. Floating-point columns refine
last, splitting a group at every gap wider than the tolerance. A chain of close values can make a group whose ends are
not close; the rows of such a group are paired one by one. With several floating-point columns such a pairing may
miss a better one, and so call a match a mismatch, but never the reverse.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stretto.errors import UserError

RELATIVE_TOLERANCE = 1e-9
# Example rows kept for each side of a mismatch.
WITNESSES_PER_SIDE = 3

# From coarse to fine.
_TIME_UNITS = ("s", "ms", "us", "ns")

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class Match(Enum):
    MATCH = "match"
    MISMATCH = "mismatch"


class Side(Enum):
    """How a witness differs."""

    MISSING = "expected, but missing"
    EXTRA = "not expected"
    SCHEMA = "schema"
    ORDER = "out of order"


@dataclass(frozen=True, slots=True)
class Witness:
    """One example of a difference: a row of one side, or for SCHEMA the column and what is wrong with it.

    For ORDER, it is a row that came where another row of its key was expected; `compare` ignores the order."""

    side: Side
    row: Mapping[str, Any]

    def describe(self) -> str:
        return f"{self.side.value}: " + ", ".join(f"{name}={value}" for name, value in self.row.items())


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a comparison. `missing` and `extra` count rows with no partner on the other side."""

    match: Match
    rows_actual: int
    rows_expected: int
    missing: int
    extra: int
    witness: tuple[Witness, ...] = ()

    def describe(self) -> str:
        if self.match is Match.MATCH:
            caution = "" if self.rows_expected else " (both sides are empty: this shows little)"
            return f"match: {self.rows_expected:,} rows{caution}"
        counts = f"{self.rows_actual:,} rows, expected {self.rows_expected:,}"
        head = f"mismatch: {counts}; {self.missing:,} missing, {self.extra:,} extra"
        return "\n".join([head, *(f"  {witness.describe()}" for witness in self.witness)])


def compare(actual: pa.Table, expected: pa.Table) -> Verdict:
    """Compare two tables as multisets of rows; see the module's docstring for what counts as equal."""
    if not expected.column_names:
        raise UserError("nothing to verify against", "the expected table has no columns", "Check the oracle.")
    differences = _schema_differences(actual.schema, expected.schema)
    if differences:
        return _verdict(actual, expected, expected.num_rows, actual.num_rows, tuple(differences))
    missing, extra = _Stacked(actual, expected).unpaired()
    witness = (
        *(Witness(Side.MISSING, _row(expected, i)) for i in missing[:WITNESSES_PER_SIDE].tolist()),
        *(Witness(Side.EXTRA, _row(actual, i)) for i in extra[:WITNESSES_PER_SIDE].tolist()),
    )
    return _verdict(actual, expected, len(missing), len(extra), witness)


def _verdict(actual: pa.Table, expected: pa.Table, missing: int, extra: int, witness: tuple[Witness, ...]) -> Verdict:
    match = Match.MISMATCH if witness else Match.MATCH
    return Verdict(match, actual.num_rows, expected.num_rows, missing, extra, witness)


# Schemas


def _schema_differences(actual: pa.Schema, expected: pa.Schema) -> list[Witness]:
    for side, schema in (("actual", actual), ("expected", expected)):
        repeated = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if repeated:
            raise UserError("columns are matched by name", f"the {side} table has {repeated[0]!r} more than once")
    return list(_differing_columns(actual, expected))


def _differing_columns(actual: pa.Schema, expected: pa.Schema) -> Iterator[Witness]:
    for name in expected.names:
        if name not in actual.names:
            yield Witness(Side.SCHEMA, {name: f"missing, expected {expected.field(name).type}"})
        elif _common_type(actual.field(name).type, expected.field(name).type) is None:
            types = f"{actual.field(name).type}, expected {expected.field(name).type}"
            yield Witness(Side.SCHEMA, {name: types})
    for name in actual.names:
        if name not in expected.names:
            yield Witness(Side.SCHEMA, {name: f"{actual.field(name).type}, not expected"})


def _common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which values of both types are compared without loss; None where there is no such type."""
    left, right = _canonical(left), _canonical(right)
    if pa.types.is_decimal(left) and pa.types.is_decimal(right):
        scale = max(left.scale, right.scale)
        whole = max(left.precision - left.scale, right.precision - right.scale)
        return pa.decimal256(whole + scale, scale) if whole + scale <= 76 else None
    if pa.types.is_timestamp(left) and pa.types.is_timestamp(right) and left.tz == right.tz:
        return max(left, right, key=lambda kind: _TIME_UNITS.index(kind.unit))
    if left == right and not pa.types.is_nested(left):
        return left
    return None


def _canonical(kind: pa.DataType) -> pa.DataType:
    """One representative for types that differ only in width, zone or encoding."""
    types = pa.types
    if types.is_dictionary(kind):
        return _canonical(kind.value_type)
    if types.is_integer(kind):
        # An unsigned 64-bit value may not fit; the cast then raises an error.
        return pa.int64()
    if types.is_floating(kind):
        return pa.float64()
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_timestamp(kind):
        # Times with any zone are comparable instants; a time without a zone is not.
        return pa.timestamp(kind.unit, tz="UTC" if kind.tz else None)
    return kind


# Rows


class _Stacked:
    """Both tables concatenated: rows below `split` are the actual ones."""

    def __init__(self, actual: pa.Table, expected: pa.Table) -> None:
        self.split = actual.num_rows
        self.group = np.zeros(actual.num_rows + expected.num_rows, dtype=np.int64)
        self.floats: list[Floats] = []
        for name in expected.column_names:
            left, right = actual.column(name), expected.column(name)
            common = _common_type(left.type, right.type)
            column = pa.chunked_array([*left.cast(common).chunks, *right.cast(common).chunks], type=common)
            if pa.types.is_float64(common):
                self._set_floats_aside(column)
            else:
                self._refine(_codes(column))

    def unpaired(self) -> tuple[Ints, Ints]:
        """The expected rows that are missing and the actual rows that are extra, as row numbers of each table."""
        for values in self.floats:
            self._split_at_gaps(values)
        groups = int(self.group.max(initial=-1)) + 1
        counts = [np.bincount(side, minlength=groups) for side in (self.group[: self.split], self.group[self.split :])]
        chained = self._chained(groups)
        missing = self._surplus(self.split, len(self.group), np.where(chained, 0, counts[1] - counts[0]))
        extra = self._surplus(0, self.split, np.where(chained, 0, counts[0] - counts[1]))
        pairings = [self._pair_chain(rows) for rows in self._rows_by_group(chained)]
        missing = np.concatenate([missing, *(left for left, _ in pairings)])
        extra = np.concatenate([extra, *(left for _, left in pairings)])
        return np.sort(missing) - self.split, np.sort(extra)

    def _refine(self, codes: Ints) -> None:
        """Split every group by the codes of one more column. Both factors are below 2**31, so nothing overflows."""
        pairs = self.group * (int(codes.max(initial=0)) + 1) + codes
        self.group = _codes(pa.chunked_array([pa.array(pairs)]))

    def _set_floats_aside(self, column: pa.ChunkedArray) -> None:
        """Refine by special values (null, NaN, infinite); keep the finite values for later."""
        nulls = column.is_null().to_numpy()
        values: Floats = column.fill_null(0.0).to_numpy().copy()
        special = np.select([nulls, np.isnan(values), values == np.inf, values == -np.inf], [1, 2, 3, 4], 0)
        values[special > 0] = 0.0
        self._refine(special.astype(np.int64))
        self.floats.append(values)

    def _split_at_gaps(self, values: Floats) -> None:
        order = np.lexsort((values, self.group))
        group, value = self.group[order], values[order]
        boundary = np.ones(len(order), dtype=bool)
        boundary[1:] = (group[1:] != group[:-1]) | ~_close(value[1:], value[:-1])
        self.group[order] = np.cumsum(boundary) - 1

    def _chained(self, groups: int) -> Bools:
        """Returns which groups contain a pair of values that are not close, although neighbours are."""
        chained = np.zeros(groups, dtype=bool)
        for values in self.floats:
            low, high = np.full(groups, np.inf), np.full(groups, -np.inf)
            np.minimum.at(low, self.group, values)
            np.maximum.at(high, self.group, values)
            chained |= ~_close(low, high)
        return chained

    def _surplus(self, start: int, stop: int, surplus: Ints) -> Ints:
        """For each group with a positive surplus, that many of its rows among [start, stop)."""
        rows = np.flatnonzero(surplus[self.group[start:stop]] > 0) + start
        rows = rows[np.argsort(self.group[rows], kind="stable")]
        group = self.group[rows]
        rank = np.arange(len(rows)) - np.searchsorted(group, group)
        kept: Ints = rows[rank < surplus[group]]
        return kept

    def _rows_by_group(self, wanted: Bools) -> Iterator[Ints]:
        rows = np.flatnonzero(wanted[self.group])
        rows = rows[np.argsort(self.group[rows], kind="stable")]
        yield from np.split(rows, np.flatnonzero(np.diff(self.group[rows])) + 1) if len(rows) else ()

    def _pair_chain(self, rows: Ints) -> tuple[Ints, Ints]:
        """Pair each expected row with the lowest actual row in reach; return what is left of both sides."""
        ladder = self.floats[0]
        rows = rows[np.argsort(ladder[rows], kind="stable")]
        waiting = deque(rows[rows < self.split].tolist())
        missing: list[int] = []
        extra: list[int] = []
        for row in rows[rows >= self.split].tolist():
            while waiting and ladder[waiting[0]] < ladder[row] and not _is_close(ladder[waiting[0]], ladder[row]):
                extra.append(waiting.popleft())  # too low for this row, so for all later ones
            partner = self._partner(row, waiting)
            if partner is None:
                missing.append(row)
            else:
                waiting.remove(partner)
        return np.array(missing, dtype=np.int64), np.array([*extra, *waiting], dtype=np.int64)

    def _partner(self, row: int, waiting: Iterable[int]) -> int | None:
        in_reach = takewhile(lambda other: _is_close(self.floats[0][other], self.floats[0][row]), waiting)
        return next((o for o in in_reach if all(_is_close(values[o], values[row]) for values in self.floats)), None)


def _row(table: pa.Table, index: int) -> dict[str, Any]:
    return {name: table.column(name)[index].as_py() for name in table.column_names}


def _codes(column: pa.ChunkedArray) -> Ints:
    """A number for each value, equal for equal values; null is a value like any other."""
    encoded = pc.dictionary_encode(column, null_encoding="encode")  # all chunks share one dictionary
    parts = [chunk.indices.to_numpy() for chunk in encoded.chunks]
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, dtype=np.int64)


def _close(left: Floats, right: Floats) -> Bools:
    """Within the relative tolerance of the larger magnitude. All values are finite."""
    near: Bools = np.abs(left - right) <= RELATIVE_TOLERANCE * np.maximum(np.abs(left), np.abs(right))
    return near


def _is_close(left: float, right: float) -> bool:
    return math.isclose(left, right, rel_tol=RELATIVE_TOLERANCE, abs_tol=0.0)
