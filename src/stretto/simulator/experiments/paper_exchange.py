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
    ELASTIC,
    LATENCY_LOAD,
    NAIVE,
    NO_RC,
    RESOURCE_CENTRIC,
    STATIC,
    Done,
    PaperFigure,
    PaperScale,
    run,
    runs_of,
    side_by_side,
)

STOCKS = 2_000
PAPER_NODES = 32
"""A smaller cluster has fewer stocks, so that a core has as many as in the paper."""
FUNCTIONS = 12
DRIFT = 0.4
"""So that the five most popular stocks change several times a minute, as in figure 18."""
ALL = (STATIC, RESOURCE_CENTRIC, NAIVE, ELASTIC)
RUNS_19 = 2 * runs_of(ALL)
TRIES = 20
NODES = (8, 16, 32, 64, 128, 320)
CHANGED = 0.25
"""The share of executors whose wish has changed by one core or more."""


def stocks(scale: PaperScale, **more: Any) -> Setting:
    """Returns the setting of 5.4: orders of 96 bytes for twelve functions."""
    keys = round(STOCKS * more.get("nodes", scale.nodes) / PAPER_NODES)
    usual = {"keys": keys, "functions": FUNCTIONS, "tuple_bytes": 96, "drift": DRIFT, "skew": 0.6}
    made = scale.paced if "load" in more else scale.setting
    return made(**{**usual, **more})


def figure_19(scale: PaperScale, done: Done) -> PaperFigure:
    """The four approaches side by side."""
    full = side_by_side(stocks(scale), done, ALL)
    given = side_by_side(stocks(scale, load=LATENCY_LOAD), done, ALL)
    ours: dict[str, Any] = {"full input": full.summary(), f"input {LATENCY_LOAD:g}": given.summary()}
    ours["by_second"] = {
        name: None if each is None else list(each.rows_by_second.values()) for name, each in full.found.items()
    }
    fixed, blind, free = full.of(STATIC), full.of(NAIVE), full.of(ELASTIC)
    ours["throughput_by_static"] = round(free.tuples_per_s / fixed.tuples_per_s, 2)
    ours["throughput_by_naive"] = round(free.tuples_per_s / blind.tuples_per_s, 2)
    ours["p99_of_static_by_ours"] = round(given.of(STATIC).p99_ms / max(0.1, given.of(ELASTIC).p99_ms), 1)
    paper = {"naive and elastic": "about twice the throughput of static, latency 1 to 2 orders of magnitude lower"}
    holds = (
        free.tuples_per_s > fixed.tuples_per_s
        and free.tuples_per_s >= 0.98 * blind.tuples_per_s
        and ours["p99_of_static_by_ours"] >= 10
    )
    note = f"A simulated workload with drifting popularity, not the exchange's orders. {NO_RC}"
    return PaperFigure("Stock exchange", ours, paper, holds, note)


def table_2(scale: PaperScale, done: Done) -> PaperFigure:
    """What assignment without regard to migration and locality costs."""
    found = {kind.name: run(kind, stocks(scale), done) for kind in (NAIVE, ELASTIC)}
    ours = {name: _rates(each) for name, each in found.items()}
    paper = {
        "naive": {"state_mb_per_s": 13.9, "remote_mb_per_s": 235.3},
        "elastic": {"state_mb_per_s": 2.4, "remote_mb_per_s": 21.6},
    }
    holds = (
        ours["naive"]["remote_mb_per_s"] >= ours["elastic"]["remote_mb_per_s"]
        and ours["naive"]["state_mb_per_s"] >= ours["elastic"]["state_mb_per_s"]
    )
    return PaperFigure("Naive assignment", ours, paper, holds, "The workload of figure 19.")


def _rates(measured: Measured) -> dict[str, Any]:
    summary = measured.summary()
    return {name: summary[name] for name in ("state_mb_per_s", "remote_mb_per_s", "tuples_per_s")}


def table_3(scale: PaperScale, done: Done) -> PaperFigure:
    """Throughput by the number of nodes, and the time of this machine's processor that an assignment takes."""
    sizes = sorted({max(2, scale.nodes // 4), max(2, scale.nodes // 2), scale.nodes})
    throughput = {str(nodes): round(run(ELASTIC, stocks(scale, nodes=nodes), done).tuples_per_s) for nodes in sizes}
    deciding = {str(nodes): deciding_ms(nodes, scale) for nodes in NODES}
    paper = {
        "tuples_per_s": {"8": 66_600, "16": 121_300, "32": 218_600},
        "deciding_ms": {"8": 4.1, "16": 5.2, "32": 5.7},
    }
    grows = throughput[str(sizes[-1])] / throughput[str(sizes[0])] > 0.6 * sizes[-1] / sizes[0]
    ours = {"tuples_per_s": throughput, "deciding_ms": deciding}
    holds = grows and deciding["32"]["median"] <= 6.0
    note = (
        f"Deciding: processor time, 8 executors and 16 cores per node, {CHANGED:.0%} want more cores; the fastest and "
        f"the median of {TRIES}."
    )
    return PaperFigure("Scalability and scheduling time", ours, paper, holds, note)


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
