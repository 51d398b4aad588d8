"""What of a burst goes where: how much the ordinary workers lack, how many transient ones that takes, and which
functions' batches go there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stretto.elasticity.burst_memory import Remembered
from stretto.elasticity.burst_view import FunctionLoad, JobLoad
from stretto.elasticity.decisions import Redirection
from stretto.elasticity.offloading import target_throughput, transient_cores
from stretto.elasticity.view import WorkerView

SHARE_MIN = 0.02
"""A function of which less would go stays at home."""
FREED_MIN = 0.2
"""And so does one of which less is freed at home, since reading, dividing and merging its rows takes most of it."""


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
    """Returns which share of a function is on which worker, if all of it runs there. While rows run elsewhere, what is
    done at home is a small rest, and mostly by chance on this worker or that one: rows say where the work would be."""
    by_worker = function.rows_by_home if function.rows_away_per_s > 0 else function.home
    total = sum(by_worker.values())
    if total > 0:
        return {worker: part / total for worker, part in by_worker.items()}
    return dict.fromkeys(function.home, 1 / len(function.home)) if function.home else {}


def plan_burst(
    load: JobLoad, known: Remembered, target: float, workers: Mapping[str, WorkerView], free: Sequence[str]
) -> BurstPlan:
    """Returns what is to go to the transient workers that are free, those first that have batches now. The functions
    that keep ordinary workers busiest go first."""
    throughput = target_throughput(known.arriving, known.queued, load.deadline_s)
    missing = missing_cores(load, known, throughput, target, workers)
    able = [
        able
        for name, each in load.functions.items()
        if each.redirects and (able := _Able.of(name, known, throughput)).freed > FREED_MIN * able.cost
    ]
    able.sort(key=lambda each: (-each.freed, each.name))
    shares = _shares(able, missing)
    away = sum(shares[each.name] * each.cost for each in able)
    cores = transient_cores(away, 1.0, known.rho, target)
    used = [name for name in load.away if name in free]
    members = tuple(sorted((used + [name for name in free if name not in used])[:cores]))
    most = len(members) * known.rho
    if away > most and members:
        # There are too few: both kinds of workers are to be equally full.
        here = max(0.0, sum(each.cost for each in able) - missing_cores(load, known, throughput, 1.0, workers))
        freed, cost = sum(each.freed for each in able), sum(each.cost for each in able)
        shares = _shares(able, freed / (here / most + freed / cost))
    redirections = tuple(
        Redirection(each.name, members, round(shares[each.name], 2))
        for each in able
        if members and shares[each.name] >= SHARE_MIN
    )
    return BurstPlan(throughput, missing, cores, redirections)


class _Able(NamedTuple):
    """A function that can run elsewhere: the ordinary cores that it takes at home, and how many of them are free if all
    of it runs elsewhere."""

    name: str
    cost: float
    freed: float

    @classmethod
    def of(cls, name: str, known: Remembered, throughput: float) -> _Able:
        cost = throughput * known.cost_of(name)
        return cls(name, cost, cost - throughput * known.handling_of(name))


def _shares(able: Sequence[_Able], missing: float) -> dict[str, float]:
    """Returns which share of each function goes elsewhere, so that so many ordinary cores are free: all of the first
    one before any of the next."""
    shares: dict[str, float] = {}
    for each in able:
        shares[each.name] = min(1.0, max(0.0, missing) / each.freed)
        missing -= shares[each.name] * each.freed
    return shares
