"""The objective of a job: a latency at a percentile, a throughput as juice, and a priority (thesis 3.3)."""

from __future__ import annotations

from dataclasses import dataclass

from stretto.api.utility import UTILITIES, Utility, checked_utility
from stretto.errors import PlanError
from stretto.operators.windows import Duration, positive_duration_us


@dataclass(frozen=True, slots=True)
class SLO:
    """`latency_ms` at `percentile`, `juice` in (0, 1], `priority` as the greatest utility the job can have.

    `share` is the job's weight under `policy="fair"`. `value` is the utility function, and `value_name` its name."""

    latency_ms: float | None = None
    percentile: float = 99.0
    juice: float | None = None
    priority: float = 1.0
    share: float = 1.0
    value_name: str = "knee"
    value: Utility | None = None
    """A user's own function; None for the one that `value_name` names."""

    def describe(self) -> str:
        wants = []
        if self.latency_ms is not None:
            wants.append(f"p{self.percentile:g} latency <= {self.latency_ms:g} ms")
        if self.juice is not None:
            wants.append(f"juice >= {self.juice:g}")
        share = f", share {self.share:g}" if self.share != 1.0 else ""
        utility = f", utility {self.value_name}" if self.value_name != "knee" else ""
        return (", ".join(wants) or "none") + f"; priority {self.priority:g}{share}{utility}"

    def figures(self) -> dict[str, float]:
        """Returns what is promised as numbers by their names."""
        promised = {"latency_ms": self.latency_ms, "juice": self.juice}
        found = {name: value for name, value in promised.items() if value is not None}
        if self.latency_ms is not None:
            found["percentile"] = self.percentile
        return {**found, "priority": self.priority, "share": self.share}

    def attained(self, latency_ms: float | None, juice: float | None, is_stuck: bool = False) -> float | None:
        """Returns how much of the objective is attained: 1 where it is met, 0.5 at twice the latency or half the juice,
        the lesser of both for a hybrid. None where nothing is promised or nothing was measured.

        `is_stuck` says that input waits somewhere and none of it was processed. Then nothing is attained where there
        was nothing to measure."""
        parts = []
        if self.latency_ms is not None and latency_ms is not None:
            parts.append(self.latency_ms / latency_ms if latency_ms > 0 else 1.0)
        if self.juice is not None and juice is not None:
            parts.append(juice / self.juice)
        if is_stuck and self.lacks(latency_ms, juice):
            parts.append(0.0)
        return min(parts) if parts else None

    def lacks(self, latency_ms: float | None, juice: float | None) -> bool:
        """Whether something is promised that was not measured."""
        unmeasured = self.latency_ms is not None and latency_ms is None
        return unmeasured or (self.juice is not None and juice is None)

    def worth(self, attained: float | None) -> float:
        """Returns the utility of attaining so much: at most the priority, which a job without an objective has."""
        if attained is None or attained >= 1:
            return self.priority
        value = UTILITIES[self.value_name] if self.value is None else self.value
        return self.priority * min(1.0, max(0.0, value(max(0.0, attained))))

    def utility(self, latency_ms: float | None, juice: float | None, is_stuck: bool = False) -> float:
        """Returns the utility of a latency and a juice: full at the objective, else less (equations 3.1 and 3.2); none
        for a job without results that `is_stuck`."""
        return self.worth(self.attained(latency_ms, juice, is_stuck))


def objective(
    latency: Duration | None = None,
    percentile: float = 99.0,
    throughput: float | None = None,
    priority: float = 1.0,
    share: float = 1.0,
    utility: str | Utility = "knee",
) -> SLO:
    """Returns an SLO: `latency="200 ms"` at a percentile, `throughput` as juice in (0, 1], a priority.

    With both, the utility is the lesser one of the two. `utility` says what missing the objective is worth: "knee" (in
    proportion to what is attained), "linear" (nothing at half of it), "step" (nothing below it), or a monotonic
    function from what is attained, 0 to 1, to the share of the priority, 0 to 1.

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
    name, value = checked_utility(utility)
    return SLO(latency_ms, percentile, throughput, priority, share, name, None if isinstance(utility, str) else value)
