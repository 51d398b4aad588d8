"""What is kept of one observation: rows of figures of a job, its functions, its latencies, and of a worker."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from math import nan

from stretto.actors.metrics import FunctionMetrics, LatencySketch, SketchBins, difference, merged, value_of
from stretto.observation.model import FunctionObserved, JobObserved, WorkerObserved

JOB_FIELDS = (
    "rows_in",
    "results_per_s",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "queued",
    "behind_ms",
    "utility",
    "results",
    "in_time",
)
"""Of a job: rows per second that its sources read, rows per second at its sinks, latencies, messages that wait, for how
long the rows had waited that a source read last, utility, and how many results there were and were in time."""
JOB_SUMS = ("results", "in_time")
FUNCTION_FIELDS = ("rows_in", "rows_out", "busy", "waits", "queued", "cost_ms", "lag_s", "late")
"""Of a function: rows per second in and out, how many workers it keeps busy, the share of the time that it waits for
credits, messages that wait, what a message costs, how far its event time is behind the sources, late rows so far."""
WORKER_FIELDS = ("busy", "queued")
LATENCY_EDGES_MS = tuple(0.25 * 2.0**power for power in range(20))
"""The upper ends of the steps of the heat map, from a quarter of a millisecond to two minutes; one more is open."""
LATENCY_FIELDS = (*(f"le_{edge:g}" for edge in LATENCY_EDGES_MS), "more")


def job_latency(job: JobObserved) -> SketchBins | None:
    """Returns the latencies of all results of a job so far."""
    return merged(
        [
            FunctionMetrics(latency=actor.totals.latency)
            for function in job.functions.values()
            for actor in function.actors
            if actor.totals.latency is not None
        ]
    ).latency


def latency_between(later: SketchBins | None, earlier: SketchBins | None) -> SketchBins | None:
    """Returns the latencies of the results between two readings; all of the later one if counting began again."""
    if later is None or earlier is None:
        return later
    if any(later.bins.get(key, 0.0) < count for key, count in earlier.bins.items()):
        return later
    return difference(FunctionMetrics(latency=later), FunctionMetrics(latency=earlier)).latency


def job_row(job: JobObserved, latency: SketchBins | None) -> tuple[float, ...]:
    """Returns the figures of a job; `latency` has the results since the last row."""
    sketch = LatencySketch()
    if latency is not None:
        sketch.merge(latency)
    p50, p95, p99 = (_number(sketch.quantile(q)) for q in (0.5, 0.95, 0.99))
    sources = [function for function in job.functions.values() if not function.shape.feeds]
    sinks = [function for function in job.functions.values() if function.shape.is_sink]
    slo = job.objective
    utility = nan
    if slo is not None:
        utility = slo.utility(sketch.quantile(slo.percentile / 100), job.juice, job.is_stuck)
    limit_ms = slo.latency_ms if slo is not None else None
    return (
        sum(function.input_rate for function in sources),
        sum(function.input_rate for function in sinks),
        p50,
        p95,
        p99,
        sum(function.queued for function in job.functions.values()),
        max((actor.totals.behind_ns for each in sources for actor in each.actors), default=0) / 1e6,
        utility,
        sketch.count,
        nan if limit_ms is None or latency is None else within(latency, limit_ms),
    )


def function_row(job: JobObserved, function: FunctionObserved) -> tuple[float, ...]:
    """Returns the figures of one function."""
    busy_ns = sum(actor.totals.busy_ns - actor.before.busy_ns for actor in function.actors)
    messages = sum(actor.totals.messages_in - actor.before.messages_in for actor in function.actors)
    return (
        function.input_rate,
        function.output_rate,
        function.busy_share,
        function.waits_share,
        function.queued,
        busy_ns / messages / 1e6 if messages > 0 else nan,
        _number(event_lag_s(job, function)),
        sum(actor.totals.counts.get("late_rows", 0) for actor in function.actors),
    )


def event_lag_s(job: JobObserved, function: FunctionObserved) -> float | None:
    """Returns by how much the event time of a function is behind the slowest source; None where it is unknown."""
    sources = [each.watermark_us for each in job.functions.values() if not each.shape.feeds]
    known = [each for each in sources if each is not None]
    if not known or function.watermark_us is None:
        return None
    return max(0.0, (min(known) - function.watermark_us) / 1e6)


def worker_row(worker: WorkerObserved) -> tuple[float, ...]:
    """Returns the figures of one worker."""
    return (worker.busy_share, worker.queued)


def latency_row(latency: SketchBins | None) -> list[float]:
    """Returns how many results there were in each step of the heat map."""
    found = [0.0] * len(LATENCY_FIELDS)
    if latency is not None:
        found[0] += latency.zeros
        for key, count in latency.bins.items():
            found[bisect_left(LATENCY_EDGES_MS, value_of(key))] += count
    return found


def within(latency: SketchBins, limit_ms: float) -> float:
    """Returns how many results were not later than a limit, within the relative error of the sketch."""
    return latency.zeros + sum(count for key, count in latency.bins.items() if value_of(key) <= limit_ms)


def percentiles_of(latency: SketchBins | None) -> Mapping[str, float | None]:
    """Returns p50, p95, p99 and the maximum."""
    sketch = LatencySketch()
    if latency is not None:
        sketch.merge(latency)
    return sketch.percentiles()


def _number(value: float | None) -> float:
    return nan if value is None else value
