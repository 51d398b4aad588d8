"""What a job handle reports: rates, queues, busy shares, latency, juice, and whether the objective is met."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from stretto.actors.juice import juice
from stretto.actors.metrics import FunctionMetrics, LatencySketch, SketchBins, difference, is_stuck
from stretto.api.plan import Plan


@dataclass(frozen=True)
class FunctionReport:
    """One function over all its instances; rates are per second since the job began to run."""

    rows_in: int
    rows_out: int
    messages_in: int
    queued: int
    busy_share: float
    input_rate: float
    output_rate: float
    instances: int
    counts: dict[str, int] = field(default_factory=dict)
    messages_forwarded: int = 0
    barrier_ms: dict[str, float | None] = field(default_factory=dict)
    """How long barriers over several instances took; empty if there was none."""
    strategy: str | None = None
    """What a strategy that chooses by itself (`auto`) has chosen for its messages, and why."""


@dataclass(frozen=True)
class ObjectiveReport:
    """Whether the job meets its objective; None where the objective is silent or nothing was measured yet."""

    latency_ms: float | None
    latency_met: bool | None
    juice: float | None
    juice_met: bool | None
    utility: float


@dataclass(frozen=True)
class JobMetrics:
    """A job's figures at one moment. Input is what sources read, output what sinks received."""

    elapsed_s: float
    rows_in: int
    rows_out: int
    input_rate: float
    processed_rate: float
    output_rate: float
    latency_ms: dict[str, float | None]
    objective: ObjectiveReport
    functions: dict[str, FunctionReport]
    totals: dict[str, FunctionMetrics] = field(default_factory=dict, repr=False, compare=False)
    """The totals behind the figures, in topological order."""
    plan: Plan | None = field(default=None, repr=False, compare=False)

    def since(self, earlier: JobMetrics) -> JobMetrics:
        """Returns the figures between an earlier reading and this one: rows, rates, busy shares, latency, juice. Queues
        are those of this reading."""
        assert self.plan is not None
        totals = {
            name: difference(total, earlier.totals[name]) if name in earlier.totals else total
            for name, total in self.totals.items()
        }
        return report(totals, self.elapsed_s - earlier.elapsed_s, self.plan)

    def as_dict(self) -> dict[str, Any]:
        found = asdict(replace(self, totals={}, plan=None))
        del found["totals"], found["plan"]
        return found


def report(totals: dict[str, FunctionMetrics], elapsed_s: float, plan: Plan) -> JobMetrics:
    """Returns the figures of a job, from the totals of its functions in topological order."""
    elapsed_s = max(elapsed_s, 1e-9)
    latency = LatencySketch()
    for total in totals.values():
        if total.latency is not None:
            latency.merge(total.latency)
    sources = [totals[node.name] for node in plan.sources if node.name in totals]
    sinks = [totals[node.name] for node in plan.sinks if node.name in totals]
    chosen = {name: why for total in totals.values() for name, why in total.strategies.items()}
    processed = sum(sum(total.executed_from.values()) for total in totals.values())
    return JobMetrics(
        elapsed_s=elapsed_s,
        rows_in=sum(total.rows_in for total in sources),
        rows_out=sum(total.rows_in for total in sinks),
        input_rate=sum(total.rows_in for total in sources) / elapsed_s,
        processed_rate=processed / elapsed_s,
        output_rate=sum(total.rows_in for total in sinks) / elapsed_s,
        latency_ms=latency.percentiles(),
        objective=_objective(plan, latency, totals),
        functions={name: _function(total, elapsed_s, chosen.get(name)) for name, total in totals.items()},
        totals=totals,
        plan=plan,
    )


def _function(total: FunctionMetrics, elapsed_s: float, strategy: str | None) -> FunctionReport:
    return FunctionReport(
        rows_in=total.rows_in,
        rows_out=total.rows_out,
        messages_in=total.messages_in,
        queued=total.queued,
        busy_share=total.busy_ns / 1e9 / elapsed_s / max(1, total.instances),
        input_rate=total.rows_in / elapsed_s,
        output_rate=total.rows_out / elapsed_s,
        instances=total.instances,
        counts=dict(total.counts),
        messages_forwarded=total.messages_forwarded,
        barrier_ms=_percentiles(total.barriers),
        strategy=strategy,
    )


def _percentiles(bins: SketchBins | None) -> dict[str, float | None]:
    if bins is None:
        return {}
    sketch = LatencySketch()
    sketch.merge(bins)
    return sketch.percentiles()


def _objective(plan: Plan, latency: LatencySketch, totals: Mapping[str, FunctionMetrics]) -> ObjectiveReport:
    slo, juice_now = plan.slo, juice(totals, {node.name for node in plan.sources})
    at_percentile = latency.quantile(slo.percentile / 100)
    latency_met = None
    if slo.latency_ms is not None and at_percentile is not None:
        latency_met = at_percentile <= slo.latency_ms
    juice_met = None if slo.juice is None or juice_now is None else juice_now >= slo.juice
    utility = slo.utility(at_percentile, juice_now, any(map(is_stuck, totals.values())))
    return ObjectiveReport(at_percentile, latency_met, juice_now, juice_met, utility)
