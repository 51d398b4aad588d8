"""Turns timed outputs into figures: latencies, whether a rate was sustained, and the throughput reached.

Everything here is a pure function of three series: when each output's trigger was due, when the output was received,
and (for windows of processing time) how many events it stands for.

An output that falls behind by s seconds for each second of input was received at a pace of 1 / (1 + s) of the rate, so
one slope shows both whether the backlog grows and which throughput was reached.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

WARM_UP_SHARE = 0.25
"""This first part of a run does not count."""

SLOPE_MAX = 0.03
"""A backlog grows if latency grows by more than this many seconds per second, less the standard error."""

P99_GROWTH_MAX = 2.0
P99_GROWTH_SLACK_MS = 100.0
"""Limits for the p99 of the second half of a run, relative to the first half."""

COVERAGE_MIN = 0.8
"""Outputs must reach this far into the run: a system that stops emitting does not sustain the rate."""

TOGETHER_S = 0.01
"""Outputs received within this time are one group."""

_SLOPE_POINTS_MAX = 400

QUANTILES = (0.5, 0.95, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of one run, in seconds since it began; `due_s` is when the event that it waited for was due."""

    due_s: Floats
    received_s: Floats

    @property
    def latency_ms(self) -> Floats:
        latency: Floats = (self.received_s - self.due_s) * 1000
        return latency

    def after(self, due_s: float) -> Outputs:
        """Returns the outputs whose trigger was due at or after `due_s`."""
        kept = self.due_s >= due_s
        return Outputs(self.due_s[kept], self.received_s[kept])

    def before(self, due_s: float) -> Outputs:
        kept = self.due_s < due_s
        return Outputs(self.due_s[kept], self.received_s[kept])


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one paced run. `events_per_s` is the rate if it was sustained, and otherwise what was reached."""

    rate: float
    sustained: bool
    events_per_s: float
    latencies_ms: Floats

    def quantile_ms(self, share: float) -> float | None:
        return float(np.quantile(self.latencies_ms, share)) if len(self.latencies_ms) else None


def paced(outputs: Outputs, rate: float, seconds: float) -> Figures:
    """Returns the figures of a run of `seconds` at a rate."""
    steady = outputs.after(seconds * WARM_UP_SHARE)
    if len(steady.due_s) < 2:
        return Figures(rate, False, _pace(outputs, rate), steady.latency_ms)
    slope = _slope(steady)
    doubt = _doubt(steady, slope)
    reached = float(steady.due_s.max()) >= seconds * COVERAGE_MIN
    sustained = slope - doubt <= SLOPE_MAX and reached and not _p99_grows(steady)
    return Figures(rate, sustained, rate if sustained else _pace(steady, rate), steady.latency_ms)


def by_arrival(window_end_s: Int64s, events: Int64s, rate: float, window_s: int, run: tuple[float, float]) -> Figures:
    """Returns the figures for windows of processing time: `events` counted in windows that ended at `window_end_s`.

    Only windows wholly inside the steady part of the run count: they hold the events processed in that time."""
    begin, end = run
    begin += (end - begin) * WARM_UP_SHARE / 2
    full = [w for w in np.unique(window_end_s).tolist() if w - window_s >= begin and w <= end]
    totals = [int(events[window_end_s == window].sum()) for window in full]
    reached = float(np.median(totals)) / window_s if totals else 0.0
    sustained = bool(totals) and reached >= rate * (1 - SLOPE_MAX)
    return Figures(rate, sustained, rate if sustained else reached, np.empty(0))


def drained(numbers: Int64s, received_s: Floats) -> float:
    """Returns the events per second of a run whose whole input was present: `numbers` had been read at each output."""
    if not len(numbers):
        return 0.0
    order = np.argsort(received_s, kind="stable")
    numbers, received_s = np.maximum.accumulate(numbers[order]), received_s[order]
    last = float(numbers[-1])
    steady = numbers >= last * WARM_UP_SHARE
    span_s = float(received_s[-1] - received_s[steady][0])
    done = last - float(numbers[steady][0])
    if span_s <= 0 or done < last / 4:
        return last / max(float(received_s[-1]), 1e-3)
    return done / span_s


def _pace(outputs: Outputs, rate: float) -> float:
    """Returns the throughput reached at an unsustained rate: by the slope, and at most what was emitted in the time."""
    if not len(outputs.due_s):
        return 0.0
    share = min(1.0, float(outputs.due_s.max() / max(outputs.received_s.max(), 1e-9)))
    return rate * min(share, 1 / (1 + max(0.0, _slope(outputs))))


def _slope(outputs: Outputs) -> float:
    """Returns the growth of latency per second of input: the median of all pairwise slopes (Theil-Sen)."""
    order = np.argsort(outputs.due_s, kind="stable")
    chosen = order[np.linspace(0, len(order) - 1, min(len(order), _SLOPE_POINTS_MAX)).astype(int)]
    due_s, late_s = outputs.due_s[chosen], outputs.latency_ms[chosen] / 1000
    i, j = np.triu_indices(len(chosen), 1)
    apart = due_s[j] - due_s[i]
    wide = apart > 0
    return float(np.median((late_s[j] - late_s[i])[wide] / apart[wide])) if wide.any() else 0.0


def _doubt(outputs: Outputs, slope: float) -> float:
    """Returns the standard error of the slope. Outputs received together are one observation: the latency of
    micro-batches varies by the length of a batch, and a run has few batches."""
    late_s = outputs.latency_ms / 1000
    swing_s = float(np.std(late_s - slope * outputs.due_s))
    together = len(np.unique((outputs.received_s / TOGETHER_S).astype(np.int64)))
    spread_s = float(np.std(outputs.due_s))
    return swing_s / (spread_s * together**0.5) if spread_s > 0 else 0.0


def _p99_grows(outputs: Outputs) -> bool:
    middle_s = float(outputs.due_s.min() + outputs.due_s.max()) / 2
    first, second = outputs.before(middle_s).latency_ms, outputs.after(middle_s).latency_ms
    if not len(first) or not len(second):
        return False
    return bool(np.quantile(second, 0.99) > np.quantile(first, 0.99) * P99_GROWTH_MAX + P99_GROWTH_SLACK_MS)
