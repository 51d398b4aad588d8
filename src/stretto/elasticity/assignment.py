"""Which cores each elastic actor gets: the assignment problem with migration cost and locality (elasticutor.txt 4.2).

x[i, j] is the number of cores of node i that executor j has; its home is on node homes[j] and always keeps a core
there. The new assignment leaves at least wanted[j] cores to each executor, moves little state between nodes, and keeps
data-intensive executors, those with more than `threshold` bytes a second and core, on their own nodes. Algorithm 1 is
greedy; when it fails, the threshold doubles until it does not.

Free cores are a further executor, the last column: it has the cores that nobody has, wants none and has no state. So it
is over-provisioned, giving one of its cores costs nothing, and the algorithm needs no second case for them. What nobody
wants any more stays where it is (constraint b is X_j >= k_j) until somebody needs it, or `give_back` returns it.

Where the paper is silent: an executor that is data-intensive and has cores on other nodes first gives those up, since
constraint (c) would not hold otherwise. A node with fewer cores than are assigned takes back the cheapest. Line 7 takes
from executors that are not data-intensive, as the text says, and from over-provisioned ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

THRESHOLD_BYTES_PER_S = 512 * 1024.0
DOUBLINGS_MAX = 64

Counts = npt.NDArray[np.int64]
Costs = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class AssignmentProblem:
    """`cores` per node; `wanted`, `homes` (a node), `state_bytes` and `bytes_per_s` (in and out) per executor; and the
    `current` assignment, nodes by executors."""

    cores: Counts
    wanted: Counts
    homes: Counts
    state_bytes: Costs
    bytes_per_s: Costs
    current: Counts

    @property
    def intensity(self) -> Costs:
        """Returns the data intensity of each executor: bytes per second and core."""
        intensity: Costs = self.bytes_per_s / np.maximum(self.wanted, 1)
        return intensity


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """The cores of each executor by node, the threshold at which it was found, and the state that moves between
    nodes."""

    cores: Counts
    threshold: float
    moved_bytes: float


def migration_bytes(state_bytes: Costs, before: Counts, after: Counts) -> float:
    """Returns the cost of a transition, C(X | X~): the state that leaves nodes, if shards are spread evenly."""
    was = state_bytes * before / np.maximum(before.sum(axis=0), 1)
    becomes = state_bytes * after / np.maximum(after.sum(axis=0), 1)
    return float(np.maximum(0.0, was - becomes).sum())


def assign(
    problem: AssignmentProblem, threshold: float = THRESHOLD_BYTES_PER_S, blind: bool = False
) -> Assignment | None:
    """Returns an assignment, or None where there are fewer cores than wanted. `blind` ignores migration cost and
    locality: the first core that is found, as in the paper's naive executor-centric approach."""
    if problem.wanted.sum() > problem.cores.sum():
        return None
    total = problem.current.sum(axis=0)
    # Executors that have only their homes, and want no more, neither give nor take. In large clusters these are most.
    active = np.flatnonzero((total > 1) | (problem.wanted > total))
    part = _only(problem, active)
    most = float(part.intensity.max(initial=0.0))
    for _ in range(DOUBLINGS_MAX):
        limit = np.inf if blind else threshold
        found = _Attempt(part, limit, blind).run()
        if found is not None:
            cores = problem.current.copy()
            cores[:, active] = found
            return Assignment(cores, limit, migration_bytes(part.state_bytes, part.current, found))
        if blind or limit > most:
            return None
        threshold *= 2
    return None


def _only(problem: AssignmentProblem, active: npt.NDArray[np.intp]) -> AssignmentProblem:
    """Returns the problem of some executors, with the cores that the others do not have."""
    current = problem.current[:, active]
    return AssignmentProblem(
        problem.cores - (problem.current.sum(axis=1) - current.sum(axis=1)),
        problem.wanted[active],
        problem.homes[active],
        problem.state_bytes[active],
        problem.bytes_per_s[active],
        current,
    )


def give_back(cores: Counts, kept: Counts, homes: Counts, state_bytes: Costs) -> Counts:
    """Returns the assignment in which no executor has more than `kept`: the cores go whose leaving moves the least
    state, of equals those on other nodes than its home, the last nodes first."""
    x = cores.copy()
    for j in np.flatnonzero(x.sum(axis=0) > kept):
        while x[:, j].sum() > kept[j]:
            column, total = x[:, j], x[:, j].sum()
            cost = state_bytes[j] * (total - column) / (total * (total - 1.0))
            nodes = np.arange(len(column))
            away = nodes != homes[j]
            cost = np.where(column > np.where(away, 0, 1), cost, np.inf)
            x[np.lexsort((-nodes, ~away, cost))[0], j] -= 1
    return x


class _Attempt:
    """One run of algorithm 1 at one threshold. Costs are kept up to date by the column, and the cheapest offer by the
    row: giving a core makes an executor's other cores dearer, so only rows whose cheapest was its own are searched."""

    def __init__(self, problem: AssignmentProblem, threshold: float, blind: bool) -> None:
        self._problem = problem
        nodes, executors = problem.current.shape
        self._all_nodes = np.arange(nodes)
        self._free = executors
        self._blind = blind
        self._x = np.concatenate([problem.current, np.zeros((nodes, 1), np.int64)], axis=1)
        self._wanted = np.append(problem.wanted, 0)
        self._state = np.append(np.zeros(executors) if blind else problem.state_bytes, 0.0)
        intensity = problem.intensity
        self._is_intensive = np.append(intensity > threshold, False)
        self._by_intensity = np.argsort(-intensity, kind="stable")
        self._floor = np.zeros_like(self._x)
        self._floor[problem.homes, np.arange(executors)] = 1

    def run(self) -> Counts | None:
        """Returns the new assignment, or None: FAIL."""
        self._come_home()
        if not self._fit():
            return None
        self._total = self._x.sum(axis=0)
        self._minus = self._leaving(self._x, self._total)
        short = [int(j) for j in self._by_intensity if self._total[j] < self._wanted[j]]
        if not all(self._serve_at_home(j) for j in short if self._is_intensive[j]):
            return None
        # Those that had to give a core to a data-intensive one are short now too.
        short = [int(j) for j in self._by_intensity if self._total[j] < self._wanted[j]]
        if short:
            self._offer()
        if not all(self._serve_anywhere(j) for j in short):
            return None
        return self._x[:, : self._free]

    def _come_home(self) -> None:
        """Data-intensive executors give up their cores on other nodes."""
        for j in np.flatnonzero(self._is_intensive):
            home = self._problem.homes[j]
            kept = self._x[home, j]
            self._x[:, j] = 0
            self._x[home, j] = kept

    def _fit(self) -> bool:
        """Makes free cores of what is left. A node that has too few takes back the cheapest that are not homes."""
        spare = self._problem.cores - self._x.sum(axis=1)
        for i in np.flatnonzero(spare < 0):
            while spare[i] < 0:
                cost = self._leaving(self._x, self._x.sum(axis=0))[i]
                j = int(cost.argmin())
                if cost[j] == np.inf:
                    return False
                self._x[i, j] -= 1
                spare[i] += 1
        self._x[:, self._free] = spare
        return True

    def _leaving(self, x: Counts, total: Counts) -> Costs:
        """Returns C-[i, j], infinite where executor j has no core to give on node i."""
        cost = self._state * (total - x) / np.maximum(total * (total - 1.0), 1.0)
        return np.where(x > self._floor, cost, np.inf)

    def _serve_at_home(self, j: int) -> bool:
        """Lines 6 and 7: cores of its own node only, from those that are not data-intensive."""
        i = int(self._problem.homes[j])
        while self._total[j] < self._wanted[j]:
            if self._x[i, self._free] > 0:
                giver = self._free
            else:
                may_give = ~self._is_intensive | (self._total > self._wanted)
                may_give[j] = False
                offers = np.where(may_give, self._minus[i], np.inf)
                giver = int(offers.argmin())
                if offers[giver] == np.inf:
                    return False
            self._pass_on(i, giver, j)
        return True

    def _offer(self) -> None:
        """Finds the cheapest core of each node among over-provisioned executors."""
        self._offers = np.where(self._total > self._wanted, self._minus, np.inf)
        self._cheapest = np.zeros(len(self._all_nodes), np.intp)
        self._price = np.zeros(len(self._all_nodes))
        self._search(self._all_nodes)

    def _search(self, nodes: npt.NDArray[np.intp]) -> None:
        """Finds the cheapest core of some nodes; of equals a free one, so that nobody else is disturbed."""
        found = self._offers[nodes].argmin(axis=1)
        found[self._x[nodes, self._free] > 0] = self._free
        self._cheapest[nodes] = found
        self._price[nodes] = self._offers[nodes, found]

    def _serve_anywhere(self, j: int) -> bool:
        """Line 9: the core that is cheapest to give and to take. Of equals, one at home."""
        home, state = int(self._problem.homes[j]), self._state[j]
        while (total := int(self._total[j])) < self._wanted[j]:
            column = self._x[:, j]
            sums = self._price + state / (total * (total + 1.0)) * (total - column)
            i = int(sums.argmin())
            if sums[i] == np.inf:
                return False
            if not self._blind and sums[home] <= sums[i]:
                i = home
            giver = int(self._cheapest[i])
            self._pass_on(i, giver, j)
            self._withdraw(i, giver)
        return True

    def _withdraw(self, i: int, giver: int) -> None:
        """Brings the offers up to date after a core of node i was given."""
        if giver == self._free:
            self._offers[i, giver] = self._minus[i, giver]
            if not self._x[i, giver]:
                self._search(self._all_nodes[i : i + 1])
        else:
            surplus = self._total[giver] > self._wanted[giver]
            self._offers[:, giver] = self._minus[:, giver] if surplus else np.inf
            self._search(np.flatnonzero(self._cheapest == giver))

    def _pass_on(self, i: int, giver: int, taker: int) -> None:
        self._x[i, giver] -= 1
        self._x[i, taker] += 1
        self._total[giver] -= 1
        self._total[taker] += 1
        if giver == self._free:
            self._minus[i, giver] = 0.0 if self._x[i, giver] else np.inf
        else:
            self._update(giver)
        self._update(taker)

    def _update(self, j: int) -> None:
        """Computes C- of one executor again."""
        column, total = self._x[:, j], int(self._total[j])
        cost = self._state[j] / max(total * (total - 1.0), 1.0) * (total - column)
        cost[column <= self._floor[:, j]] = np.inf
        self._minus[:, j] = cost
