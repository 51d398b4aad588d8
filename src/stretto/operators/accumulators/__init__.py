"""Accumulators: the partial columns that an aggregate keeps per group.

`lift` turns the rows of each group into a partial (one value per group in each column), `merge` turns several partials
of each group into one, `finish` makes the result. Counts, sums, extremes, averages and moments are of constant size;
distinct values, quantiles and collected values are lists that grow. Nulls are ignored as in SQL, and NaN is the
greatest number, as in Spark. `making.py` finds the accumulator of a call.
"""

from stretto.operators.accumulators.base import Accumulator, Call, Scalar
from stretto.operators.accumulators.making import accumulator

__all__ = ["Accumulator", "Call", "Scalar", "accumulator"]
