"""Variance, skewness and their like: central moments, which are merged without the values they came from.

Spark adds one row after the other, and here a batch is added at once, so that results may differ in the last digits.
Values are first moved by one of the group's own: equal values then have a variance of exactly zero, as in Spark, and
values that are large and close together lose no digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.operators.accumulators.base import FLOAT64, INT64, Accumulator
from stretto.operators.grouping import Bools, Column, Groups, fixed_array, fixed_values, valid_rows

Doubles = npt.NDArray[np.float64]


def _variance(n: Doubles, m2: Doubles, less: int) -> tuple[Doubles, Bools]:
    return m2 / (n - less), n > less


def _skewness(n: Doubles, m2: Doubles, m3: Doubles, m4: Doubles) -> tuple[Doubles, Bools]:
    return np.sqrt(n) * m3 / np.sqrt(m2 * m2 * m2), (n > 0) & (m2 != 0)


def _kurtosis(n: Doubles, m2: Doubles, m3: Doubles, m4: Doubles) -> tuple[Doubles, Bools]:
    return n * m4 / (m2 * m2) - 3.0, (n > 0) & (m2 != 0)


def _root(found: tuple[Doubles, Bools]) -> tuple[Doubles, Bools]:
    return np.sqrt(found[0]), found[1]


MOMENTS: dict[str, Callable[[Doubles, Doubles, Doubles, Doubles], tuple[Doubles, Bools]]] = {
    "var_samp": lambda n, m2, m3, m4: _variance(n, m2, 1),
    "var_pop": lambda n, m2, m3, m4: _variance(n, m2, 0),
    "stddev_samp": lambda n, m2, m3, m4: _root(_variance(n, m2, 1)),
    "stddev_pop": lambda n, m2, m3, m4: _root(_variance(n, m2, 0)),
    "skewness": _skewness,
    "kurtosis": _kurtosis,
}
"""The result of each function from the count and the sums of powers, and where it is not null."""

_ORDERS = {"skewness": 3, "kurtosis": 4}


def _means(index: Any, values: Doubles, weights: Doubles, total: Doubles) -> Doubles:
    """Returns the weighted mean of each group; 0 for a group without values."""
    base = np.zeros(len(total))
    base[index] = values
    moved = (values - base[index]) * weights
    means: Doubles = base + np.bincount(index, moved, len(total)) / np.maximum(total, 1)
    return means


class _Central(Accumulator):
    """Partials: the count, and then means and sums about them."""

    def merge(self, groups: Groups, partials: Sequence[Column]) -> list[Column]:
        counts = fixed_values(partials[0], INT64)
        some = counts > 0
        columns = [counts.astype(np.float64), *(fixed_values(column, FLOAT64) for column in partials[1:])]
        return self._summed(groups.index[some], groups.count, [column[some] for column in columns])

    def _summed(self, index: Any, count: int, columns: Sequence[Doubles]) -> list[Column]:
        """Returns partials of groups from those of their parts; a row is a part of one value."""
        raise NotImplementedError


class Moments(_Central):
    """Partials: the count, the mean, and sums of powers of the distances from the mean, as many as are needed."""

    def __init__(self, name: str, result: pa.DataType, function: str) -> None:
        self._order = _ORDERS.get(function, 2)
        super().__init__(name, result, [pa.int64(), *[pa.float64()] * self._order])
        self._function = function

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        values, index = fixed_values(inputs[0], FLOAT64), groups.index
        valid = valid_rows(inputs[0])
        if valid is not None:
            values, index = values[valid], index[valid]
        ones = np.ones(len(values))
        return self._summed(index, groups.count, [ones, values, *[np.zeros(len(values))] * (self._order - 1)])

    def _summed(self, index: Any, count: int, columns: Sequence[Doubles]) -> list[Column]:
        n, mean, *powers = columns
        with np.errstate(invalid="ignore", over="ignore"):
            total: Doubles = np.bincount(index, n, count).astype(np.float64, copy=False)
            means = _means(index, mean, n, total)
            d = mean - means[index]
            m2, m3, m4 = [*powers, None, None][:3]
            sums = [m2 + n * d * d]
            if m3 is not None:
                sums.append(m3 + 3 * d * m2 + n * d * d * d)
            if m4 is not None:
                sums.append(m4 + 4 * d * m3 + 6 * d * d * m2 + n * d * d * d * d)
            found = [np.bincount(index, each, count) for each in sums]
        doubles = [fixed_array(each, pa.float64()) for each in (means, *found)]
        return [fixed_array(total.astype(np.int64), pa.int64()), *doubles]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        n = fixed_values(partials[0], INT64).astype(np.float64)
        powers = [fixed_values(column, FLOAT64) for column in partials[2:]]
        m2, m3, m4 = (powers + [powers[0]] * 2)[:3]
        with np.errstate(all="ignore"):
            values, found = MOMENTS[self._function](n, m2, m3, m4)
        return fixed_array(values, pa.float64(), None if found.all() else found)


class _Sums:
    """The sums of two variables by group: counts, means, and the sums of products of distances from the means."""

    def __init__(self, partials: Sequence[Column]) -> None:
        self.n = fixed_values(partials[0], INT64).astype(np.float64)
        self.y, self.x, self.xy, self.yy, self.xx = (fixed_values(each, FLOAT64) for each in partials[1:])


def _corr(sums: _Sums) -> tuple[Doubles, Bools]:
    divisor = np.sqrt(sums.xx * sums.yy)
    # Without a variance of one of the two there is none, even if the other has a NaN.
    return sums.xy / divisor, (sums.n > 1) & (divisor != 0) & (sums.xx != 0) & (sums.yy != 0)


def _r2(sums: _Sums) -> tuple[Doubles, Bools]:
    corr = sums.xy / np.sqrt(sums.xx * sums.yy)
    return np.where(sums.yy == 0, 1.0, corr * corr), (sums.n > 0) & (sums.xx != 0)


COMOMENTS: dict[str, Callable[[_Sums], tuple[Doubles, Bools]]] = {
    "covar_pop": lambda sums: (sums.xy / sums.n, sums.n > 0),
    "covar_samp": lambda sums: (sums.xy / (sums.n - 1), sums.n > 1),
    "corr": _corr,
    "regr_sxx": lambda sums: (sums.xx, sums.n > 0),
    "regr_syy": lambda sums: (sums.yy, sums.n > 0),
    "regr_sxy": lambda sums: (sums.xy, sums.n > 0),
    "regr_slope": lambda sums: (sums.xy / sums.xx, (sums.n > 0) & (sums.xx != 0)),
    "regr_intercept": lambda sums: (sums.y - sums.xy / sums.xx * sums.x, (sums.n > 0) & (sums.xx != 0)),
    "regr_r2": _r2,
}
"""The result of each function of y and x, and where it is not null."""


class Comoments(_Central):
    """Functions of two variables, y and x, over the rows that have both."""

    arity = 2

    def __init__(self, name: str, result: pa.DataType, function: str) -> None:
        super().__init__(name, result, [pa.int64(), *[pa.float64()] * 5])
        self._function = function

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        y, x = (fixed_values(column, FLOAT64) for column in inputs)
        index = groups.index
        if any(column.null_count for column in inputs):
            both = np.ones(len(index), np.bool_)
            for column in inputs:
                both &= True if (valid := valid_rows(column)) is None else valid
            y, x, index = y[both], x[both], index[both]
        zero = np.zeros(len(y))
        return self._summed(index, groups.count, [np.ones(len(y)), y, x, zero, zero, zero])

    def _summed(self, index: Any, count: int, columns: Sequence[Doubles]) -> list[Column]:
        n, y, x, xy, yy, xx = columns
        with np.errstate(invalid="ignore", over="ignore"):
            total: Doubles = np.bincount(index, n, count).astype(np.float64, copy=False)
            y_means, x_means = (_means(index, each, n, total) for each in (y, x))
            dy, dx = y - y_means[index], x - x_means[index]
            products = (xy + n * dx * dy, yy + n * dy * dy, xx + n * dx * dx)
            found = [np.bincount(index, each, count) for each in products]
        doubles = [fixed_array(each, pa.float64()) for each in (y_means, x_means, *found)]
        return [fixed_array(total.astype(np.int64), pa.int64()), *doubles]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        with np.errstate(all="ignore"):
            values, found = COMOMENTS[self._function](_Sums(partials))
        return fixed_array(values, pa.float64(), None if found.all() else found)
