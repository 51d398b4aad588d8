"""A queue by start deadline that knows who would be late: the minimum-laxity queue of thesis algorithm 6.1.

A message may be added without harm if it can itself start in time, after all that are more urgent, and if everything
less urgent can spare what it costs. The thesis updates the laxity of each message on every insertion and removal. Here
nothing is updated: what a run of neighbours costs in all, and the least of their deadlines less the cost of those
before them, can be put together from two halves. A balanced tree keeps both, so adding, polling, removing and checking
each look at one path from its root.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
Key = tuple[float, int]


class _Node(Generic[T]):
    """A node of a treap. `total` is the cost of its subtree, `slack` the least of its deadlines less costs before."""

    __slots__ = ("cost", "item", "key", "left", "rank", "right", "slack", "total")

    def __init__(self, key: Key, cost: float, item: T, rank: float) -> None:
        self.key = key
        self.cost = cost
        self.item = item
        self.rank = rank
        self.left: _Node[T] | None = None
        self.right: _Node[T] | None = None
        self.total = cost
        self.slack = key[0]

    def update(self) -> None:
        """Put the subtree's figures together again from those of its halves."""
        left, right = self.left, self.right
        before = left.total if left is not None else 0.0
        slack = self.key[0] - before
        if left is not None and left.slack < slack:
            slack = left.slack
        total = before + self.cost
        if right is not None:
            if right.slack - total < slack:
                slack = right.slack - total
            total += right.total
        self.total, self.slack = total, slack


class LaxityQueue(Generic[T]):
    """Items by their start deadlines; equal deadlines come out in the order they went in. Times in any one unit."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._root: _Node[T] | None = None
        self._keys: dict[int, Key] = {}
        self._added = 0

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[T]:
        """All items, the most urgent first."""
        return (node.item for node in _in_order(self._root))

    def admits(self, deadline: float, cost: float, now: float) -> bool:
        """Whether one more item could start by its deadline, and all that are less urgent still by theirs."""
        ahead, slack = 0.0, math.inf
        node, key = self._root, (deadline, self._added + 1)
        while node is not None:
            before = node.left.total if node.left is not None else 0.0
            if node.key < key:
                ahead += before + node.cost
                node = node.right
            else:
                # This one and all to its right come after; their costs before count from the start of the queue.
                slack = min(slack, node.key[0] - ahead - before)
                if node.right is not None:
                    slack = min(slack, node.right.slack - ahead - before - node.cost)
                node = node.left
        return now + ahead <= deadline and now + cost <= slack

    def ahead(self, deadline: float) -> float:
        """What it takes to run all that are as urgent as this."""
        ahead, node = 0.0, self._root
        while node is not None:
            if node.key[0] <= deadline:
                ahead += node.cost + (node.left.total if node.left is not None else 0.0)
                node = node.right
            else:
                node = node.left
        return ahead

    def add(self, item: T, deadline: float, cost: float) -> int:
        """Take an item in; the number that is returned names it for `remove`."""
        self._added += 1
        key = self._keys[self._added] = (deadline, self._added)
        left, right = _split(self._root, key)
        self._root = _merge(_merge(left, _Node(key, cost, item, self._random.random())), right)
        return self._added

    def peek(self) -> float | None:
        """The earliest deadline."""
        node = self._root
        while node is not None and node.left is not None:
            node = node.left
        return node.key[0] if node is not None else None

    def poll(self) -> T | None:
        """Take out the most urgent item."""
        if self._root is None:
            return None
        path = [self._root]
        while path[-1].left is not None:
            path.append(path[-1].left)
        first = path.pop()
        if path:
            path[-1].left = first.right
            for node in reversed(path):
                node.update()
        else:
            self._root = first.right
        del self._keys[first.key[1]]
        return first.item

    def remove(self, number: int) -> T | None:
        """Take out an item by its number; None when it is gone already."""
        key = self._keys.pop(number, None)
        if key is None:
            return None
        left, rest = _split(self._root, key)
        middle, right = _split(rest, (key[0], key[1] + 1))
        self._root = _merge(left, right)
        assert middle is not None
        return middle.item

    def late(self, now: float) -> Iterator[T]:
        """The items that will not start in time if nothing changes, the most urgent first."""
        return _late(self._root, now)


def _split(node: _Node[T] | None, key: Key) -> tuple[_Node[T] | None, _Node[T] | None]:
    """The nodes before a key, and the others."""
    if node is None:
        return None, None
    if node.key < key:
        node.right, right = _split(node.right, key)
        node.update()
        return node, right
    left, node.left = _split(node.left, key)
    node.update()
    return left, node


def _merge(left: _Node[T] | None, right: _Node[T] | None) -> _Node[T] | None:
    """One tree of two, of which one is all before the other."""
    if left is None or right is None:
        return right if left is None else left
    if left.rank > right.rank:
        left.right = _merge(left.right, right)
        left.update()
        return left
    right.left = _merge(left, right.left)
    right.update()
    return right


def _in_order(node: _Node[T] | None) -> Iterator[_Node[T]]:
    path: list[_Node[T]] = []
    while node is not None or path:
        while node is not None:
            path.append(node)
            node = node.left
        node = path.pop()
        yield node
        node = node.right


def _late(node: _Node[T] | None, start: float) -> Iterator[T]:
    """Those of a subtree whose deadline is past when their turn comes, if the first begins at `start`."""
    if node is None or node.slack >= start:
        return
    yield from _late(node.left, start)
    turn = start + (node.left.total if node.left is not None else 0.0)
    if turn > node.key[0]:
        yield node.item
    yield from _late(node.right, turn + node.cost)
