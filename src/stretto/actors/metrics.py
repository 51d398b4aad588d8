"""What is measured per function, in totals that can be merged and subtracted: rows, busy time, queue length, latency.

Latency is the time of an output less the arrival of the last event that influenced it (thesis 5.4.1). It is kept in a
DDSketch (relative error 1 percent), which crosses the wire as its sparse bins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from math import ceil, log2

import msgspec

RELATIVE_ERROR = 0.01
GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
BINS_PER_DOUBLING = 1 / log2(GAMMA)


class SketchBins(msgspec.Struct, array_like=True):
    """A latency sketch as plain data; values are milliseconds, weights are rows."""

    bins: dict[int, float] = {}
    zeros: float = 0.0
    sum_ms: float = 0.0
    min_ms: float = 0.0
    max_ms: float = 0.0


class ShardTotals(msgspec.Struct, frozen=True, array_like=True):
    """What the home of an elastic executor knows of its shards: the rows of each so far, the place in `members` of its
    owner, how many bytes a row has, and what routing has cost."""

    rows: list[int]
    owners: bytes
    members: list[str]
    row_bytes: float = 0.0
    routing_ns: int = 0


class FunctionMetrics(msgspec.Struct):
    """Totals of one instance, or merged over the instances of a function."""

    rows_in: int = 0
    rows_out: int = 0
    messages_in: int = 0
    messages_forwarded: int = 0
    rows_away: int = 0
    """Of the rows processed, those that ran on transient workers."""
    away_ns: int = 0
    """When the first batch of the last burst was sent there."""
    arrived_ns: int = 0
    """Of a source: when the last event that it has read had arrived, ..."""
    behind_ns: int = 0
    """... for how long that had waited when it was read, ..."""
    rows_due: int = 0
    """... how many rows have arrived so far: those that it has read, and an estimate of those that wait, ..."""
    idle_reads: int = 0
    """... and how often nothing had arrived that could be read."""
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
    shards: ShardTotals | None = None
    """Reported by the home of an elastic executor."""
    shard_bytes: bytes = b""
    """Reported by each task of it: the bytes of state of each shard that it has, as 32-bit floats; empty before they
    were measured."""
    strategies: dict[str, str] = {}
    """What the strategies of downstream functions report about their choices, by function."""
    waited_ns: dict[str, int] = {}
    """How long it could not run because a channel to a downstream function had no credits, by that function. With
    channels to several partitions of it, waits at the same time count for each."""
    waits_for: tuple[str, ...] = ()
    """The functions whose credits it waits for at this moment."""
    watermark_us: int | None = None
    """How far its event time has come; of a source, the watermark that it has sent. None before the first one."""


class LatencySketch:
    """Latencies in milliseconds, weighted by rows; merges with others. A DDSketch over sparse bins: bin k holds the
    values from gamma ** (k - 1), exclusive, to gamma ** k (Masson, Rim and Lee, VLDB 2019)."""

    __slots__ = ("_bins", "_max_ms", "_min_ms", "_sum_ms", "_zeros", "count")

    def __init__(self) -> None:
        self._bins: dict[int, float] = {}
        self._zeros = 0.0
        self._sum_ms = 0.0
        self._min_ms = math.inf
        self._max_ms = 0.0
        self.count = 0.0
        """The number of rows recorded."""

    def add(self, latency_ns: int, rows: int) -> None:
        if rows <= 0:
            raise ValueError(f"A latency of {rows} rows was recorded: at least one row must have it.")
        if latency_ns > 0:
            value = latency_ns / 1e6
            key = ceil(log2(value) * BINS_PER_DOUBLING)
            bins = self._bins
            bins[key] = bins.get(key, 0.0) + rows
        else:
            value = 0.0
            self._zeros += rows
        self.count += rows
        self._sum_ms += value * rows
        if value < self._min_ms:
            self._min_ms = value
        if value > self._max_ms:
            self._max_ms = value

    def quantile(self, q: float) -> float | None:
        """The value of the row at rank q * (count - 1), within 1 percent; None while there are no rows."""
        if not self.count:
            return None
        left = q * (self.count - 1) - self._zeros
        if left < 0:
            return 0.0
        key = 0
        for key in sorted(self._bins):
            left -= self._bins[key]
            if left < 0:
                break
        # The middle of a bin may exceed the maximum, which is known exactly.
        return min(value_of(key), self._max_ms)

    @property
    def max_ms(self) -> float | None:
        return self._max_ms if self.count else None

    def percentiles(self) -> dict[str, float | None]:
        """Returns the four figures that every report shows."""
        found: dict[str, float | None] = {f"p{q}": self.quantile(q / 100) for q in (50, 95, 99)}
        found["max"] = self.max_ms
        return found

    def export(self) -> SketchBins | None:
        if not self.count:
            return None
        return SketchBins(self._bins.copy(), self._zeros, self._sum_ms, self._min_ms, self._max_ms)

    def merge(self, other: SketchBins) -> None:
        bins = self._bins
        for key, weight in other.bins.items():
            bins[key] = bins.get(key, 0.0) + weight
        self._zeros += other.zeros
        self.count += other.zeros + sum(other.bins.values())
        self._sum_ms += other.sum_ms
        self._min_ms = min(self._min_ms, other.min_ms)
        self._max_ms = max(self._max_ms, other.max_ms)


def value_of(key: int) -> float:
    """Returns the value that represents a bin: its relative distance to both ends is equal."""
    return 2 ** (key / BINS_PER_DOUBLING) * (1 - RELATIVE_ERROR)


def merged(parts: list[FunctionMetrics]) -> FunctionMetrics:
    """Returns one function's totals over its instances."""
    total = FunctionMetrics(instances=len(parts))
    sketch, barriers = LatencySketch(), LatencySketch()
    for part in parts:
        total.rows_in += part.rows_in
        total.rows_out += part.rows_out
        total.messages_in += part.messages_in
        total.messages_forwarded += part.messages_forwarded
        total.rows_away += part.rows_away
        total.rows_due += part.rows_due
        total.away_ns = min(filter(None, (total.away_ns, part.away_ns)), default=0)
        total.idle_reads += part.idle_reads
        total.arrived_ns = max(total.arrived_ns, part.arrived_ns)
        total.behind_ns = max(total.behind_ns, part.behind_ns)
        total.busy_ns += part.busy_ns
        total.queued += part.queued
        for mine, theirs in (
            (total.executed_from, part.executed_from),
            (total.sent_to, part.sent_to),
            (total.counts, part.counts),
            (total.waited_ns, part.waited_ns),
        ):
            for name, amount in theirs.items():
                mine[name] = mine.get(name, 0) + amount
        total.strategies.update(part.strategies)
        total.waits_for = tuple(sorted({*total.waits_for, *part.waits_for}))
        total.watermark_us = min(
            (each for each in (total.watermark_us, part.watermark_us) if each is not None), default=None
        )
        if part.latency is not None:
            sketch.merge(part.latency)
        if part.barriers is not None:
            barriers.merge(part.barriers)
    total.latency, total.barriers = sketch.export(), barriers.export()
    return total


def is_stuck(interval: FunctionMetrics) -> bool:
    """Returns whether input waits at a function, messages or rows that a source is due to read, and it has processed
    nothing in the interval."""
    has_run = interval.messages_in > 0 or interval.rows_in > 0
    return not has_run and (interval.queued > 0 or interval.rows_due > 0)


def summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Returns the sum of counters, by name."""
    total: dict[str, int] = {}
    for each in counts:
        for name, amount in each.items():
            total[name] = total.get(name, 0) + amount
    return total


def difference(later: FunctionMetrics, earlier: FunctionMetrics) -> FunctionMetrics:
    """Returns what was counted between two readings. After a restart counts begin at zero, so the later reading is all
    new."""
    if later.messages_in < earlier.messages_in or later.rows_in < earlier.rows_in:
        return later
    return FunctionMetrics(
        rows_in=later.rows_in - earlier.rows_in,
        rows_out=later.rows_out - earlier.rows_out,
        messages_in=later.messages_in - earlier.messages_in,
        messages_forwarded=later.messages_forwarded - earlier.messages_forwarded,
        rows_away=later.rows_away - earlier.rows_away,
        rows_due=later.rows_due - earlier.rows_due,
        away_ns=later.away_ns,
        idle_reads=later.idle_reads - earlier.idle_reads,
        arrived_ns=later.arrived_ns,
        behind_ns=later.behind_ns,
        busy_ns=later.busy_ns - earlier.busy_ns,
        queued=later.queued,
        instances=later.instances,
        executed_from=_less(later.executed_from, earlier.executed_from),
        sent_to=_less(later.sent_to, earlier.sent_to),
        counts=_less(later.counts, earlier.counts),
        latency=_bins_between(later.latency, earlier.latency),
        barriers=_bins_between(later.barriers, earlier.barriers),
        shards=later.shards,
        shard_bytes=later.shard_bytes,
        strategies=later.strategies,
        waited_ns=_less(later.waited_ns, earlier.waited_ns),
        waits_for=later.waits_for,
        watermark_us=later.watermark_us,
    )


def _less(later: dict[str, int], earlier: dict[str, int]) -> dict[str, int]:
    return {name: amount - earlier.get(name, 0) for name, amount in later.items()}


def _bins_between(later: SketchBins | None, earlier: SketchBins | None) -> SketchBins | None:
    """Returns the bins of the interval. Its minimum and maximum are those of the outermost bins, unless known
    exactly."""
    if later is None or earlier is None:
        return later
    bins = {key: count for key, all_of_it in later.bins.items() if (count := all_of_it - earlier.bins.get(key, 0.0))}
    zeros = later.zeros - earlier.zeros
    if not bins and not zeros:
        return None
    least = value_of(min(bins)) if bins and not zeros else 0.0
    greatest = value_of(max(bins)) if bins else 0.0
    return SketchBins(
        bins,
        zeros,
        later.sum_ms - earlier.sum_ms,
        later.min_ms if later.min_ms < earlier.min_ms else least,
        later.max_ms if later.max_ms > earlier.max_ms else greatest,
    )
