"""Many tenants on one cluster (thesis 5.6): urgent and bulk jobs, bursts, skewed sources; LLF against FIFO.

The objective of an urgent job is found as in the thesis: twice the p95 of four urgent jobs alone under FIFO, on so few
workers that these are half utilised. Bulk jobs have an objective of two hours, as in the thesis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from stretto.scheduling.offloading import Anticipate
from stretto.scheduling.policies import FIFO, LLF, Policy
from stretto.simulator.experiments.provisioning import RUNS_10, figure_10
from stretto.simulator.experiments.tenancy import (
    Experiment,
    Figure,
    Outcome,
    Scale,
    percentiles,
    satisfaction,
    together,
)
from stretto.simulator.experiments.workloads import (
    BULK,
    IPQ1,
    IPQ2,
    IPQ3,
    IPQ4,
    MERGED_BY,
    SECOND_NS,
    Query,
    Tenant,
    Timetable,
    skewed,
    timetable,
)

POLICIES: tuple[type[Policy], ...] = (LLF, FIFO)
URGENT_JOBS = 4
URGENT_RATE = 1.0
"""Messages per second and source, as in the thesis."""
URGENT_NS = 10_000_000
BULK_NS = 40_000_000
"""Time of the first stage per message; messages of bulk jobs are larger."""
BULK_JOBS = 8
BULK_LATENCY_NS = 7200 * SECOND_NS
HALF = 0.5
Done = Callable[[], None]


def urgent_jobs(scale: Scale, latency_ns: int, alpha: float | None = None) -> list[Tenant]:
    """Group 1: sparse input, windows of a second."""
    tenants = []
    for index in range(URGENT_JOBS):
        rates = [URGENT_RATE] * scale.sources
        table = timetable(rates, scale.seconds, URGENT_NS, 1_000 * scale.seed + index, alpha)
        tenants.append(Tenant(f"urgent-{index}", IPQ1, table, latency_ns))
    return tenants


def bulk_jobs(scale: Scale, load: float, jobs: int = BULK_JOBS, alpha: float | None = None) -> list[Tenant]:
    """Group 2: windows of ten seconds, and enough input for all these jobs to need the share `load` of the workers. A
    burst concerns a whole job."""
    rate = load * scale.workers * SECOND_NS / (jobs * scale.sources * BULK_NS)
    tenants = []
    for index in range(jobs):
        seed = 1_000 * scale.seed + 100 + index
        table = timetable([rate] * scale.sources, scale.seconds, BULK_NS, seed, alpha, in_step=True)
        tenants.append(Tenant(f"bulk-{index}", BULK, table, BULK_LATENCY_NS))
    return tenants


def needed_workers(tenants: list[Tenant], seconds: float, utilisation: float) -> int:
    """Returns the number of workers that these tenants use to the given utilisation."""
    busy_ns = 0.0
    for tenant in tenants:
        sources = len(tenant.table.sources)
        slides = seconds * 1e6 / tenant.query.slide_us
        merged_ns = sources * tenant.query.merging_ns + max(1, sources // MERGED_BY) * tenant.query.final_ns
        busy_ns += tenant.table.work_ns + slides * merged_ns
    return max(1, round(busy_ns / (utilisation * seconds * SECOND_NS)))


def objective_ms(tenants: list[Tenant], scale: Scale) -> tuple[float, float]:
    """Returns twice the p95 at half utilisation, and the utilisation that was measured."""
    alone = together(tenants, needed_workers(tenants, scale.seconds, HALF), FIFO, scale.seed)
    return 2 * percentiles(alone.latencies_ms(""))["p95"], alone.utilisation


def _urgent_objective(scale: Scale, done: Done) -> float:
    found_ms = _urgent_objective_ms(scale)
    done()
    return found_ms


@cache
def _urgent_objective_ms(scale: Scale) -> float:
    """Cached, because several figures have the same urgent jobs."""
    return objective_ms(urgent_jobs(scale, SECOND_NS), scale)[0]


def _beside(
    scale: Scale, bulk: list[Tenant], slo_ms: float, workers: int, done: Done, alpha: float | None = None
) -> dict[str, Any]:
    """Runs urgent and bulk jobs together under each policy; returns the figures and the ratios FIFO / LLF."""
    found: dict[str, Any] = {}
    for policy in POLICIES:
        tenants = [*urgent_jobs(scale, int(slo_ms * 1e6), alpha), *bulk]
        outcome = together(tenants, workers, policy, scale.seed)
        found[policy.__name__.lower()] = _groups(outcome, scale, slo_ms)
        done()
    return {**found, "fifo_by_llf": _ratios(found["fifo"]["urgent"], found["llf"]["urgent"])}


def _groups(outcome: Outcome, scale: Scale, slo_ms: float) -> dict[str, Any]:
    urgent = outcome.latencies_ms("urgent")
    return {
        "utilisation": round(outcome.utilisation, 3),
        "urgent": {**percentiles(urgent), "in_time": satisfaction(urgent, slo_ms)},
        "bulk": percentiles(outcome.latencies_ms("bulk")),
        "bulk_messages_per_s": round(outcome.messages("bulk") / scale.seconds, 1),
    }


def _ratios(fifo: dict[str, float], llf: dict[str, float]) -> dict[str, float]:
    return {name: round(fifo[name] / max(llf[name], 1e-3), 2) for name in ("p50", "p99", "sd")}


def _beside_summary(points: list[dict[str, Any]]) -> dict[str, Any]:
    lost = [1 - p["llf"]["bulk_messages_per_s"] / p["fifo"]["bulk_messages_per_s"] for p in points]
    return {
        "p50_up_to": max(point["fifo_by_llf"]["p50"] for point in points),
        "p99_up_to": max(point["fifo_by_llf"]["p99"] for point in points),
        "bulk_throughput_lower_percent": round(100 * max(lost), 2),
        "urgent_in_time_llf_least": min(point["llf"]["urgent"]["in_time"] for point in points),
        "urgent_in_time_fifo_least": min(point["fifo"]["urgent"]["in_time"] for point in points),
    }


def _settings(scale: Scale, **more: Any) -> dict[str, Any]:
    return {
        "workers": scale.workers,
        "sources_per_job": scale.sources,
        "seconds": scale.seconds,
        "slo_is": "twice the p95 of the job at 50% of the workers' time, first come first served",
        **more,
    }


# Figure 5.7: one query on one machine.

MACHINES = 32
"""The cluster of the thesis; a single-tenant run has the workers of one machine."""
SINGLE_LOAD = 0.8
SINGLE_SECONDS = 3.0
"""These runs are small, and this many times longer than others."""
QUERIES = {query: 2 if query is IPQ4 else 1 for query in (IPQ1, IPQ2, IPQ3, IPQ4)}
"""The queries, with the factor by which a message costs more: a join does more work."""


def figure_5_7(scale: Scale, done: Done) -> Figure:
    """A single tenant: messages of the next window should not run before those that the last window waits for."""
    scale = replace(scale, seconds=scale.seconds * SINGLE_SECONDS)
    workers = max(2, scale.workers // MACHINES)
    points = []
    for index, (query, dearer) in enumerate(QUERIES.items()):
        slo_ms = objective_ms([_single(scale, query, dearer, HALF, workers, index, SECOND_NS)], scale)[0]
        done()
        found: dict[str, Any] = {"query": query.name, "slo_ms": round(slo_ms, 1)}
        for policy in POLICIES:
            tenant = _single(scale, query, dearer, SINGLE_LOAD, workers, index, int(slo_ms * 1e6))
            outcome = together([tenant], workers, policy, scale.seed)
            latencies_ms = outcome.latencies_ms("")
            figures = {**percentiles(latencies_ms), "in_time": satisfaction(latencies_ms, slo_ms)}
            found[policy.__name__.lower()] = {"utilisation": round(outcome.utilisation, 3), **figures}
            done()
        points.append({**found, "fifo_by_llf": _ratios(found["fifo"], found["llf"])})
    ours = {
        "p50_up_to": max(point["fifo_by_llf"]["p50"] for point in points),
        "p99_up_to": max(point["fifo_by_llf"]["p99"] for point in points),
    }
    paper = {"p50_up_to": 2.7, "p99_up_to": 3.2, "against": "FIFO and Orleans"}
    return Figure("One query on one machine", _settings(scale, workers=workers), points, ours, paper)


def _single(scale: Scale, query: Query, dearer: int, load: float, workers: int, index: int, latency_ns: int) -> Tenant:
    """Returns one job with enough input to need the share `load` of the workers, with all its stages."""
    cost_ns = dearer * URGENT_NS
    free = load * workers * SECOND_NS - scale.sources * query.merging_ns * 1_000_000 / query.slide_us
    rate = max(1.0, free / (scale.sources * cost_ns))
    table = timetable([rate] * scale.sources, scale.seconds, cost_ns, 1_000 * scale.seed + 200 + index)
    return Tenant(query.name, query, table, latency_ns)


# Figure 5.8: urgent jobs and bulk jobs.

LOADS = (0.3, 0.6, 0.9, 1.1)
TENANTS = (4, 12, 16)
LOAD_PER_TENANT = 0.075
SHARES = (1.0, 0.6, 0.4)
LOAD_WITH_FEWER = 0.45


def figure_5_8a(scale: Scale, done: Done) -> Figure:
    """More and more input for the bulk jobs."""
    settings = [({"bulk_load": load}, bulk_jobs(scale, load), scale.workers) for load in LOADS]
    paper = {"p50_up_to": 2.0, "p99_up_to": 1.8, "bulk_throughput_lower_percent": 2.5}
    return _figure_5_8("Urgent jobs, and more input for bulk jobs", scale, settings, paper, done)


def figure_5_8b(scale: Scale, done: Done) -> Figure:
    """More and more bulk jobs."""
    settings = [
        ({"bulk_jobs": jobs}, bulk_jobs(scale, jobs * LOAD_PER_TENANT, jobs), scale.workers) for jobs in TENANTS
    ]
    paper = {"p50_up_to": 4.6, "p99_up_to": 13.6, "bulk_throughput_lower_percent": 2.5}
    return _figure_5_8("Urgent jobs, and more bulk jobs", scale, settings, paper, done)


def figure_5_8c(scale: Scale, done: Done) -> Figure:
    """Fewer and fewer workers."""
    fewer = [max(1, round(scale.workers * share)) for share in SHARES]
    settings = [({"workers": workers}, bulk_jobs(scale, LOAD_WITH_FEWER), workers) for workers in fewer]
    return _figure_5_8("Urgent jobs, and fewer workers", scale, settings, {"urgent_in_time_llf_least": 90}, done)


def _figure_5_8(
    title: str,
    scale: Scale,
    settings: list[tuple[dict[str, Any], list[Tenant], int]],
    paper: dict[str, Any],
    done: Done,
) -> Figure:
    """Runs the urgent jobs in each setting: the varied value, the bulk jobs, and the number of workers."""
    slo_ms = _urgent_objective(scale, done)
    points = [{**varied, **_beside(scale, bulk, slo_ms, workers, done)} for varied, bulk, workers in settings]
    return Figure(title, _settings(scale, slo_ms=round(slo_ms, 1)), points, _beside_summary(points), paper)


# Figure 5.9: bursts.

ALPHAS = (5.0, 3.3, 2.5)
LOAD_WITH_BURSTS = 0.42
BURST_SECONDS = 1.5
"""Bursts are rare, so these runs are this many times longer than others."""


def figure_5_9(scale: Scale, done: Done) -> Figure:
    """Volumes per second from a Pareto distribution, with the workers less than half utilised."""
    slo_ms = _urgent_objective(scale, done)
    scale = replace(scale, seconds=scale.seconds * BURST_SECONDS)
    points = []
    for alpha in ALPHAS:
        bulk = bulk_jobs(scale, LOAD_WITH_BURSTS, alpha=alpha)
        volumes = Timetable([], scale.seconds, [count for tenant in bulk for count in tenant.table.interval_counts])
        found = _beside(scale, bulk, slo_ms, scale.workers, done, alpha)
        points.append({"alpha": alpha, "volume_cv": round(volumes.variation, 3), **found})
    ours = {f"{point['alpha']:g}": point["fifo_by_llf"] for point in points}
    paper = {"p50": 1.3, "p99": 21.1, "sd": 12.7}
    return Figure("Bursts", _settings(scale, slo_ms=round(slo_ms, 1)), points, ours, paper)


# Figure 5.10: skewed sources.

TYPES = ("type1", "type2")
SKEW = 200.0
JOBS_PER_TYPE = 4
SKEWED_LOADS = (0.4, 0.5, 0.6)
"""Skewed sources overload no worker at the first load, and some at the others."""
TYPED_NS = 20_000_000


def figure_5_10(scale: Scale, done: Done) -> Figure:
    """Type 1 has twice as many events, evenly over its sources; in type 2, some sources have 200 times as many as
    others, which delays everything on the same workers.

    In the thesis, four threads share the work of a machine. A worker here has one thread, so a third variant lets
    lessors forward messages that would be late."""
    even = [tenant for tenant in typed_jobs(scale, HALF, SECOND_NS) if tenant.name.startswith("type1")]
    # Skewed sources overload some workers even at half the load, so they get the objective of the even ones.
    slo_ms = objective_ms(even, scale)[0]
    done()
    points: list[dict[str, Any]] = []
    for load in SKEWED_LOADS:
        found: dict[str, Any] = {"load": load}
        for name, policy, offloads in (("llf", LLF, False), ("fifo", FIFO, False), ("llf_offloading", LLF, True)):
            tenants = typed_jobs(scale, load, int(slo_ms * 1e6), offloads)
            outcome = together(tenants, scale.workers, policy, scale.seed)
            found[name] = {"utilisation": round(outcome.utilisation, 3), **_types(outcome, slo_ms)}
            done()
        points.append(found)
    names = ("fifo", "llf", "llf_offloading")
    ours = {
        f"load {point['load']:g}": {name: {kind: point[name][kind]["in_time"] for kind in TYPES} for name in names}
        for point in points
    }
    paper = {"fifo": {"type1": 7.9, "type2": 9.5}, "llf": {"type1": 21.3, "type2": 45.5}}
    return Figure("Uneven sources", _settings(scale, slo_ms=round(slo_ms, 1)), points, ours, paper)


def _types(outcome: Outcome, slo_ms: float) -> dict[str, Any]:
    latencies_ms = {kind: outcome.latencies_ms(kind) for kind in TYPES}
    return {kind: {**percentiles(ms), "in_time": satisfaction(ms, slo_ms)} for kind, ms in latencies_ms.items()}


def typed_jobs(scale: Scale, load: float, latency_ns: int, offloads: bool = False) -> list[Tenant]:
    """Returns jobs of both types alternately, so that each type has jobs on all workers."""
    work = load * scale.workers * SECOND_NS / (JOBS_PER_TYPE * TYPED_NS)
    merged = scale.sources * IPQ1.merging_ns / TYPED_NS
    totals = dict(zip(TYPES, (work * 2 / 3 - merged, work / 3 - merged), strict=True))
    tenants = []
    for index in range(JOBS_PER_TYPE):
        for kind, total in totals.items():
            seed = 1_000 * scale.seed + 300 + 10 * index + (kind == "type2")
            skew = SKEW if kind == "type2" else 1.0
            table = timetable(skewed(total, scale.sources, skew, seed), scale.seconds, TYPED_NS, seed)
            tenant = Tenant(f"{kind}-{index}", IPQ1, table, latency_ns)
            if offloads:
                tenant = replace(tenant, lessees_max=scale.workers - 1, strategy=Anticipate(seed=seed))
            tenants.append(tenant)
    return tenants


EXPERIMENTS: dict[str, Experiment] = {
    "5.7": Experiment(figure_5_7, 3 * len(QUERIES)),
    "5.8a": Experiment(figure_5_8a, 1 + 2 * len(LOADS)),
    "5.8b": Experiment(figure_5_8b, 1 + 2 * len(TENANTS)),
    "5.8c": Experiment(figure_5_8c, 1 + 2 * len(SHARES)),
    "5.9": Experiment(figure_5_9, 1 + 2 * len(ALPHAS)),
    "5.10": Experiment(figure_5_10, 1 + 3 * len(SKEWED_LOADS)),
    "10": Experiment(figure_10, RUNS_10),
}
"""By figure number: those of the thesis, and 10 of dirigo.txt."""
