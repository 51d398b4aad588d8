"""Aggregates of distinct values: each group keeps each of its values once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from stretto.expressions.zeros import one_zero
from stretto.operators.accumulators.base import Accumulator, cast_to
from stretto.operators.accumulators.listed import Listed
from stretto.operators.grouping import Column, Groups, group, take_column


class Distinct(Listed):
    """Partials: a list of the distinct values."""

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        return super().lift(groups, [one_zero(inputs[0])])

    def _listed(self, groups: Groups, values: pa.Array) -> pa.Array:
        pairs = group([values], len(values), groups.index.astype(np.int64, copy=False))
        rows = pairs.sample
        return self._lists(np.bincount(groups.index[rows], minlength=groups.count), take_column(values, rows))


class CountDistinct(Distinct):
    """count(distinct x)"""

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        return cast_to(partials[0].value_lengths(), self.result)


class CollectSet(Distinct):
    """The distinct values, sorted: sort_array(collect_set(x))."""

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        lengths, values = self._sorted(partials[0])
        return cast_to(self._lists(lengths, values), self.result)


class OfDistinct(Distinct):
    """Another aggregate, of the distinct values: sum(DISTINCT x)."""

    def __init__(self, of: Accumulator, item: pa.DataType) -> None:
        super().__init__(of.name, of.result, item)
        self.of = of

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        return self.of.finish(self.lifted(partials[0]))

    def lifted(self, lists: Column) -> list[Column]:
        """Returns the partials of the other aggregate, from lists of distinct values."""
        lengths = lists.value_lengths().to_numpy()
        values, owner = lists.flatten(), np.repeat(np.arange(len(lists)), lengths)
        if not lengths.all():  # A null for each group without values: it must have a row.
            empty = np.flatnonzero(lengths == 0)
            values = pa.concat_arrays([values, pa.nulls(len(empty), values.type)])
            owner = np.concatenate([owner, empty])
        return self.of.lift(Groups(owner, len(lists)), [values])
