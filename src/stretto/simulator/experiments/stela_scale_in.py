"""Stela's scale-in (thesis 2.4.5): page load with 15 executors per component goes from 8 machines to 4.

As there, a machine has executors of one operator, and random groups of machines are what Stela is compared with: what
they had goes to the others in turn. A machine has one processor, so it is a worker here. What operators cost is not in
our copy of the thesis. They cost so much that four machines are just enough, since four keep the throughput there.

The thesis has 2 to 5 times what random groups keep. That cannot be had where senders wait for credits. Then no work is
wasted, and a job is as fast as the machine with the most work per batch lets it be. Let that be `m` before, and `w` the
work of all machines. Of `k` machines that stay, whichever they are, none has more than `m (1 - 1/k) + w / k` in the
end: its own and an even share of the rest. Who keeps a throughput of `t` has `m <= 1 / t` and `w / k <= 1 / t`. So any
group keeps at least `t / (2 - 1/k)`: four machines that keep everything have at most 1.75 times what the worst group
has (a little more, since executors cannot be divided evenly). `bounds` has it for these costs.

Storm's queues have no bounds. The thesis says what that is good for: who leaves machines with congested operators alone
lets them "digest tuples in their queues and continue producing output". `stela_open_queues.py` models that.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from stretto.elasticity.scaling_strategies import loads_of, moved_away, scaling_strategy_named, workers_of
from stretto.elasticity.topology import Placement
from stretto.simulator.experiments.dataflows import OTHER_NS, Dataflow, OperatorModel, dataflow
from stretto.simulator.experiments.stela_open_queues import OpenQueuesFigure, open_queues_figure
from stretto.simulator.experiments.stela_runs import Done, in_job, in_topology, measured, rate, run

MACHINES, LEAVING, EXECUTORS = 8, 4, 15
THESIS_GAIN = 2.0
COSTS_MS = {
    "spout": 0.2,
    "transform": 0.1,
    "filter": 0.1,
    "join": 0.1,
    "enrich": 1.2,
    "aggregate": 3.0,
    "output": 1.1,
}
"""What a batch costs each operator of page load. The aggregate, which has two machines, is congested."""


@dataclass
class ScaleInFigure:
    """Page load from 8 machines to 4: rows per second before, after Stela's choice, and after random ones.

    `by_random_mean` and `by_random_worst` are how many times as much Stela's choice keeps. `kept_bound` is the greatest
    share of the throughput that can be kept, and `gain_bound` how many times the mean of the same groups that is.
    `open_queues` is a model of the same choices where nobody waits for credits."""

    before: float
    stela: float
    stela_leaving: list[str]
    random: list[float]
    by_random_mean: float
    by_random_worst: float
    kept_share: float
    kept_bound: float
    gain_bound: float
    open_queues: OpenQueuesFigure


def scale_in_case() -> tuple[Dataflow, Placement]:
    """Returns page load with 15 executors per component on 8 machines, of one operator each; the congested operator
    has two machines."""
    names = list(COSTS_MS)
    flow = dataflow(
        *(OperatorModel(name, COSTS_MS[name], tuple(names[place + 1 : place + 2])) for place, name in enumerate(names))
    )
    machines = [name for name in names for _ in range(2 if name == "aggregate" else 1)]
    homes = {}
    for name in names:
        own = [f"w{place}~1" for place, operator in enumerate(machines) if operator == name]
        homes[name] = tuple(own[place % len(own)] for place in range(EXECUTORS))
    return flow, homes


def scale_in_figure(seconds: float, groups: int, seed: int, done: Done) -> ScaleInFigure:
    """Lets half of the machines leave: those that Stela chooses, and random groups."""
    flow, homes = scale_in_case()
    before = run(flow, homes, MACHINES, seconds, seed, done)
    plan = scaling_strategy_named("stela").scale_in(measured(before), in_topology(homes), LEAVING)
    kept = rate(run(flow, in_job(plan.placement), MACHINES, seconds, seed, done))
    chance = random.Random(seed)
    others = [without(homes, chance.sample(workers_of(homes), LEAVING)) for _ in range(groups)]
    found = [rate(run(flow, placement, MACHINES, seconds, seed, done)) for placement in others]
    work = work_of(flow)
    kept_bound, gain_bound = bounds(homes, others, work)
    return ScaleInFigure(
        rate(before),
        kept,
        list(plan.leaving),
        found,
        round(kept / mean(found), 2),
        round(kept / min(found), 2),
        round(kept / rate(before), 3),
        round(kept_bound, 3),
        round(gain_bound, 2),
        open_queues_figure(in_job(plan.placement), others, work, throughput(homes, work)),
    )


def without(homes: Placement, leaving: Collection[str]) -> Placement:
    """Returns the placement in which the others have what some machines had, in turn."""
    staying = [worker for worker in workers_of(homes) if worker not in leaving]
    return moved_away(homes, sorted(leaving), staying).placement


# The model.


def work_of(flow: Dataflow) -> dict[str, float]:
    """Returns the milliseconds that an executor of each operator takes for each batch that the job reads; all rows are
    passed on, and batches go to executors in turn."""
    return {name: (each.cost_ms + OTHER_NS / 1e6) / EXECUTORS for name, each in flow.items()}


def throughput(homes: Placement, work: Mapping[str, float]) -> float:
    """Returns the batches per millisecond that a placement can process: the fullest machine decides."""
    return 1 / max(loads_of(homes, work).values())


def bounds(homes: Placement, groups: Sequence[Placement], work: Mapping[str, float]) -> tuple[float, float]:
    """Returns the greatest share of the throughput that half of the machines can keep without doing better than all
    of them did, and how many times that is what some groups of them keep on average."""
    before = throughput(homes, work)
    most = min(before, (MACHINES - LEAVING) / sum(loads_of(homes, work).values()))
    return most / before, most / mean(throughput(placement, work) for placement in groups)
