"""How many workers do two jobs with bursts need? (dirigo.txt figure 10)

With all workers, each actor has its own worker. With fewer, some share one, and the jobs send the same input. The
default is the paper's: first come, first served, every message at the lessor. It is compared with scheduling by
deadline, where a lessor forwards messages that would miss their deadline in its own queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from stretto.scheduling.offloading import Anticipate
from stretto.scheduling.policies import FIFO, LLF
from stretto.scheduling.strategy import Strategy
from stretto.simulator.experiments.clairvoyant import Task, in_time
from stretto.simulator.experiments.tenancy import Figure, Outcome, Scale, percentiles, satisfaction, together
from stretto.simulator.experiments.workloads import SECOND_NS, Kind, Query, Tenant, timetable, variation

ALPHAS = (5.0, 3.3, 2.5)
SHARES = (1.0, 0.7, 0.6)
FEWER = 0.7
"""The share of the workers that the paper reports on."""
COST_NS = 60_000_000
UTILISATION = 0.5
"""Utilisation with one worker per actor at the mean volume, for finding the objective and in the experiment."""
LIGHTER = 0.4
"""A lower utilisation: two actors that share a worker leave some of it free, except in bursts."""
SECONDS = 2.0
"""Volumes have long tails, so these runs are this many times longer than others."""
COUNTS = Query("counts", Kind.APART)
"""Like NEXMark 12: each actor emits its own counts."""
GREATEST = Query("greatest", Kind.FORWARD)
"""Like NEXMark 7: one output per window, which waits for all actors."""
QUERIES = {"counts": COUNTS, "greatest": GREATEST}
PAPER = {
    "points_above_default_up_to": {"5": 15, "3.3": 23, "2.5": 46},
    "default_drop_with_30_percent_fewer": "15 to 34 points",
    "ours_drop_with_30_percent_fewer": "1 to 14 points",
    "fewer_workers_above_isolated_default": {"5": 0, "3.3": 5, "2.5": 12},
}


Slos = dict[str, float]
"""The objective of each job, in milliseconds."""


def figure_10(scale: Scale, done: Callable[[], None]) -> Figure:
    """Two jobs with bursts on fewer and fewer workers: the default, deadlines with offloading, and the bound."""
    scale = replace(scale, seconds=scale.seconds * SECONDS)
    slos = _objectives(scale, done)
    points = [_point(scale, slos, alpha, share, UTILISATION, done) for alpha in ALPHAS for share in SHARES]
    lighter = [_point(scale, slos, alpha, FEWER, LIGHTER, done) for alpha in ALPHAS]
    settings = {
        "workers": scale.workers,
        "sources_per_job": scale.sources,
        "seconds": scale.seconds,
        "message_ms": COST_NS / 1e6,
        "slo_ms": {name: round(ms, 1) for name, ms in slos.items()},
        "slo_is": f"twice the p99 of each job alone at {UTILISATION:.0%}, constant volume, first come first served",
        "satisfaction_is": "the mean of both jobs' percentages of outputs in time",
    }
    return Figure("Two jobs with bursts on fewer workers", settings, points + lighter, _summary(points, lighter), PAPER)


def _objectives(scale: Scale, done: Callable[[], None]) -> Slos:
    """Returns twice the tail latency of each job alone, with its workers half utilised."""
    slos = {}
    for name in QUERIES:
        tenants = _tenants(scale, dict.fromkeys(QUERIES, 1_000.0), None, UTILISATION, None)
        alone = [tenant for tenant in tenants if tenant.name == name]
        slos[name] = 2 * percentiles(together(alone, scale.sources, FIFO, scale.seed).latencies_ms(name))["p99"]
        done()
    return slos


def _tenants(
    scale: Scale, slos: Slos, alpha: float | None, utilisation: float, strategy: Strategy | None
) -> list[Tenant]:
    # Counts come first, so that the single actors of the other job are placed on workers without an actor of this job.
    rate = utilisation * SECOND_NS / COST_NS
    lessees_max = scale.workers - 1 if strategy is not None else 0
    tenants = []
    for index, (name, query) in enumerate(QUERIES.items()):
        table = timetable([rate] * scale.sources, scale.seconds, COST_NS, 100 * scale.seed + index, alpha)
        tenants.append(Tenant(name, query, table, int(slos[name] * 1e6), lessees_max, strategy))
    return tenants


def _point(
    scale: Scale, slos: Slos, alpha: float, share: float, utilisation: float, done: Callable[[], None]
) -> dict[str, Any]:
    workers = max(2, round(scale.workers * share))
    at_home = _tenants(scale, slos, alpha, utilisation, None)
    spread = _tenants(scale, slos, alpha, utilisation, Anticipate(seed=scale.seed))
    default = _rates(together(at_home, workers, FIFO, scale.seed), slos)
    done()
    ours = _rates(together(spread, workers, LLF, scale.seed), slos)
    done()
    bound = bounds(at_home, workers, slos)
    return {
        "alpha": alpha,
        "volume_cv": round(variation([n for tenant in at_home for n in tenant.table.interval_counts]), 3),
        "workers": workers,
        "load": round(sum(t.table.work_ns for t in at_home) / (workers * scale.seconds * SECOND_NS), 3),
        "default": default,
        "ours": ours,
        "clairvoyant": bound,
        "points_above_default": round(ours["overall"] - default["overall"], 2),
        "points_below_clairvoyant": round(bound["overall"] - ours["overall"], 2),
    }


def _rates(outcome: Outcome, slos: Slos) -> dict[str, Any]:
    rates = {name: satisfaction(outcome.latencies_ms(name), slo_ms) for name, slo_ms in slos.items()}
    found: dict[str, Any] = {"overall": round(sum(rates.values()) / len(rates), 2), **rates}
    for name in slos:
        tails = percentiles(outcome.latencies_ms(name))
        found[f"{name}_ms"] = {"p50": tails["p50"], "p99": tails["p99"]}
    return found


def bounds(tenants: Sequence[Tenant], workers: int, slos: Slos) -> dict[str, float]:
    """Returns the percentages of outputs in time that no scheduler can exceed: for each job, if the other yields; for
    the outputs of both together; and for the compared mean, which is bounded by each job's own bound."""
    tasks = {tenant.name: _tasks(tenant, slos[tenant.name]) for tenant in tenants}
    rates = {name: _bound(own, workers) for name, own in tasks.items()}
    together = _bound([task for own in tasks.values() for task in own], workers)
    return {"overall": round(sum(rates.values()) / len(rates), 2), **rates, "outputs_of_both": together}


def _bound(tasks: list[Task], workers: int) -> float:
    return round(100 * in_time(tasks, workers) / len(tasks), 2)


def _tasks(tenant: Tenant, slo_ms: float) -> list[Task]:
    """Returns a task for each output, with the work of all its messages."""
    window_ns = tenant.query.size_us * 1_000
    apart = tenant.query.kind is Kind.APART
    outputs: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for source, arrivals in enumerate(tenant.table.sources):
        for due_ns, cost_ns in arrivals:
            outputs.setdefault((due_ns // window_ns, source if apart else 0), []).append((due_ns, cost_ns))
    tasks = []
    for (window, _), messages in outputs.items():
        end_ns = (window + 1) * window_ns
        alone_ns = max(end_ns, *(due_ns + cost_ns for due_ns, cost_ns in messages))
        work_ns = sum(cost_ns for _, cost_ns in messages)
        tasks.append(Task(window * window_ns, end_ns + int(slo_ms * 1e6), work_ns, alone_ns))
    return tasks


def _summary(points: list[dict[str, Any]], lighter: list[dict[str, Any]]) -> dict[str, Any]:
    fewest = {point["alpha"]: point for point in points if point["workers"] == points[SHARES.index(FEWER)]["workers"]}
    isolated = {point["alpha"]: point for point in points if point["workers"] == points[0]["workers"]}

    def by_alpha(figure: Callable[[float], float]) -> dict[str, float]:
        return {f"{alpha:g}": round(figure(alpha), 2) for alpha in ALPHAS}

    return {
        "points_above_default": by_alpha(lambda a: fewest[a]["points_above_default"]),
        "points_above_default_by_job": {
            name: {f"{a:g}": round(fewest[a]["ours"][name] - fewest[a]["default"][name], 2) for a in ALPHAS}
            for name in QUERIES
        },
        "points_above_default_lighter": {f"{p['alpha']:g}": p["points_above_default"] for p in lighter},
        "points_above_default_up_to": by_alpha(
            lambda a: max(p["points_above_default"] for p in points if p["alpha"] == a)
        ),
        "default_drop": by_alpha(lambda a: isolated[a]["default"]["overall"] - fewest[a]["default"]["overall"]),
        "ours_drop": by_alpha(lambda a: isolated[a]["ours"]["overall"] - fewest[a]["ours"]["overall"]),
        "fewer_workers_above_isolated_default": by_alpha(
            lambda a: fewest[a]["ours"]["overall"] - isolated[a]["default"]["overall"]
        ),
        "points_below_clairvoyant": by_alpha(lambda a: fewest[a]["points_below_clairvoyant"]),
    }


RUNS_10 = len(QUERIES) + 2 * len(ALPHAS) * (len(SHARES) + 1)
