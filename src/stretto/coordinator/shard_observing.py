"""What is observed of elastic executors, from the reports of their homes and of their tasks.

A home counts the rows of each shard. What the rows of a shard cost is what rows cost on the worker that owns it. The
size of its state is what its owner has measured (`actors/shard_sizes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from stretto.actors.metrics import ShardTotals
from stretto.actors.shards import SHARDS
from stretto.observation.intervals import LastSecond
from stretto.observation.model import ActorObserved
from stretto.observation.shards import ElasticObserved, ShardsObserved


class ShardSeries(LastSecond[ShardTotals]):
    """The reports of one home."""

    __slots__ = ()

    def add(self, report: ShardTotals, measured_ns: int) -> None:
        if self.interval_ns and report.routing_ns < self.last.routing_ns:
            self.clear()  # It has begun to count again.
        super().add(report, measured_ns)

    def rows(self) -> npt.NDArray[np.int64]:
        """Returns the rows of each shard in the interval."""
        found: npt.NDArray[np.int64] = np.array(self.last.rows) - np.array(self.first.rows)
        return found

    def routing_ns(self) -> int:
        return self.last.routing_ns - self.first.routing_ns


def elastic_observed(
    partition: int,
    home: str,
    series: ShardSeries,
    instances: Sequence[ActorObserved],
    workers: Sequence[str],
    workers_max: int,
    state_bytes: int,
    changing: bool,
    is_here: Callable[[str], bool],
) -> ElasticObserved:
    """Returns what is observed of one elastic actor. `instances` are its home and its tasks, and `workers` those that
    it was allotted. `state_bytes` is the size of its state in the last checkpoint."""
    seconds = series.interval_ns / 1e9
    totals, rows = series.last, series.rows()
    owners = [totals.members[place] for place in totals.owners]
    costs = _costs_per_row(home, instances, series)
    usual = float(np.mean(list(costs.values()))) if costs else 0.0
    per_second = 1 / seconds if seconds else 0.0
    costs_ns = tuple(
        int(count * costs.get(owner, usual) * per_second) for count, owner in zip(rows.tolist(), owners, strict=True)
    )
    rate = float(rows.sum()) * per_second
    messages = sum(each.interval.messages_in / each.interval_ns for each in instances if each.interval_ns) * 1e9
    busy_ns = sum(each.busy_share for each in instances) * 1e9 - series.routing_ns() * per_second
    out_rate = sum(each.interval.rows_out / each.interval_ns for each in instances if each.interval_ns) * 1e9
    remote = sum(count for count, owner in zip(rows.tolist(), owners, strict=True) if not is_here(owner))
    sizes = _sizes(owners, instances, state_bytes)
    shards = ShardsObserved(tuple(range(SHARDS)), tuple(owners), costs_ns, sizes)
    return ElasticObserved(
        partition,
        home,
        tuple(workers),
        workers_max,
        shards,
        rate,
        messages,
        max(0.0, busy_ns) / messages if messages else 0.0,
        rate * totals.row_bytes,
        out_rate * totals.row_bytes,
        sum(each.totals.queued for each in instances),
        int(series.routing_ns() * per_second),
        remote * per_second * totals.row_bytes,
        changing,
    )


def _sizes(owners: Sequence[str], instances: Sequence[ActorObserved], state_bytes: int) -> tuple[int, ...]:
    """Returns the size of each shard's state: what its owner has measured, or, for one that has come since, what others
    have. Before anybody has measured, the last checkpoint divided evenly."""
    found = {
        each.member: np.frombuffer(each.totals.shard_bytes, np.float32)
        for each in instances
        if len(each.totals.shard_bytes) == SHARDS * np.dtype(np.float32).itemsize
    }
    if not found:
        return (state_bytes // SHARDS,) * SHARDS
    greatest = np.max(list(found.values()), axis=0)
    own = [found[owner][shard] if owner in found else 0.0 for shard, owner in enumerate(owners)]
    return tuple(int(mine or other) for mine, other in zip(own, greatest.tolist(), strict=True))


def _costs_per_row(home: str, instances: Sequence[ActorObserved], series: ShardSeries) -> Mapping[str, float]:
    """Returns what a row costs on each worker, where one has run in the last interval."""
    found = {}
    for each in instances:
        rows = each.interval.rows_in
        if rows:
            routing_ns = 0.0
            if each.member == home and series.interval_ns:
                routing_ns = series.routing_ns() * each.interval_ns / series.interval_ns
            found[each.member] = max(0.0, each.totals.busy_ns - each.before.busy_ns - routing_ns) / rows
    return found
