"""The accumulator of a user's own aggregate."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.errors import FunctionError, PlanError
from stretto.operators.accumulators.base import Accumulator
from stretto.operators.grouping import Column, Groups, take_column
from stretto.operators.user_aggregate import UserAggregate, value_column
from stretto.rendering import traceback_of


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
