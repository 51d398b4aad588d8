"""The bench of moves: a place with many entities moves under load, and the answers are those of a sequential replay."""

from __future__ import annotations

from stretto.bench.transactions.moving import moved
from stretto.bench.transactions.ycsb_t import YcsbT
from stretto.transactions.moving import PART_MAX


def test_answers_are_right_while_a_place_moves() -> None:
    found = moved(YcsbT(200), 3 * PART_MAX, 2)
    assert found.match, found.problems
    assert found.moves == len(found.waited_ms) == 2
    assert found.parts >= 2 * 3
