"""Every second: how many workers each elastic actor gets (elasticutor.txt 4.1), and which (4.2).

It does not follow every change of the load. An actor grows when even a load that is less by the margin needs more
workers than it has. It gives workers back when a load that is more by the margin has needed fewer for `give_back_ns`
without a break, down to the most that was needed in that time. So a constant load ends in a constant allocation,
whichever side it comes from.

Where there are too few workers for all, those that have not been needed for `yield_ns` are given back sooner, and jobs
without an objective yield to those with one. Among the jobs of equals nobody takes from another who needs what it has:
how much is missing cannot be measured, because whoever cannot keep up is sent less, and so workers would change hands
for ever. The actors of one job are sent less in proportion, so what each has of its load is known: workers go from the
one with the least load per worker to the one with the most (`levelling.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from stretto.actors.address import Address
from stretto.elasticity.assignment import THRESHOLD_BYTES_PER_S, Assignment, AssignmentProblem, assign, give_back
from stretto.elasticity.controller import Controller
from stretto.elasticity.decisions import SetWorkers
from stretto.elasticity.demand import Demands, DemandSettings, Wish
from stretto.elasticity.levelling import Holding, level
from stretto.elasticity.patience import Patience
from stretto.elasticity.queueing import Station, least_cores, response_s
from stretto.elasticity.records import Candidate, DecisionRecord, Trigger
from stretto.elasticity.spare_workers import SHARED_LOAD_MAX, SpareWorkers
from stretto.elasticity.view import ActorView, ElasticView

NO_WORKERS = "it needs more workers, and none are spare"
UNREACHABLE = "its objective cannot be met with more workers"
CROWDED = "no assignment of workers has room for all"


@dataclass(slots=True)
class _Plan:
    """An actor, its queue, how many workers it has and wishes, and how many it is to have."""

    actor: ActorView
    station: Station
    has_objective: bool
    now: int
    wish: Wish
    target: int
    enough: int
    """How many have been enough for a short while."""
    is_fixed: bool

    @property
    def takes_part(self) -> bool:
        return self.target > 1 or self.now > 1


class WorkerAllocator(Controller):
    """Decides the workers of all actors together. Parameters have the paper's values where it has them."""

    name = "workers"
    asked_first = True

    def __init__(
        self,
        threshold_bytes_per_s: float = THRESHOLD_BYTES_PER_S,
        settings: DemandSettings | None = None,
        shared_load_max: float = SHARED_LOAD_MAX,
        every_ns: int = 1_000_000_000,
        effect_ns: int = 1_000_000_000,
        give_back_ns: int = 20_000_000_000,
        yield_ns: int = 6_000_000_000,
    ) -> None:
        self._threshold = threshold_bytes_per_s
        self._settings = settings or DemandSettings()
        self._shared_load_max = shared_load_max
        self.every_ns = every_ns
        self.effect_ns = effect_ns
        self._give_back_ns = give_back_ns
        self._yield_ns = yield_ns
        self._idle: Patience[Address] = Patience()
        self._short: Patience[Address] = Patience()
        self._far: Patience[Address] = Patience()
        self._decided_ns: dict[Address, int] = {}

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        """Returns a decision for each actor whose workers change."""
        demands = Demands(view, self._settings)
        plans = self._plans(view, demands, now_ns)
        taking = [plan for plan in plans if plan.takes_part]
        pinned = {plan.actor.home for plan in plans if plan.takes_part or plan.actor.load > self._settings.light}
        fixed = [plan.actor for plan in taking if plan.is_fixed]
        spare = SpareWorkers(view, pinned, fixed, self._shared_load_max)
        free = [plan for plan in taking if not plan.is_fixed]
        found = self._divide(view, demands, free, len(spare.names), now_ns)
        found += self._assigned(free, spare, now_ns)
        for place in demands.unreachable():
            found.append(self.record(view.actors[place], now_ns, UNREACHABLE, None, Trigger.OBJECTIVE))
        self._forget(view)
        return found

    def _plans(self, view: ElasticView, demands: Demands, now_ns: int) -> list[_Plan]:
        wishes, has_objective = demands.wishes(), demands.has_objective
        plans = []
        for place, actor in enumerate(view.actors):
            if actor.home not in view.workers:
                continue
            now = len({actor.home, *(name for name in actor.workers if name in view.workers)})
            recent = now_ns - self._decided_ns.get(actor.address, -self.effect_ns) < self.effect_ns
            is_fixed = recent or not actor.may_be_allotted
            target, enough = (now, now) if is_fixed else self._target(actor.address, now, wishes[place], now_ns)
            station = demands.stations[place]
            plans.append(_Plan(actor, station, has_objective[place], now, wishes[place], target, enough, is_fixed))
        return plans

    def _target(self, address: Address, now: int, wish: Wish, now_ns: int) -> tuple[int, int]:
        """Returns how many workers an actor is to have if there are enough, and how many have been enough."""
        if now <= wish.high:
            self._idle.end(address)
            target = max(wish.low, wish.cores) if now < wish.low else now
            return target, now
        for_ns = self._idle.note(address, now_ns, wish.high)
        most = self._idle.most(address)
        return most if for_ns >= self._give_back_ns else now, most if for_ns >= self._yield_ns else now

    def _divide(
        self, view: ElasticView, demands: Demands, plans: list[_Plan], spare: int, now_ns: int
    ) -> list[DecisionRecord]:
        """Lowers targets until they fit into the spare workers. Returns records of those that get nothing."""
        if sum(plan.target - 1 for plan in plans) <= spare:
            for plan in plans:
                self._short.end(plan.actor.address)
            return []
        growing = [plan for plan in plans if plan.target > plan.now]
        for plan in plans:
            plan.target = min(plan.target, plan.enough) if plan.target <= plan.now else plan.target
        taken = sum(len(actor.workers) - 1 for actor in view.actors) - sum(plan.now - 1 for plan in plans)
        cores = spare + taken + len(view.actors)
        shares = dict(zip((actor.address for actor in view.actors), demands.shares(cores), strict=True))
        for plan in growing:
            plan.target = max(plan.now, min(plan.target, shares[plan.actor.address]))
        self._yield(plans, spare, now_ns)
        left = spare - sum(min(plan.target, plan.now) - 1 for plan in plans)
        missing = self._grow_what_fits(growing, left)
        _shed(plans, spare)
        self._level(plans, missing)
        return [
            self.record(plan.actor, now_ns, NO_WORKERS, None, Trigger.LOAD, {"wanted": float(plan.wish.cores)})
            for plan in missing
            if plan.target <= plan.now
        ]

    def _level(self, plans: list[_Plan], missing: list[_Plan]) -> None:
        """Passes workers between the actors of jobs in which some cannot keep up and get nothing."""
        for job in sorted({plan.actor.address.job for plan in missing}):
            mine = [plan for plan in plans if plan.actor.address.job == job]
            short = {plan.actor.address for plan in missing}
            holdings = [
                Holding(
                    plan.actor.load,
                    plan.target,
                    plan.station.cores_max if plan.actor.address in short else plan.target,
                )
                for plan in mine
            ]
            for plan, cores in zip(mine, level(holdings), strict=True):
                plan.target = cores

    def _yield(self, plans: list[_Plan], spare: int, now_ns: int) -> None:
        """Those without an objective give up workers for those with one that have been short for a while."""
        missing = -spare
        for plan in plans:
            is_short = plan.has_objective and plan.target > plan.now
            if is_short and self._short.note(plan.actor.address, now_ns) >= self._yield_ns:
                missing += plan.target - 1
                continue
            if not is_short:
                self._short.end(plan.actor.address)
            missing += min(plan.target, plan.now) - 1
        while missing > 0:
            givers = [plan for plan in plans if not plan.has_objective and min(plan.target, plan.now) > 1]
            if not givers:
                return
            giver = max(givers, key=lambda plan: (min(plan.target, plan.now), plan.actor.address))
            giver.target = min(giver.target, giver.now) - 1
            missing -= 1

    def _grow_what_fits(self, growing: list[_Plan], left: int) -> list[_Plan]:
        """Lets those grow for whom there are workers, but for any that yields: objectives first, then the most
        overloaded. Returns those that get nothing."""
        growing.sort(key=lambda plan: (not plan.has_objective, -plan.station.load / plan.now, plan.actor.address))
        missing = []
        for plan in growing:
            if plan.target < plan.now:
                continue
            plan.target = plan.now + max(0, min(plan.target - plan.now, left))
            left -= plan.target - plan.now
            if plan.target == plan.now:
                missing.append(plan)
        return missing

    def _assigned(self, plans: list[_Plan], spare: SpareWorkers, now_ns: int) -> list[DecisionRecord]:
        """Returns the decisions that follow from all targets."""
        if not plans:
            return []
        actors = [plan.actor for plan in plans]
        near = [self._is_near(plan, spare, now_ns) for plan in plans]
        problem = spare.problem(actors, [plan.target for plan in plans], near)
        assignment = self.assign(problem)
        if assignment is None:
            return [self.record(actors[0], now_ns, CROWDED, None, Trigger.LOAD)]
        cores = give_back(assignment.cores, problem.wanted, problem.homes, problem.state_bytes)
        found = []
        for plan, workers in zip(plans, spare.chosen(actors, cores), strict=True):
            if set(workers) != set(plan.actor.workers):
                found.append(self._decided(plan, workers, assignment, now_ns))
        return found

    def assign(self, problem: AssignmentProblem) -> Assignment | None:
        """Returns which cores go to whom."""
        return assign(problem, self._threshold)

    def _is_near(self, plan: _Plan, spare: SpareWorkers, now_ns: int) -> bool:
        """Returns whether locality counts for an actor now: where its workers change anyway, and where all are at home.
        One that has workers elsewhere is brought home only if it has been data-intensive for a while."""
        actor = plan.actor
        home = spare.node_of(actor.home)
        is_far = any(spare.node_of(name) != home for name in actor.workers if name in spare.names)
        if not is_far or actor.bytes_per_s / max(1, plan.target) <= self._threshold:
            self._far.end(actor.address)
            return True
        return self._far.note(actor.address, now_ns) >= self._give_back_ns or plan.target != plan.now

    def _decided(self, plan: _Plan, workers: tuple[str, ...], assignment: Assignment, now_ns: int) -> DecisionRecord:
        actor, target = plan.actor, len(workers)
        self._decided_ns[actor.address] = now_ns
        self._idle.end(actor.address)
        trigger, because, lost = _reasons(plan, target, self._settings.light)
        stay = Candidate(f"stay with {plan.now}", _predicted(plan.station, plan.now), lost)
        chosen = Candidate(f"use {target}", _predicted(plan.station, target))
        lacking = "it is not needed" if target >= plan.wish.cores else "no more workers are spare"
        more = Candidate(f"use {target + 1}", _predicted(plan.station, target + 1), lacking)
        seen = {
            "rate_per_s": actor.batches_per_s,
            "service_ms": actor.service_ns / 1e6,
            "wanted": float(plan.wish.cores),
            "threshold_bytes_per_s": assignment.threshold,
            "moved_bytes": assignment.moved_bytes,
        }
        candidates = (stay, chosen, more) if target != plan.now else (stay, chosen)
        return self.record(actor, now_ns, because, SetWorkers(*actor.address, workers), trigger, seen, candidates)

    def _forget(self, view: ElasticView) -> None:
        for patience in (self._idle, self._short, self._far):
            patience.keep_only(view.by_address)
        self._decided_ns = {address: at for address, at in self._decided_ns.items() if address in view.by_address}


class NaiveAssignment(WorkerAllocator):
    """The paper's baseline (naive-EC): as many workers, but the first that are found, without regard to the state that
    moves and to the nodes that they are on. For comparison."""

    name = "naive"

    def assign(self, problem: AssignmentProblem) -> Assignment | None:
        """Returns which cores go to whom, the first that are found."""
        return assign(problem, blind=True)


def _shed(plans: list[_Plan], spare: int) -> None:
    """Takes from who has most, where some of the workers that actors have are not to be had any more."""
    for _ in range(sum(plan.target - 1 for plan in plans) - spare):
        max(plans, key=lambda plan: (plan.target, plan.actor.address)).target -= 1


def _reasons(plan: _Plan, target: int, light: float) -> tuple[Trigger, str, str]:
    """Returns the trigger of a decision, why it was made, and why staying was not chosen."""
    if target > plan.now:
        if least_cores(plan.station.load, light) > plan.now:
            return Trigger.LOAD, "its load needs more workers", "it would not be stable"
        return Trigger.OBJECTIVE, "its job's objective needs more workers", "the objective would be missed"
    if target < plan.now:
        if plan.wish.low >= plan.now:
            return Trigger.ROBBED, "others need its workers more", "there are too few workers for all"
        return Trigger.IDLE_WORKERS, "fewer workers have been enough", "workers would be idle"
    return Trigger.LOCALITY, "its workers are better elsewhere", "data would cross the network, or others need them"


def _predicted(station: Station, cores: int) -> dict[str, float]:
    latency_s = response_s(cores, station) if station.arrivals_per_s > 0 else 0.0
    return {"latency_ms": latency_s * 1e3, "load_per_worker": station.load / cores}
