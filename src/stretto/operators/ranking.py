"""Ranks of rows within groups: by several expressions, each in its direction, as ROW_NUMBER, RANK or DENSE_RANK.

Nulls are least, as in Spark: first in ascending order, last in descending. ROW_NUMBER must not depend on the order of
arrival, so rows that tie are ordered by all their columns, in the direction of the first expression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.errors import PlanError
from stretto.operators.accumulators import Scalar
from stretto.operators.grouping import Bools, Column, Int64s, order_codes

Places = npt.NDArray[Any]
RANK_TYPE = pa.int32()
"""The type of ranks in Spark."""


class RankKind(Enum):
    """How rows are counted: all alike, with gaps after ties, or without."""

    ROW_NUMBER = "row_number"
    RANK = "rank"
    DENSE_RANK = "dense_rank"


@dataclass(frozen=True)
class Order:
    """One expression to order by, and its direction."""

    by: Any
    descending: bool = True


@dataclass(frozen=True)
class Ranking:
    """Which rows rank at most `k`. `column` is the name of a column with the rank; None for none."""

    orders: tuple[Order, ...]
    k: int
    kind: RankKind = RankKind.RANK
    column: str | None = None

    def __post_init__(self) -> None:
        if self.k < 1:
            raise PlanError("the number of top rows must be at least 1", f"it is {self.k}", "Give a positive k.")

    @property
    def directions(self) -> tuple[bool, ...]:
        return tuple(order.descending for order in self.orders)

    def fields(self) -> list[pa.Field]:
        """Returns the field of the rank, if it has a column."""
        return [] if self.column is None else [pa.field(self.column, RANK_TYPE)]


def ranking(order_by: Scalar, k: int, descending: bool = True, ties: bool = True) -> Ranking:
    """Returns a ranking by one expression, with ties or without."""
    return Ranking((Order(order_by, descending),), k, RankKind.RANK if ties else RankKind.ROW_NUMBER)


def directed_codes(column: Column, descending: bool) -> Int64s:
    """Returns codes that ascend from the first row in this order."""
    codes = order_codes(column)
    return ~codes if descending else codes


def ordered_codes(columns: Sequence[Column], directions: Sequence[bool]) -> Int64s:
    """Returns codes that ascend from the first row in the order of several columns, equal where all are."""
    codes = [directed_codes(column, descending) for column, descending in zip(columns, directions, strict=True)]
    if len(codes) == 1 or not len(codes[0]):
        return codes[0]
    order = np.lexsort(codes[::-1])
    result = np.empty(len(order), np.int64)
    result[order] = np.cumsum(_begins(*(code[order] for code in codes))) - 1
    return result


def _begins(*codes: npt.NDArray[Any]) -> Bools:
    """Returns which rows differ from the one before them; the first one does."""
    result = np.zeros(len(codes[0]), np.bool_)
    result[:1] = True
    for code in codes:
        result[1:] |= code[1:] != code[:-1]
    return result


class Kept(NamedTuple):
    """Rows in the order of their groups and ranks: their places, their ranks, and how many equal ones are kept."""

    places: Places
    ranks: Int64s
    copies: Int64s


def top(
    groups: Places, codes: Int64s, weights: Int64s, wanted: Ranking, ties: Callable[[Places], Sequence[Int64s]]
) -> Kept:
    """Returns the rows that rank at most k within their groups, of rows that are there `weights` times. `ties` returns
    the codes of rows that order those which tie, the most significant last."""
    places = np.flatnonzero(weights > 0)
    places = places[np.lexsort((codes[places], groups[places]))]
    # Whoever is among the first k rows ranks at most k, so that few rows are left where ties must be ordered.
    kind = RankKind.RANK if wanted.kind is RankKind.ROW_NUMBER else wanted.kind
    ranks = ranks_of(groups[places], codes[places], weights[places], kind)
    kept = ranks <= wanted.k
    places, ranks = places[kept], ranks[kept]
    if wanted.kind is not RankKind.ROW_NUMBER:
        return Kept(places, ranks, weights[places])
    places = places[np.lexsort((*ties(places), codes[places], groups[places]))]
    ranks = ranks_of(groups[places], codes[places], weights[places], RankKind.ROW_NUMBER)
    kept = ranks <= wanted.k
    places, ranks = places[kept], ranks[kept]
    return Kept(places, ranks, np.minimum(weights[places], wanted.k + 1 - ranks))


def ranks_of(groups: Places, codes: Int64s, weights: Int64s, kind: RankKind) -> Int64s:
    """Returns the rank of each row, or of the first of several equal ones; rows are sorted by group and code."""
    if not len(groups):
        return np.empty(0, np.int64)
    starts, distinct = _begins(groups), _begins(groups, codes)
    counted: Int64s = np.cumsum(distinct) if kind is RankKind.DENSE_RANK else np.cumsum(weights) - weights
    places = np.arange(len(groups))
    first = np.maximum.accumulate(np.where(starts, places, 0))
    # Of rows that tie, all have the rank of the first.
    owner = np.maximum.accumulate(np.where(distinct, places, 0)) if kind is RankKind.RANK else places
    return np.subtract(counted[owner], counted[first]) + 1
