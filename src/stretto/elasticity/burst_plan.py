"""What of a burst goes where: how much the ordinary workers lack, how many transient ones that takes, and which
functions' batches go there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stretto.elasticity.burst_memory import Remembered
from stretto.elasticity.burst_view import FunctionLoad, JobLoad
from stretto.elasticity.decisions import Redirection
from stretto.elasticity.offloading import rate_per_core, target_throughput, transient_cores
from stretto.elasticity.view import WorkerView

SHARE_MIN = 0.02
"""A function of which less would go stays at home."""


@dataclass(frozen=True, slots=True)
class BurstPlan:
    """The throughput that is needed, how many ordinary cores are missing for it, how many transient ones would do, and
    what goes to those that there are."""

    throughput: float
    missing: float
    cores: int
    redirections: tuple[Redirection, ...]

    @property
    def members(self) -> tuple[str, ...]:
        return self.redirections[0].members if self.redirections else ()

    @property
    def shares(self) -> dict[str, float]:
        return {each.function: each.share for each in self.redirections}


def missing_cores(
    load: JobLoad, known: Remembered, rate: float, level: float, workers: Mapping[str, WorkerView], fluid: bool = True
) -> float:
    """Returns how many cores the ordinary workers lack if events come at this rate, none is to be busier than `level`,
    and all runs there. What a strategy spreads and shards that move use the room of all; with `fluid` off, everything
    stays where it is."""
    fixed = dict(load.others)
    spread = 0.0
    for name, function in load.functions.items():
        cores = rate * known.cost_of(name)
        if fluid and function.fluid:
            spread += cores
        else:
            for worker, share in _homes(function).items():
                fixed[worker] = fixed.get(worker, 0.0) + cores * share
    over = room = 0.0
    for name, each in workers.items():
        left = level * each.cores - fixed.get(name, 0.0)
        over, room = (over - left, room) if left < 0 else (over, room + left)
    return over + max(0.0, spread - room)


def _homes(function: FunctionLoad) -> dict[str, float]:
    """Returns which share of a function is on which worker."""
    total = function.at_home
    if total > 0:
        return {worker: busy / total for worker, busy in function.home.items()}
    return dict.fromkeys(function.home, 1 / len(function.home)) if function.home else {}


def plan_burst(
    load: JobLoad, known: Remembered, target: float, workers: Mapping[str, WorkerView], free: Sequence[str]
) -> BurstPlan:
    """Returns what is to go to the transient workers that are free, those first that have batches now. The functions
    that keep ordinary workers busiest go first."""
    throughput = target_throughput(known.arriving, known.queued, load.deadline_s)
    missing = missing_cores(load, known, throughput, target, workers)
    able = {name: throughput * known.cost_of(name) for name, each in load.functions.items() if each.redirects}
    going = min(missing, sum(able.values()))
    per_core = rate_per_core(1.0, known.cost_per_event())
    cores = transient_cores(going * per_core, per_core, known.rho, target) if known.cost_per_event() else 0
    used = [name for name in load.away if name in free]
    members = tuple(sorted((used + [name for name in free if name not in used])[:cores]))
    most = len(members) * known.rho
    if going > most:
        # There are too few: both kinds of workers are to be equally full.
        here = max(0.0, sum(able.values()) - missing_cores(load, known, throughput, 1.0, workers))
        going = sum(able.values()) * most / (most + here) if members else 0.0
    redirections: list[Redirection] = []
    for name, cost in sorted(able.items(), key=lambda each: (-each[1], each[0])):
        share = min(1.0, going / cost) if cost > 0 else 0.0
        if members and share >= SHARE_MIN:
            redirections.append(Redirection(name, members, round(share, 2)))
            going -= share * cost
    return BurstPlan(throughput, missing, cores, tuple(redirections))
