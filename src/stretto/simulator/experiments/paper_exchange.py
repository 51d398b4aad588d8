"""Figure 19 and tables 2 and 3 of elasticutor.txt: popularity that drifts like that of stocks, and scheduling time.

Twelve functions work on the orders of a stock (figure 17): the transactor, six statistics and five events. They are
simulated as one whose keys are pairs of a stock and a function, with rows of equal cost: what runs one after the other
is the work of one function on one stock, as in the paper. As one function by stock, the most popular stock alone would
need several cores, which it cannot use, and every approach would be bound by it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stretto.elasticity.assignment import AssignmentProblem, assign
from stretto.simulator.experiments.executors import CORES_PER_NODE, Measured, Setting
from stretto.simulator.experiments.paper_figures import (
    ALL,
    ELASTIC,
    NAIVE,
    OUR_LEVER,
    RESOURCE_CENTRIC,
    STATIC,
    Compared,
    Done,
    PaperFigure,
    PaperScale,
    paced,
    side_by_side,
)

STOCKS = 2_000
PAPER_NODES = 32
"""A smaller cluster has fewer stocks, so that a core has as many as in the paper."""
FUNCTIONS = 12
DRIFT = 0.4
"""So that the five most popular stocks change several times a minute, as in figure 18."""
RUNS_19 = 2 * len(ALL)
RUNS_TABLE_2 = len(ALL)
RUNS_TABLE_3 = 3 * len(ALL)
TRIES = 20
NODES = (8, 16, 32, 64, 128, 320)
CHANGED = 0.25
"""The share of executors whose wish has changed by one core or more."""


def stocks(scale: PaperScale, **more: Any) -> Setting:
    """Returns the setting of 5.4: orders of 96 bytes for twelve functions."""
    keys = round(STOCKS * more.get("nodes", scale.nodes) / PAPER_NODES)
    usual = {"keys": keys, "functions": FUNCTIONS, "tuple_bytes": 96, "drift": DRIFT, "skew": 0.6}
    return scale.setting(**{**usual, **more})


def figure_19(scale: PaperScale, done: Done) -> PaperFigure:
    """The four approaches side by side."""
    full = side_by_side(scale, stocks(scale), done)
    setting = paced(full, stocks(scale))
    given = side_by_side(scale, setting, done)
    ours: dict[str, Any] = {"full input": full.summary(), f"input {setting.load:g}": given.summary()}
    ours["by_second"] = {name: list(each.rows_by_second.values()) for name, each in full.found.items()}
    others = (STATIC, RESOURCE_CENTRIC, NAIVE)
    ours["throughput_by"] = {each.name: round(full.rate(ELASTIC) / full.rate(each), 2) for each in others}
    later = {each.name: given.of(each).p99_ms / max(0.1, given.of(ELASTIC).p99_ms) for each in others}
    ours["p99_by_ours"] = {name: round(factor, 1) for name, factor in later.items()}
    paper = {
        "naive and elastic": "about twice the throughput of static and resource-centric, latency 1 to 2 orders of "
        "magnitude lower",
        "naive": "a little worse than elastic",
    }
    claims = {
        "elastic has more throughput than static": full.rate(ELASTIC) > full.rate(STATIC),
        "it has more throughput than resource-centric": full.rate(ELASTIC) > full.rate(RESOURCE_CENTRIC),
        "it is not worse than naive": full.rate(ELASTIC) >= 0.98 * full.rate(NAIVE),
        "its p99 is an order of magnitude below static's": later["static"] >= 10,
        "its p99 is below resource-centric's": later["resource_centric"] > 1,
    }
    note = f"A simulated workload with drifting popularity, not the exchange's orders. {OUR_LEVER}."
    return PaperFigure("Stock exchange", ours, paper, claims, note)


def table_2(scale: PaperScale, done: Done) -> PaperFigure:
    """What assignment without regard to migration and locality costs."""
    found = side_by_side(scale, stocks(scale), done)
    ours = {name: _rates(each) for name, each in found.found.items()}
    paper = {
        "naive": {"state_mb_per_s": 13.9, "remote_mb_per_s": 235.3},
        "elastic": {"state_mb_per_s": 2.4, "remote_mb_per_s": 21.6},
    }
    claims = {
        f"naive has more {what}": ours["naive"][name] > ours["elastic"][name]
        for what, name in (("remote data", "remote_mb_per_s"), ("migration", "state_mb_per_s"))
    }
    note = "The workload of figure 19. Static and resource-centric partitions have no remote tasks."
    return PaperFigure("Naive assignment", ours, paper, claims, note)


def _rates(measured: Measured) -> dict[str, Any]:
    summary = measured.summary()
    return {name: summary[name] for name in ("state_mb_per_s", "remote_mb_per_s", "tuples_per_s")}


def table_3(scale: PaperScale, done: Done) -> PaperFigure:
    """Throughput by the number of nodes, and the time of this machine's processor that an assignment takes."""
    sizes = [max(2, scale.nodes // 4), max(2, scale.nodes // 2), scale.nodes]
    found = dict[int, Compared]()
    for nodes in sizes:
        found[nodes] = side_by_side(scale, stocks(scale, nodes=nodes), done)
    throughput = {
        name: {str(nodes): round(each.found[name].tuples_per_s) for nodes, each in found.items()}
        for name in (each.name for each in ALL)
    }
    deciding = {str(nodes): deciding_ms(nodes, scale) for nodes in NODES}
    paper = {
        "tuples_per_s": {"elastic": {"8": 66_600, "16": 121_300, "32": 218_600}},
        "deciding_ms": {"8": 4.1, "16": 5.2, "32": 5.7},
    }
    smallest, largest = sizes[0], sizes[-1]
    grown = found[largest].rate(ELASTIC) / found[smallest].rate(ELASTIC)
    ours = {"tuples_per_s": throughput, "deciding_ms": deciding}
    claims = {
        "throughput grows nearly with the nodes": grown > 0.75 * largest / smallest,
        "deciding for 32 nodes takes at most 6 ms": deciding["32"]["median"] <= 6.0,
    }
    note = (
        f"Deciding: processor time, 8 executors and 16 cores per node, {CHANGED:.0%} want more cores; the fastest and "
        f"the median of {TRIES}. The paper's own growth from 8 to 32 nodes is 0.82 of linear."
    )
    return PaperFigure("Scalability and scheduling time", ours, paper, claims, note)


def deciding_ms(nodes: int, scale: PaperScale) -> dict[str, float]:
    """Returns how long an assignment takes to decide, with as many executors as cores by 8 on each node."""
    times_ms = []
    for attempt in range(TRIES):
        problem = changed_problem(nodes, seed=1_000 * scale.seed + attempt)
        begins_s = scale.clock()
        found = assign(problem)
        times_ms.append((scale.clock() - begins_s) * 1e3)
        if found is None:
            raise ValueError("the assignment has no solution")
    return {"fastest": round(min(times_ms), 2), "median": round(float(np.median(times_ms)), 2)}


def changed_problem(nodes: int, seed: int) -> AssignmentProblem:
    """Returns a problem with 8 executors per node, each with a core there, of which a part wants more now.

    Nodes have 16 cores: with 8, every core would be the home of an executor, and there would be nothing to decide."""
    chance = np.random.default_rng(seed)
    executors = nodes * CORES_PER_NODE
    homes = np.arange(executors) % nodes
    current = np.zeros((nodes, executors), np.int64)
    current[homes, np.arange(executors)] = 1
    wanted = np.ones(executors, np.int64)
    cores = np.full(nodes, 2 * CORES_PER_NODE, np.int64)
    changed = chance.random(executors) < CHANGED
    wanted[changed] += chance.integers(1, 4, int(changed.sum()))
    state_bytes = chance.uniform(1e6, 8e6, executors)
    bytes_per_s = chance.uniform(0.0, 4e5, executors)
    return AssignmentProblem(cores, wanted, homes, state_bytes, bytes_per_s, current)
