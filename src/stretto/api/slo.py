"""The objective of a job: a latency at a percentile, a throughput as juice, and a priority (thesis 3.3)."""

from __future__ import annotations

from dataclasses import dataclass

from stretto.errors import PlanError
from stretto.operators.windows import Duration, positive_duration_us


@dataclass(frozen=True, slots=True)
class SLO:
    """`latency_ms` at `percentile`, `juice` in (0, 1], `priority` as the greatest utility the job can have.

    `share` is the job's weight under `policy="fair"`."""

    latency_ms: float | None = None
    percentile: float = 99.0
    juice: float | None = None
    priority: float = 1.0
    share: float = 1.0

    def describe(self) -> str:
        wants = []
        if self.latency_ms is not None:
            wants.append(f"p{self.percentile:g} latency <= {self.latency_ms:g} ms")
        if self.juice is not None:
            wants.append(f"juice >= {self.juice:g}")
        share = f", share {self.share:g}" if self.share != 1.0 else ""
        return (", ".join(wants) or "none") + f"; priority {self.priority:g}{share}"

    def utility(self, latency_ms: float | None, juice: float | None) -> float:
        """Returns the utility by Henge's knee function (equations 3.1 and 3.2): full at the objective, else less."""
        parts = []
        if self.latency_ms is not None and latency_ms:
            parts.append(min(1.0, self.latency_ms / latency_ms))
        if self.juice is not None and juice is not None:
            parts.append(min(1.0, juice / self.juice))
        return self.priority * (min(parts) if parts else 1.0)


def objective(
    latency: Duration | None = None,
    percentile: float = 99.0,
    throughput: float | None = None,
    priority: float = 1.0,
    share: float = 1.0,
) -> SLO:
    """Returns an SLO: `latency="200 ms"` at a percentile, `throughput` as juice in (0, 1], a priority.

    `share` is the job's weight of the workers' time on a cluster with `policy="fair"`: with shares of 20, 40 and 40,
    three jobs get 20, 40 and 40 percent while all of them have work."""
    if not 0 < percentile <= 100:
        raise PlanError("the percentile of a latency objective is out of range", f"{percentile}", "Use 0 < p <= 100.")
    if throughput is not None and not 0 < throughput <= 1:
        raise PlanError(
            "a throughput objective is out of range",
            f"{throughput}",
            "Throughput is juice, the fraction of the input that is processed: 0 < juice <= 1.",
        )
    if priority <= 0:
        raise PlanError("a priority must be greater than zero", f"{priority}")
    if share <= 0:
        raise PlanError("a share must be greater than zero", f"{share}", "Shares are weights, such as 20, 40 and 40.")
    latency_ms = None if latency is None else positive_duration_us(latency, "a latency objective") / 1000
    return SLO(latency_ms, percentile, throughput, priority, share)
