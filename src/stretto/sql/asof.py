"""ASOF JOIN ... MATCH_CONDITION (a.ts >= b.ts) ON ..., in Spark's grammar: each row with the last one before it.

The match condition compares the event times of both sides. A bound in time in ON is the tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from stretto.api.joining import constant_offset_us
from stretto.api.stream import Stream
from stretto.errors import PlanError
from stretto.expressions import compile_value
from stretto.expressions.splitting import with_parts_replaced
from stretto.sql.joins import SUFFIX, Pair, apart, conjunction, result_of
from stretto.sql.relation import Relation
from stretto.sql.times import Limits, limits, order_of_times
from stretto.sql.windows import divided


def asof_joined(left: Relation, right: Relation, how: str, match: str, conjuncts: Sequence[str]) -> Relation:
    """Returns the ASOF join of two relations on all of these conditions, which are written with names of SQL."""
    left, right = divided(left), divided(right)
    pair = Pair(left, right)
    matching, *sided = (with_parts_replaced(text, pair.sided) for text in (match, *conjuncts))
    streams = (left.stream, apart(right.stream, left.stream))
    order = order_of_times(matching, streams)
    if order is None:
        raise PlanError(
            "MATCH_CONDITION does not compare the event times of both sides with >=, >, <= or <",
            match,
            "Write MATCH_CONDITION (a.ts >= b.ts), where ts is the column of WATERMARK of its side.",
        )
    backward = order.low.side == 1
    kept, tolerance_us = _reach(matching, sided, streams, backward)
    if not backward and tolerance_us is None:
        raise PlanError(
            "an ASOF join with later rows does not know how long to wait for one",
            match,
            "Add a bound to ON, such as AND b.ts <= a.ts + INTERVAL 1 MINUTE.",
        )
    pairs = streams[0].asof_join(
        streams[1],
        conjunction(kept),
        direction="backward" if backward else "forward",
        tolerance=None if tolerance_us is None else timedelta(microseconds=tolerance_us),
        allow_exact_matches=not order.strict,
        how=how,
        suffix=SUFFIX,
    )
    return result_of(pairs, left, right, how)


def _reach(
    matching: str, conjuncts: Sequence[str], streams: tuple[Stream, Stream], backward: bool
) -> tuple[list[str], int | None]:
    """Returns the conditions that remain, and how far away a row may be by the others."""
    kept, reach_us = [], None
    for text in conjuncts:
        found = limits([matching, text], streams)
        within_us = None if found is None or found.over == 1 else _distance_us(found, streams[0], backward)
        if within_us is None:
            kept.append(text)
            continue
        assert found is not None
        reach_us = within_us if reach_us is None else min(reach_us, within_us)
        if text not in found.used or not (backward or found.upper_inclusive):
            kept.append(text)
    return kept, reach_us


def _distance_us(found: Limits, left: Stream, backward: bool) -> int | None:
    """Returns how far from the left time the farther bound is, if that is known and not zero."""
    assert left.time is not None
    text = found.lower if backward else found.upper
    offset_us = constant_offset_us(compile_value(text, left.schema, "a bound"), left.time, left.schema)
    within_us = 0 if offset_us is None else -offset_us if backward else offset_us
    return within_us if within_us > 0 else None
