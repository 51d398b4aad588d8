"""Balances the shards of one elastic actor over its tasks with few moves (elasticutor.txt 3.1).

The imbalance is the load of the most loaded task by the average. In rounds, the shard that lowers it most goes from the
most loaded task to the least loaded one, until the imbalance is at most theta or no such move helps. Two things are
more general than in the paper: tasks may have different capacities, since a worker has other work too, and load is then
meant relative to them; and a task of capacity zero is to be emptied. A task that was just added is one without shards.

The paper compares the imbalance before and after a move. Where two tasks are the most loaded ones, no single move
lowers it. So a move helps if the more loaded one of its two tasks is less loaded afterwards.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import heapify, heappop, heappush
from math import inf

THETA = 1.2
ROUNDS_PER_SHARD = 2
HELPS_BY = 1e-9
"""A move that lowers a load by less than this share of it does not help, and this much above theta is rounding."""


class Balanced(Enum):
    """Why balancing ended."""

    WITHIN = "within theta"
    STUCK = "no move helps"
    BOUNDED = "the rounds are used up"


@dataclass(frozen=True, slots=True)
class Balance:
    """Moves as (shard, from task, to task) in the order of shards, each shard at most once; the imbalance before and
    after; and why it ended."""

    moves: tuple[tuple[int, int, int], ...]
    before: float
    after: float
    ended: Balanced
    rounds: int


def imbalance(loads: Sequence[float], capacities: Sequence[float]) -> float:
    """Returns the greatest load by the average, relative to capacities; 1 without load, infinity if a task that is to
    be emptied has load."""
    total, capacity = sum(loads), sum(capacities)
    if total <= 0 or capacity <= 0:
        return 1.0
    ratios = [_ratio(load, size) for load, size in zip(loads, capacities, strict=True)]
    return max(ratios) * capacity / total


def balance(
    costs: Sequence[float],
    owners: Sequence[int],
    capacities: Sequence[float],
    theta: float = THETA,
    rounds_max: int | None = None,
) -> Balance:
    """Returns the moves that balance the tasks. Shard s costs `costs[s]` and is owned by task `owners[s]`."""
    if not any(capacity > 0 for capacity in capacities):
        raise ValueError("All tasks of an actor are to be emptied: its home must keep a capacity.")
    before = imbalance(_loads(costs, owners, len(capacities)), capacities)
    tasks = _Tasks(costs, owners, capacities)
    tasks.empty()
    bound = ROUNDS_PER_SHARD * len(costs) if rounds_max is None else rounds_max
    ended, rounds = tasks.level(theta, bound)
    now = tasks.owners
    moves = tuple((shard, was, now[shard]) for shard, was in enumerate(owners) if was != now[shard])
    return Balance(moves, before, imbalance(_loads(costs, now, len(capacities)), capacities), ended, rounds)


class _Tasks:
    """The tasks while shards move: per task its load, and its shards by cost."""

    def __init__(self, costs: Sequence[float], owners: Sequence[int], capacities: Sequence[float]) -> None:
        self.owners = list(owners)
        self._costs = costs
        self._capacities = capacities
        self._loads = _loads(costs, owners, len(capacities))
        self._shards: list[list[tuple[float, int]]] = [[] for _ in capacities]
        for shard, owner in enumerate(owners):
            self._shards[owner].append((costs[shard], shard))
        for shards in self._shards:
            shards.sort()
        self._open = [task for task, capacity in enumerate(capacities) if capacity > 0]

    def empty(self) -> None:
        """Moves all shards off tasks without capacity: the costly ones first, each to the least loaded task. Shards
        that cost nothing go where the fewest shards are."""
        leaving = [s for task, capacity in enumerate(self._capacities) if capacity <= 0 for s in self._shards[task]]
        if not leaving:
            return
        leaving.sort(key=lambda shard: (-shard[0], shard[1]))
        by_load = [(self._ratio_of(task), task) for task in self._open]
        heapify(by_load)
        costly = [shard for cost, shard in leaving if cost > 0]
        for shard in costly:
            _, task = heappop(by_load)
            self._move(shard, task)
            heappush(by_load, (self._ratio_of(task), task))
        by_count = [(len(self._shards[task]), task) for task in self._open]
        heapify(by_count)
        for _, shard in leaving[len(costly) :]:
            count, task = heappop(by_count)
            self._move(shard, task)
            heappush(by_count, (count + 1, task))

    def level(self, theta: float, rounds_max: int) -> tuple[Balanced, int]:
        """Moves one shard per round from the most to the least loaded task."""
        capacity = sum(self._capacities[task] for task in self._open)
        average = sum(self._loads) / capacity
        hot = [(-self._ratio_of(task), task) for task in self._open]
        cold = [(self._ratio_of(task), task) for task in self._open]
        heapify(hot)
        heapify(cold)
        for rounds in range(rounds_max + 1):
            most, least = self._top(hot, -1), self._top(cold, 1)
            if self._ratio_of(most) <= theta * average * (1 + HELPS_BY):
                return Balanced.WITHIN, rounds
            shard = self._best(most, least)
            if shard is None:
                return Balanced.STUCK, rounds
            if rounds == rounds_max:
                break
            self._move(shard, least)
            for task in (most, least):
                heappush(hot, (-self._ratio_of(task), task))
                heappush(cold, (self._ratio_of(task), task))
        return Balanced.BOUNDED, rounds_max

    def _top(self, heap: list[tuple[float, int]], sign: int) -> int:
        """Returns the task at the top of a heap whose entries may be out of date."""
        while heap[0][0] != sign * self._ratio_of(heap[0][1]):
            heappop(heap)
        return heap[0][1]

    def _best(self, most: int, least: int) -> int | None:
        """Returns the shard whose move from one task to the other lowers the greater of their loads most. The ideal
        cost makes them equal; the best is next to it, the cheaper one of equals, and the first of equal costs."""
        here, there = self._capacities[most], self._capacities[least]
        ideal = (self._loads[most] * there - self._loads[least] * here) / (here + there)
        shards = self._shards[most]
        above = bisect_left(shards, (ideal, -1))
        found, lowest = None, self._ratio_of(most) * (1 - HELPS_BY)
        for place in (above - 1, above):
            if not 0 <= place < len(shards) or shards[place][0] <= 0:
                continue
            cost = shards[place][0]
            greater = max((self._loads[most] - cost) / here, (self._loads[least] + cost) / there)
            if greater < lowest:
                found, lowest = shards[bisect_left(shards, (cost, -1))][1], greater
        return found

    def _move(self, shard: int, task: int) -> None:
        cost, owner = self._costs[shard], self.owners[shard]
        shards = self._shards[owner]
        del shards[bisect_left(shards, (cost, shard))]
        insort(self._shards[task], (cost, shard))
        self.owners[shard] = task
        self._loads[owner] -= cost
        self._loads[task] += cost

    def _ratio_of(self, task: int) -> float:
        return _ratio(self._loads[task], self._capacities[task])


def _ratio(load: float, capacity: float) -> float:
    if capacity > 0:
        return load / capacity
    return inf if load > 0 else 0.0


def _loads(costs: Sequence[float], owners: Sequence[int], tasks: int) -> list[float]:
    loads = [0.0] * tasks
    for cost, owner in zip(costs, owners, strict=True):
        loads[owner] += cost
    return loads
