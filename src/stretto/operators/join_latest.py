"""The right rows of an ASOF join that looks back: of the rows before the watermark, the last one of each key is enough.

A left row that is still to come is not before the watermark, so of two right rows of a key that are, it never takes the
earlier one. Rows that have been replaced are dropped when the store has doubled, so that a row costs a constant.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stretto.actors.partitioning import has_codes
from stretto.operators import row_blocks
from stretto.operators.join_keys import equal_values
from stretto.operators.row_blocks import Block, Integers, Mask
from stretto.operators.row_buffer import Indexer, RowBuffer


class LatestRows(RowBuffer):
    """Rows whose mark is their time. With `exact`, a row at the watermark itself replaces those before it."""

    def __init__(self, indexer: Indexer, exact: bool) -> None:
        super().__init__(indexer)
        self._exact = exact
        self._kept = 0

    def fresh(self) -> LatestRows:
        return LatestRows(self._indexer, self._exact)

    def advance(self, watermark_us: int) -> None:
        super().advance(watermark_us)
        if self.num_rows > 2 * self._kept + row_blocks.SMALL_ENTRIES:
            self._drop_replaced(watermark_us)
            self._kept = self.num_rows

    def _drop_replaced(self, watermark_us: int) -> None:
        blocks, self._blocks = self._blocks, []
        replaced = self._replaced(blocks, watermark_us)
        for block, gone in zip(blocks, np.split(replaced, np.cumsum([len(block) for block in blocks])), strict=False):
            kept = block.only(~gone) if gone.any() else block
            if len(kept):
                self._push(kept)

    def _replaced(self, blocks: list[Block], watermark_us: int) -> Mask:
        """Returns which entries of some blocks have been replaced, block after block."""
        times = np.concatenate([block.entries.marks[0] for block in blocks])
        hashes = np.concatenate([block.entries.hashes for block in blocks])
        (passed,) = np.nonzero(times <= watermark_us if self._exact else times < watermark_us)
        order = passed[np.lexsort((times[passed], hashes[passed]))]
        ends = np.flatnonzero(np.append(hashes[order[1:]] != hashes[order[:-1]], np.ones(min(1, len(order)), np.bool_)))
        last = order[ends.repeat(np.diff(ends, prepend=-1))]
        earlier = times[order] < times[last]
        order, last = order[earlier], last[earlier]
        replaced = np.zeros(len(times), dtype=np.bool_)
        replaced[order[self._of_one_key(blocks, order, last)]] = True
        return replaced

    def _of_one_key(self, blocks: list[Block], some: Integers, others: Integers) -> Mask:
        """Returns which entries of some have the keys of the others, and not just their hashes."""
        keys = self._indexer.keys
        same = np.ones(len(some), dtype=np.bool_)
        if len(keys) == 1 and has_codes(self.schema.field(keys[0]).type):
            return same
        for key in keys:
            column = pa.chunked_array(
                [block.rows.column(key).take(pa.array(block.entries.positions)) for block in blocks]
            ).combine_chunks()
            one, other = column.take(pa.array(some)), column.take(pa.array(others))
            same &= equal_values(one, other, has_codes(column.type))
        return same
