"""What is measured per function, in totals that can be merged and subtracted: rows, busy time, queue length, latency.

Latency is the time of an output less the arrival of the last event that influenced it (thesis 5.4.1). It is kept in a
DDSketch (relative error 1 percent), which crosses the wire as its sparse bins.
"""

from __future__ import annotations

import msgspec
from ddsketch import DDSketch

RELATIVE_ERROR = 0.01


class SketchBins(msgspec.Struct, array_like=True):
    """A latency sketch as plain data; values are milliseconds, weights are rows."""

    bins: dict[int, float] = {}
    zeros: float = 0.0
    sum_ms: float = 0.0
    min_ms: float = 0.0
    max_ms: float = 0.0


class FunctionMetrics(msgspec.Struct):
    """Totals of one instance, or merged over the instances of a function."""

    rows_in: int = 0
    rows_out: int = 0
    messages_in: int = 0
    messages_forwarded: int = 0
    busy_ns: int = 0
    queued: int = 0
    instances: int = 1
    executed_from: dict[str, int] = {}
    """Rows processed, by the upstream function that sent them (E in equation 3.3)."""
    sent_to: dict[str, int] = {}
    """Rows sent, by the downstream function (T in equation 3.3)."""
    counts: dict[str, int] = {}
    latency: SketchBins | None = None
    barriers: SketchBins | None = None
    """How long barriers with lessees took, from BLOCKED to the last UNSYNC."""
    strategies: dict[str, str] = {}
    """What the strategies of downstream functions say of their choices, by function."""


class LatencySketch:
    """Latencies in milliseconds, weighted by rows; merges with others."""

    __slots__ = ("_sketch",)

    def __init__(self) -> None:
        self._sketch = DDSketch(RELATIVE_ERROR)

    def add(self, latency_ns: int, rows: int) -> None:
        self._sketch.add(max(latency_ns, 0) / 1e6, rows)

    @property
    def count(self) -> float:
        return float(self._sketch.count)

    def quantile(self, q: float) -> float | None:
        value = self._sketch.get_quantile_value(q)
        # A bin's middle may lie beyond the greatest value that is in it, which is known exactly.
        return None if value is None else min(float(value), float(self._sketch._max))

    @property
    def max_ms(self) -> float | None:
        return float(self._sketch._max) if self._sketch.count else None

    def percentiles(self) -> dict[str, float | None]:
        """The four figures that every report of ours shows."""
        found: dict[str, float | None] = {f"p{q}": self.quantile(q / 100) for q in (50, 95, 99)}
        found["max"] = self.max_ms
        return found

    def export(self) -> SketchBins | None:
        sketch = self._sketch
        if not sketch.count:
            return None
        store = sketch._store
        bins = {i + store.offset: count for i, count in enumerate(store.bins) if count}
        return SketchBins(bins, sketch._zero_count, sketch._sum, sketch._min, sketch._max)

    def merge(self, other: SketchBins) -> None:
        sketch = self._sketch
        for key, weight in other.bins.items():
            sketch._store.add(key, weight)
        sketch._zero_count += other.zeros
        sketch._count += other.zeros + sum(other.bins.values())
        sketch._sum += other.sum_ms
        sketch._min = min(sketch._min, other.min_ms)
        sketch._max = max(sketch._max, other.max_ms)


def merged(parts: list[FunctionMetrics]) -> FunctionMetrics:
    """One function's totals over its instances."""
    total = FunctionMetrics(instances=len(parts))
    sketch, barriers = LatencySketch(), LatencySketch()
    for part in parts:
        total.rows_in += part.rows_in
        total.rows_out += part.rows_out
        total.messages_in += part.messages_in
        total.messages_forwarded += part.messages_forwarded
        total.busy_ns += part.busy_ns
        total.queued += part.queued
        for mine, theirs in (
            (total.executed_from, part.executed_from),
            (total.sent_to, part.sent_to),
            (total.counts, part.counts),
        ):
            for name, amount in theirs.items():
                mine[name] = mine.get(name, 0) + amount
        total.strategies.update(part.strategies)
        if part.latency is not None:
            sketch.merge(part.latency)
        if part.barriers is not None:
            barriers.merge(part.barriers)
    total.latency, total.barriers = sketch.export(), barriers.export()
    return total


def difference(later: FunctionMetrics, earlier: FunctionMetrics) -> FunctionMetrics:
    """What was counted between two readings. After a restart counts begin anew, so what is there now came since."""
    if later.messages_in < earlier.messages_in or later.rows_in < earlier.rows_in:
        return later
    return FunctionMetrics(
        rows_in=later.rows_in - earlier.rows_in,
        rows_out=later.rows_out - earlier.rows_out,
        messages_in=later.messages_in - earlier.messages_in,
        messages_forwarded=later.messages_forwarded - earlier.messages_forwarded,
        busy_ns=later.busy_ns - earlier.busy_ns,
        queued=later.queued,
        instances=later.instances,
        executed_from=_less(later.executed_from, earlier.executed_from),
        sent_to=_less(later.sent_to, earlier.sent_to),
        counts=_less(later.counts, earlier.counts),
        latency=_bins_between(later.latency, earlier.latency),
        barriers=_bins_between(later.barriers, earlier.barriers),
        strategies=later.strategies,
    )


def _less(later: dict[str, int], earlier: dict[str, int]) -> dict[str, int]:
    return {name: amount - earlier.get(name, 0) for name, amount in later.items()}


def _bins_between(later: SketchBins | None, earlier: SketchBins | None) -> SketchBins | None:
    """The greatest and the least value of the time between are those of the outermost bins, if not known better."""
    if later is None or earlier is None:
        return later
    bins = {key: count for key, all_of_it in later.bins.items() if (count := all_of_it - earlier.bins.get(key, 0.0))}
    zeros = later.zeros - earlier.zeros
    if not bins and not zeros:
        return None
    value = DDSketch(RELATIVE_ERROR)._mapping.value
    least = value(min(bins)) if bins and not zeros else 0.0
    greatest = value(max(bins)) if bins else 0.0
    return SketchBins(
        bins,
        zeros,
        later.sum_ms - earlier.sum_ms,
        later.min_ms if later.min_ms < earlier.min_ms else least,
        later.max_ms if later.max_ms > earlier.max_ms else greatest,
    )


def juice(functions: dict[str, FunctionMetrics]) -> float | None:
    """The share of the sources' input that was processed to the end (thesis equations 3.3 and 3.4), or None before any.

    Functions come in topological order. A function's juice is the sum over its parents of the parent's juice times the
    rows processed of the rows that the parent sent to all its children, so a fork splits the juice and a merge adds it
    up again. A function that has sent nothing on counts as an end: what it filtered out was processed.
    """
    spouts = [name for name, metrics in functions.items() if not metrics.messages_in and metrics.sent_to]
    if not spouts:
        return None
    total = 0.0
    for spout in spouts:
        share = dict.fromkeys(functions, 0.0)
        share[spout] = 1.0
        for name, metrics in functions.items():
            for parent, executed in metrics.executed_from.items():
                sent = sum(functions[parent].sent_to.values()) if parent in functions else 0
                if sent:
                    share[name] += share[parent] * min(1.0, executed / sent)
        total += sum(share[name] for name, metrics in functions.items() if not metrics.sent_to)
    return min(1.0, total / len(spouts))
