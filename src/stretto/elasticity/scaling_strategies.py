"""Which operators get new workers, and which workers leave: Stela (algorithms 2.1 to 2.3 of the thesis), and what it is
compared with. Strategies by name, for users and for `stretto simulate stela`.

Stela gives operators more instances, on the new workers only. The alternatives of 2.3.3 move instances there that exist
already, those of operators that each deems important. Round robin, which is Storm's way, places everything again.

Where it is known how busy operators are, scale-in differs from algorithm 2.3 in two ways. Of workers with equal sums of
ETP, which all have that are above a congested operator, the least busy leaves. And an instance goes to the least busy
worker instead of the next in turn: in turn, the congested operator's workers would get as much as all others, and what
it loses by that, the whole job loses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from stretto.elasticity.effective_throughput import etp_sums, etps, ranked
from stretto.elasticity.topology import Placement, Topology
from stretto.errors import UserError


class Change(Enum):
    """What happens to an instance."""

    ADDED = "added"
    MOVED = "moved"


@dataclass(frozen=True, slots=True)
class Choice:
    """An instance of an operator, the worker that gets it, what it was ranked by, and who was ranked next."""

    operator: str
    worker: str
    change: Change
    because: str
    ranking: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ScalePlan:
    """The placement to come, the workers that leave, and each step with its reason."""

    placement: Placement
    choices: tuple[Choice, ...] = ()
    leaving: tuple[str, ...] = ()


def workers_of(placement: Placement) -> tuple[str, ...]:
    """Returns all workers of a placement, in the order of their names."""
    return tuple(sorted({worker for homes in placement.values() for worker in homes}))


def slots_for(placement: Placement, workers: int, new_workers: int) -> int:
    """Returns how many instances new workers get: each the average of before (2.2.2), and one in all at least."""
    instances = sum(len(homes) for homes in placement.values())
    return max(1, instances * new_workers // max(1, workers))


class ScalingStrategy:
    """Override `scale_out`, `ranking_in`, or both. Nothing is known but rates, so any dataflow is served."""

    name = ""

    def scale_out(
        self, topology: Topology, placement: Placement, new_workers: Sequence[str], slots: int | None = None
    ) -> ScalePlan:
        """Returns where instances run when there are new workers, which get `slots` instances in turn."""
        raise NotImplementedError

    def ranking_in(self, topology: Topology, placement: Placement) -> dict[str, float]:
        """Returns a value for each worker; the one with the least leaves."""
        return etp_sums(etps(topology), placement, workers_of(placement))

    def scale_in(self, topology: Topology, placement: Placement, count: int) -> ScalePlan:
        """Returns which workers leave, one after the other, and where their instances go."""
        leaving: list[str] = []
        choices: list[Choice] = []
        busy = {name: each.busy / each.instances for name, each in topology.operators.items()}
        for _ in range(count):
            ranking = self.ranking_in(topology, placement)
            loads = loads_of(placement, busy)
            order = sorted(ranking, key=lambda worker: (ranking[worker], loads[worker], worker))
            plan = moved_away(placement, order[:1], order[1:], ranking, busy)
            placement = plan.placement
            leaving += order[:1]
            choices += plan.choices
        return ScalePlan(placement, tuple(choices), tuple(leaving))


def loads_of(placement: Placement, busy: Mapping[str, float]) -> dict[str, float]:
    """Returns how busy each worker is, from how busy an instance of each operator is."""
    found = dict.fromkeys(workers_of(placement), 0.0)
    for name, homes in placement.items():
        for worker in homes:
            found[worker] += busy.get(name, 0.0)
    return found


def moved_away(
    placement: Placement,
    leaving: Sequence[str],
    staying: Sequence[str],
    ranking: Mapping[str, float] | None = None,
    busy: Mapping[str, float] | None = None,
) -> ScalePlan:
    """Returns the placement in which those that stay have what the others had: each instance goes to the least busy,
    or in turn where nothing is known of that (algorithm 2.3)."""
    if not staying:
        raise UserError("no worker would be left", f"{len(leaving)} are to leave", "Let at least one stay.")
    busy = busy or {}
    loads = {worker: load for worker, load in loads_of(placement, busy).items() if worker in staying}
    got = dict.fromkeys(staying, 0)
    found = {name: list(homes) for name, homes in placement.items()}
    choices: list[Choice] = []
    for name, homes in found.items():
        for place, worker in enumerate(homes):
            if worker in leaving:
                target = min(staying, key=lambda each: (loads.get(each, 0.0), got[each]))
                loads[target] = loads.get(target, 0.0) + busy.get(name, 0.0)
                got[target] += 1
                homes[place] = target
                choices.append(Choice(name, target, Change.MOVED, f"{worker} leaves", dict(ranking or {})))
    return ScalePlan({name: tuple(homes) for name, homes in found.items()}, tuple(choices), tuple(leaving))


class Stela(ScalingStrategy):
    """Slot by slot, the congested operator with the greatest projected ETP gets an instance more."""

    name = "stela"

    def scale_out(
        self, topology: Topology, placement: Placement, new_workers: Sequence[str], slots: int | None = None
    ) -> ScalePlan:
        found = dict(placement)
        wanted = slots_for(placement, len(workers_of(placement)), len(new_workers)) if slots is None else slots
        choices: list[Choice] = []
        for slot in range(wanted):
            target, because = next_to_grow(topology)
            if target is None:
                break
            worker = new_workers[slot % len(new_workers)]
            shown = etps(topology)
            choices.append(Choice(target, worker, Change.ADDED, because, shown))
            found[target] = (*found.get(target, ()), worker)
            topology = topology.grown(target)
        return ScalePlan(found, tuple(choices))


def next_to_grow(topology: Topology) -> tuple[str | None, str]:
    """Returns the operator that gets the next instance, and why: the congested one with the greatest ETP. Without any,
    a source, so that there is more input; if sources cannot grow, whoever is nearest to its capacity."""
    grows = {name for name, operator in topology.operators.items() if operator.grows}
    congested = [name for name in ranked(topology) if name in grows]
    if congested:
        return congested[0], "it is congested, and has the greatest ETP of those"
    sources = [name for name in topology.sources if name in grows]
    if sources:
        found = etps(topology)
        return max(sources, key=lambda name: found[name]), "none is congested, so there can be more input"
    rest = [name for name in topology.operators if name in grows]
    if not rest:
        return None, "no operator can have more instances"
    return max(rest, key=lambda name: topology.operators[name].congestion), "it is the nearest to its capacity"


class RoundRobin(ScalingStrategy):
    """Storm's rebalance: all instances are placed again, over all workers in turn; nobody gets more of them."""

    name = "round-robin"

    def scale_out(
        self, topology: Topology, placement: Placement, new_workers: Sequence[str], slots: int | None = None
    ) -> ScalePlan:
        return ScalePlan(dealt(placement, (*workers_of(placement), *new_workers)))

    def ranking_in(self, topology: Topology, placement: Placement) -> dict[str, float]:
        """The last worker leaves: it was added last."""
        workers = workers_of(placement)
        return {worker: float(len(workers) - place) for place, worker in enumerate(workers)}


def dealt(placement: Placement, workers: Sequence[str]) -> Placement:
    """Returns the placement in which instances, operator by operator, are on the workers in turn."""
    found: dict[str, tuple[str, ...]] = {}
    dealt_out = 0
    for name, homes in placement.items():
        found[name] = tuple(workers[(dealt_out + place) % len(workers)] for place in range(len(homes)))
        dealt_out += len(homes)
    return found


class Migrating(ScalingStrategy):
    """The alternatives of 2.3.3: the operators of the greatest importance move instances to the new workers, one each
    in turn. `importance` is all in which they differ."""

    def importance(self, topology: Topology) -> dict[str, float]:
        """Returns how important each operator is."""
        raise NotImplementedError

    def scale_out(
        self, topology: Topology, placement: Placement, new_workers: Sequence[str], slots: int | None = None
    ) -> ScalePlan:
        wanted = slots_for(placement, len(workers_of(placement)), len(new_workers)) if slots is None else slots
        ranking = self.importance(topology)
        found = {name: list(homes) for name, homes in placement.items()}
        choices: list[Choice] = []
        for slot in range(wanted):
            worker = new_workers[slot % len(new_workers)]
            name = self._next(topology, ranking, found, worker, new_workers)
            if name is None:
                break
            found[name][_movable(found[name], new_workers)[0]] = worker
            choices.append(Choice(name, worker, Change.MOVED, f"the most important by {self.name}", ranking))
        return ScalePlan({name: tuple(homes) for name, homes in found.items()}, tuple(choices))

    def _next(
        self,
        topology: Topology,
        ranking: Mapping[str, float],
        found: Mapping[str, list[str]],
        worker: str,
        new_workers: Sequence[str],
    ) -> str | None:
        """Returns whose instance moves next: of those that have moved the fewest, the most important."""
        left = [name for name, homes in found.items() if _movable(homes, new_workers)]
        moved = {name: sum(home in new_workers for home in found[name]) for name in left}
        return min(left, key=lambda name: (moved[name], -ranking[name]), default=None)


def _movable(homes: Sequence[str], new_workers: Sequence[str]) -> list[int]:
    """Returns the places of instances that are not on new workers yet."""
    return [place for place, worker in enumerate(homes) if worker not in new_workers]


class DistanceFromSource(Migrating):
    """Operators near the sources: what they lack, all below them lack."""

    name = "distance-from-source"

    def importance(self, topology: Topology) -> dict[str, float]:
        return {name: -float(hops) for name, hops in _hops(topology, topology.parents).items()}


class DistanceFromSink(Migrating):
    """Operators near the sinks: they affect throughput most directly."""

    name = "distance-from-sink"

    def importance(self, topology: Topology) -> dict[str, float]:
        children = {name: topology.children(name) for name in reversed(list(topology.operators))}
        return {name: -float(hops) for name, hops in _hops(topology, children).items()}


def _hops(topology: Topology, before: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Returns the least number of hops from an end; `before` is in an order in which those come first."""
    found: dict[str, int] = {}
    for name in before:
        found[name] = min((found[each] + 1 for each in before[name]), default=0)
    return found


class Descendants(Migrating):
    """Operators with many descendants."""

    name = "descendants"

    def importance(self, topology: Topology) -> dict[str, float]:
        return {name: float(len(topology.reachable(name))) for name in topology.operators}


class Centrality(Migrating):
    """Operators with many edges, in and out."""

    name = "centrality"

    def importance(self, topology: Topology) -> dict[str, float]:
        return {name: float(len(topology.children(name)) + len(topology.parents[name])) for name in topology.operators}


class LeastLinkLoad(Migrating):
    """Operators with the least traffic first, and those beside them, so that neighbours are on the same worker."""

    name = "least-link-load"
    sign = -1.0

    def importance(self, topology: Topology) -> dict[str, float]:
        sent = {name: sum(operator.emits.values()) for name, operator in topology.operators.items()}
        return {name: self.sign * (_received(topology, name) + sent[name]) for name in topology.operators}

    def _next(
        self,
        topology: Topology,
        ranking: Mapping[str, float],
        found: Mapping[str, list[str]],
        worker: str,
        new_workers: Sequence[str],
    ) -> str | None:
        left = [name for name, homes in found.items() if _movable(homes, new_workers)]
        there = {name for name, homes in found.items() if worker in homes}

        def beside(name: str) -> int:
            return len(there.intersection((*topology.children(name), *topology.parents[name])))

        return min(left, key=lambda name: (name in there, -beside(name), -ranking[name]), default=None)


class MostLinkLoad(LeastLinkLoad):
    """The reverse: operators with the most traffic first."""

    name = "most-link-load"
    sign = 1.0


def _received(topology: Topology, name: str) -> float:
    return sum(topology.operators[parent].emits[name] for parent in topology.parents[name])


SCALING_STRATEGIES: dict[str, Callable[[], ScalingStrategy]] = {
    kind.name: kind
    for kind in (
        Stela,
        RoundRobin,
        DistanceFromSource,
        DistanceFromSink,
        Descendants,
        Centrality,
        LeastLinkLoad,
        MostLinkLoad,
    )
}


def scaling_strategy_named(name: str) -> ScalingStrategy:
    """Returns the strategy with this name."""
    if name not in SCALING_STRATEGIES:
        raise UserError(f"there is no scaling strategy '{name}'", None, f"Use one of {', '.join(SCALING_STRATEGIES)}.")
    return SCALING_STRATEGIES[name]()
