"""The minimum-laxity queue against a plain list that is scanned from its start each time."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from stretto.scheduling.laxity_queue import LaxityQueue

deadlines = st.integers(0, 60)
costs = st.integers(0, 8)
nows = st.integers(0, 60)


class Plain:
    """The model: a sorted list of (deadline, number, cost)."""

    def __init__(self) -> None:
        self.items: list[tuple[int, int, int]] = []

    def turns(self, now: int) -> list[tuple[int, tuple[int, int, int]]]:
        """Returns when each message starts."""
        turns, clock = [], now
        for item in self.items:
            turns.append((clock, item))
            clock += item[2]
        return turns

    def late(self, now: int) -> list[int]:
        return [number for turn, (deadline, number, _) in self.turns(now) if turn > deadline]

    def admits(self, deadline: int, cost: int, now: int) -> bool:
        """Whether it would start in time, and all messages after it still would."""
        before = sum(item[2] for item in self.items if item[0] <= deadline)
        after = [(turn, item) for turn, item in self.turns(now) if item[0] > deadline]
        return now + before <= deadline and all(turn + cost <= item[0] for turn, item in after)


class Queues(RuleBasedStateMachine):
    """The queue and the model, through any sequence of operations."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: LaxityQueue[int] = LaxityQueue()
        self.plain = Plain()

    @rule(deadline=deadlines, cost=costs)
    def add(self, deadline: int, cost: int) -> None:
        number = self.queue.add(len(self.plain.items) + 1_000, deadline, cost)
        self.plain.items.append((deadline, number, cost))
        self.plain.items.sort()

    @rule()
    def poll(self) -> None:
        found = self.queue.poll()
        if self.plain.items:
            assert found is not None
            self.plain.items.pop(0)
        else:
            assert found is None

    @rule(data=st.data())
    def remove(self, data: Any) -> None:
        if self.plain.items:
            item = data.draw(st.sampled_from(self.plain.items))
            assert self.queue.remove(item[1]) is not None
            assert self.queue.remove(item[1]) is None
            self.plain.items.remove(item)

    @rule(deadline=deadlines, cost=costs, now=nows)
    def ask(self, deadline: int, cost: int, now: int) -> None:
        assert self.queue.admits(deadline, cost, now) == self.plain.admits(deadline, cost, now)

    @rule(deadline=deadlines)
    def look_ahead(self, deadline: int) -> None:
        assert self.queue.ahead(deadline) == sum(item[2] for item in self.plain.items if item[0] <= deadline)

    @rule(now=nows)
    def look_for_late_ones(self, now: int) -> None:
        assert len(list(self.queue.late(now))) == len(self.plain.late(now))

    @invariant()
    def they_agree(self) -> None:
        assert len(self.queue) == len(self.plain.items) == len(list(self.queue))
        assert self.queue.ahead(math.inf) == sum(item[2] for item in self.plain.items)
        assert self.queue.peek() == (self.plain.items[0][0] if self.plain.items else None)


TestQueues = Queues.TestCase
TestQueues.settings = settings(max_examples=200, stateful_step_count=40)


@given(st.lists(st.tuples(deadlines, costs), max_size=60))
def test_items_come_out_by_deadline_and_then_in_order(items: list[tuple[int, int]]) -> None:
    queue: LaxityQueue[tuple[int, int]] = LaxityQueue()
    for place, (deadline, cost) in enumerate(items):
        queue.add((deadline, place), deadline, cost)
    found = [queue.poll() for _ in items]
    assert found == sorted((deadline, place) for place, (deadline, _) in enumerate(items))


def test_an_operation_reads_a_path_and_not_the_whole_queue() -> None:
    """Counted, not timed: the depth of the tree grows with the logarithm, also when deadlines come in order."""
    for count in (1_000, 32_000):
        queue: LaxityQueue[int] = LaxityQueue()
        for number in range(count):
            queue.add(number, number, 1)
        assert _depth(queue._root) < 5 * math.log2(count)


def _depth(root: Any) -> int:
    deepest, level = 0, [root]
    while level:
        deepest += 1
        level = [child for node in level for child in (node.left, node.right) if child is not None]
    return deepest
