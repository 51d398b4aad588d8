"""The ASOF join: each left row with the one right row of its key whose time is nearest to its own.

A left row waits until no other right row can be nearer: until the watermark has passed its own time, or by how far
forward it looks. So the answer does not depend on the order in which rows arrive. Rows before the watermark are late:
they are dropped and counted. Read next: `join_nearest.py` (which right row it is), `join_latest.py` (how few right rows
are kept).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from stretto.actors.context import Context
from stretto.operators import join_base
from stretto.operators.join_base import Join, Matching
from stretto.operators.join_interval import PointSide
from stretto.operators.join_keys import LEFT, RIGHT, side_keys
from stretto.operators.join_latest import LatestRows
from stretto.operators.join_nearest import Candidates, Nearness, nearest
from stretto.operators.row_blocks import Block, Integers, Mask
from stretto.operators.row_buffer import Indexed, RowBuffer
from stretto.operators.windows import EventTime


class AsofJoin(Join):
    """Pairs of each left row with the nearest right row that has an equal key and passes the residual.

    `last_replaces` says that the last right row of a key replaces those before it: the join only looks back, and no
    residual refuses one right row and passes another."""

    def __init__(
        self,
        left_schema: pa.Schema,
        right_schema: pa.Schema,
        matching: Matching,
        left_time: EventTime,
        right_time: EventTime,
        nearness: Nearness,
        last_replaces: bool = False,
    ) -> None:
        self.nearness = nearness
        self.holds_back_us = nearness.waits_us
        on = matching.on
        offset_us = None if nearness.keeps_us is None else -nearness.keeps_us
        left = PointSide(left_schema, side_keys(on, LEFT), matching.how.tracks_left, left_time, -nearness.waits_us)
        right = PointSide(right_schema, side_keys(on, RIGHT), False, right_time, offset_us)
        super().__init__(left, right, matching)
        # A left row is settled when it has been sent, with a partner or without.
        self.left = RowBuffer(left, tracked=True, drops_settled=True)
        if last_replaces:
            self.right = LatestRows(right, nearness.exact)
        self._columns = range(self._widths[1])

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        self._send_nearest(self.left.settle_due(watermark_us), ctx)
        self.left.advance(watermark_us)
        self.right.advance(watermark_us)

    def on_end(self, ctx: Context) -> None:
        self._send_nearest(self.left.settle_all(), ctx)
        self.left.clear()
        self.right.clear()

    def _arrived(self, indexed: Indexed, mine: RowBuffer, theirs: RowBuffer, ctx: Context) -> None:
        mine.add(indexed.rows, indexed.entries)

    def _send_nearest(self, due: Iterable[tuple[Block, Integers]], ctx: Context) -> None:
        """Sends left rows that are final, each with its partner."""
        for block, places in due:
            for begin in range(0, len(places), join_base.PAIRS_MAX):
                self._send_some(block, places[begin : begin + join_base.PAIRS_MAX], ctx)

    def _send_some(self, block: Block, places: Integers, ctx: Context) -> None:
        entries = block.entries.take(places)
        rows = block.rows.take(pa.array(entries.positions))
        candidates = Candidates.of(self.right, entries.hashes, self._columns)

        def accepts(lefts: Integers, rights: Integers) -> Mask:
            return self._accepts(rows, lefts, candidates.rows, rights)

        chosen = nearest(candidates, entries.hashes, entries.marks[0], self.nearness, accepts)
        (paired,) = np.nonzero(chosen >= 0)
        if len(paired):
            right = candidates.rows.take(pa.array(chosen[paired]))
            ctx.send(self._pairs(rows.take(pa.array(paired)), right, []))
        if self._how.is_outer:
            self._send_alone(block.rows, block.entries, places[chosen < 0], True, ctx)

    def _accepts(self, left: pa.RecordBatch, lefts: Integers, right: pa.RecordBatch, rights: Integers) -> Mask:
        """Returns which pairs have equal keys and pass the residual."""
        mask = np.ones(len(lefts), dtype=np.bool_)
        one, other = left.take(pa.array(lefts)), right.take(pa.array(rights))
        equal = self._equal_keys(one, other)
        if equal is not None and not equal.all():
            mask = equal
            one, other = one.filter(pa.array(equal)), other.filter(pa.array(equal))
        if self._residual is not None and one.num_rows:
            mask[mask] = self._residual.mask(self._pairs(one, other, []))
        return mask
