"""How keys are dealt to the partitions of the next attempt of a job."""

from __future__ import annotations

from msgspec.structs import replace

from stretto.actors.shape import Feed, FunctionShape
from stretto.actors.shards import SHARDS, ShardMap
from stretto.coordinator.dealing import dealt_by, is_same, undealt_because

EVEN = ShardMap.even(2)
DEALT = ShardMap(2, bytes([0, 1, 1, 1] * (SHARDS // 4)))


def shape(name: str, sender: str, forward: bool, shards: ShardMap | None = EVEN) -> FunctionShape:
    return FunctionShape(name, 2, feeds=(Feed(sender, "in", forward),), shards=shards)


SHAPES = {
    "source": FunctionShape("source", 2, splits=2),
    "sums": shape("sums", "source", False),
    "tops": shape("tops", "sums", True),
    "mapped": shape("mapped", "tops", True, None),
    "other": shape("other", "source", False),
}


def test_functions_that_have_the_same_keys_in_the_same_partition_are_dealt_together() -> None:
    together = {"sums": DEALT, "tops": DEALT}
    assert dealt_by(SHAPES, {"sums": 2}, {"sums": DEALT}) == together
    assert dealt_by(SHAPES, {"tops": 2}, {"tops": DEALT}) == together


def test_a_function_stays_dealt_as_it_is_while_others_change() -> None:
    shapes = {**SHAPES, "other": replace(SHAPES["other"], shards=DEALT)}
    assert dealt_by(shapes, {"sums": 4}, {}) == {"other": DEALT}
    assert dealt_by(shapes, {"other": 4}, {}) == {}
    assert dealt_by(SHAPES, {"sums": 4}, {}) == {}


def test_another_number_of_partitions_ends_what_was_dealt_to_all_that_are_joined() -> None:
    shapes = {**SHAPES, **{name: replace(SHAPES[name], shards=DEALT) for name in ("sums", "tops")}}
    assert dealt_by(shapes, {"tops": 4}, {}) == {}


def test_nothing_would_change() -> None:
    assert is_same(SHAPES, {"sums": 2}, {})
    assert is_same(SHAPES, {"sums": 2}, {"sums": EVEN.finer(2 * SHARDS)})
    assert not is_same(SHAPES, {"sums": 2}, {"sums": DEALT})
    assert not is_same(SHAPES, {"sums": 3}, {})


def test_what_cannot_be_dealt() -> None:
    assert undealt_because(SHAPES, {"sums": 2}, {"sums": DEALT}) is None
    assert "not partitioned by a key" in str(undealt_because(SHAPES, {"source": 2}, {"source": DEALT}))
    assert "cannot own" in str(undealt_because(SHAPES, {"sums": 1}, {"sums": DEALT}))
    assert "how many" in str(undealt_because(SHAPES, {}, {"sums": DEALT}))
