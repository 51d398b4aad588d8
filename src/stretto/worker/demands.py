"""How much of a worker the functions of a job take, and by how much they yield to others for it.

Of several that are due at the same time, the most demanding one is to be late, and not all (`scheduling/ready.py`). A
function yields by the part of the worker's time that its instances here take, and who feeds it yields at least as much:
a source that did not would fill the mailboxes below it to the last credit.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from stretto.actors.deadlines import HANDICAP
from stretto.actors.deployment import FunctionSpec, edges_of
from stretto.actors.seat import Demand


class Demands:
    """Of the functions of one job."""

    def __init__(self) -> None:
        self._demands: dict[str, Demand] = {}
        self._since_ns = 0

    def of(self, function: str) -> Demand:
        """Returns what the seats of a function have in common."""
        return self._demands.setdefault(function, Demand())

    def assess(
        self, functions: dict[str, FunctionSpec], busy_ns: Mapping[str, int], latency_ns: int, now_ns: int
    ) -> None:
        """Sets the handicaps by the time that the functions have had since this was last called, and half by that of
        the time before, so that a single long run does not count for much. `latency_ns` is what the job's objective
        allows."""
        passed_ns, self._since_ns = now_ns - self._since_ns, now_ns
        if passed_ns <= 0:
            return
        for name in reversed(functions):  # A function comes after those that feed it.
            demand = self.of(name)
            taken = min(1.0, busy_ns.get(name, 0) / passed_ns)
            demand.own_ns = (demand.own_ns + HANDICAP * latency_ns * taken) / 2
            fed = {edge.target for stage in functions[name].outputs.values() for edge in edges_of(stage)}
            demand.handicap_ns = max((demand.own_ns, *(self.of(target).handicap_ns for target in fed)))
            if not demand.below:
                direct = [self.of(target) for target in sorted(fed)]
                demand.below = tuple(dict.fromkeys(chain(direct, *(each.below for each in direct))))
