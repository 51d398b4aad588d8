"""`top`, in windows or over all rows so far, and `drop_duplicates`: the fields of their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa

from stretto.api import plan
from stretto.api.changes import check_only_added
from stretto.api.windowing import TIMESTAMP, no_sessions
from stretto.errors import PlanError
from stretto.expressions import compile_order, compile_scalar
from stretto.operators.ranking import Order, Ranking, RankKind
from stretto.operators.windows import Duration, EventTime, Window, duration_us

By = str | Sequence[str]
RankName = Literal["row_number", "rank", "dense_rank"]
BOUNDS = ("window_start", "window_end")


def top_fields(stream: plan.Node, keys: tuple[str, ...], window: Window | None, ranking: Ranking) -> dict[str, Any]:
    """Returns the fields of the node for the rows that rank at most k."""
    no_sessions(window, "top", stream.name)
    in_windows = window is not None or (not stream.changes and set(BOUNDS) <= set(stream.schema.names))
    fields = list(stream.schema)
    if in_windows:
        check_only_added(stream, "top in windows")
        fields += [pa.field(column, TIMESTAMP) for column in BOUNDS if column not in stream.schema.names]
    else:
        keys = _with_window(stream, keys)
    changes_by, removes = (None, False) if in_windows else _changes(stream, keys, ranking)
    return {
        "schema": pa.schema([*fields, *ranking.fields()]),
        "time": EventTime("window_end", 1) if in_windows else None,
        "changes_by": changes_by,
        "removes": removes,
        "keys": keys,
        "window": window,
        "ranking": ranking,
        "running": not in_windows,
    }


def _with_window(stream: plan.Node, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the keys, and the bounds of windows if the rows have them: those of late rows change."""
    found = set(BOUNDS) <= set(stream.schema.names)
    return (*keys, *(column for column in BOUNDS if column not in keys)) if found else keys


def _changes(stream: plan.Node, keys: tuple[str, ...], ranking: Ranking) -> tuple[tuple[str, ...] | None, bool]:
    """Returns by which columns rows replace each other, and whether some are removed."""
    if ranking.kind is not RankKind.ROW_NUMBER or (ranking.column is None and ranking.k > 1):
        return None, True
    # One row has each number. Once there is one, there is always one, unless rows of the input are removed.
    return (*keys, *(field.name for field in ranking.fields())), stream.changes


def ranking_of(
    stream: plan.Node, k: int, by: By, ties: bool, descending: bool, rank: str | None, ranking: str | None
) -> Ranking:
    """Returns the ranking that the arguments of `top` ask for."""
    if k < 1:
        raise PlanError(f"top on '{stream.name}' must keep at least one row", f"k is {k}")
    texts = [by] if isinstance(by, str) else list(by)
    if not texts:
        raise PlanError(f"top on '{stream.name}' has nothing to order by", None, 'Write by="price DESC".')
    if rank is not None and rank.lower() in {name.lower() for name in (*stream.schema.names, *BOUNDS)}:
        raise PlanError(f"top on '{stream.name}' cannot name its rank '{rank}'", "there is such a column", "Rename it.")
    kind = RankKind.RANK if ties else RankKind.ROW_NUMBER
    if ranking is not None:
        kind = _kind(stream, ranking, ties)
    return Ranking(tuple(_order(stream, text, descending) for text in texts), k, kind, rank)


def _kind(stream: plan.Node, ranking: str, ties: bool) -> RankKind:
    known = [kind.value for kind in RankKind]
    if ranking not in known:
        raise PlanError(f"top on '{stream.name}' does not know the ranking {ranking!r}", f"it knows {', '.join(known)}")
    if not ties and ranking != RankKind.ROW_NUMBER.value:
        raise PlanError(
            f"top on '{stream.name}' has two ways to rank", f"ties=False and ranking={ranking!r}", "Leave out ties."
        )
    return RankKind(ranking)


def _order(stream: plan.Node, by: str, descending: bool) -> Order:
    """Returns what to order by, and its direction: the one that the text names, else that of the argument."""
    order_by, named = compile_order(by, stream.schema)
    if named and not descending:
        raise PlanError(
            f"top on '{stream.name}' has two directions",
            f"by={by!r} and descending=False",
            "Leave out descending=False, or DESC.",
        )
    return Order(order_by, descending if named is None else named)


def first_fields(stream: plan.Node, columns: Sequence[str], within: Duration | None) -> dict[str, Any]:
    """Returns the fields of the node for the first row of each key."""
    check_only_added(stream, "drop_duplicates")
    within_us = None
    if within is not None:
        within_us = duration_us(within, "within")
        if within_us < 0:
            raise PlanError(
                f"drop_duplicates on '{stream.name}': within is negative",
                repr(within),
                "Give zero or a positive duration.",
            )
    return {"keys": _distinct_keys(stream, columns), "within_us": within_us}


def last_fields(stream: plan.Node, columns: Sequence[str], within: Duration | None) -> dict[str, Any]:
    """Returns the fields of the node for the last row of each key: the first one by event time, descending."""
    check_only_added(stream, "drop_duplicates")
    if within is not None:
        raise PlanError(
            f"drop_duplicates on '{stream.name}' cannot keep the last row within a time",
            "a later one may always come",
            'Leave out within, or keep="last".',
        )
    if stream.time is None:
        raise PlanError(
            f"drop_duplicates on '{stream.name}' cannot keep the last row of a key",
            "the stream has no event time, and its partitions have no common order",
            'Name the order: key_by("id").top(1, by="version DESC", ranking="row_number").',
        )
    time = compile_scalar(f"`{stream.time.column}`", stream.schema)
    keys = _distinct_keys(stream, columns)
    ranking = Ranking((Order(time),), 1, RankKind.ROW_NUMBER)
    return {"time": None, "changes_by": keys, "keys": keys, "window": None, "ranking": ranking, "running": True}


def _distinct_keys(stream: plan.Node, columns: Sequence[str]) -> tuple[str, ...]:
    """Returns the columns with the names that the stream has; all of them, if none is named."""
    found = [compile_scalar(f"`{column}`", stream.schema).column or column for column in columns]
    return tuple(dict.fromkeys(found or stream.schema.names))
