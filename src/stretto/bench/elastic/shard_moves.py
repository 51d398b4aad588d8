"""How long rows wait while a shard moves (elasticutor.txt 5.3, figures 8 and 9): those of the shard, and the others'.

The micro-benchmark runs at a pace that keeps its workers mostly idle, with one calculator. One shard at a time goes
from the calculator's home to another worker, or back. Each key is alone in its shard, and its state has the size that
is asked for. The home measures how long the shard's rows wait. For the rows of other shards, the delay between when a
row was due and its arrival at the driver is compared between stretches with moves and stretches without.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from stretto import sinks
from stretto.actors.partitioning import hash_rows
from stretto.actors.shards import shards_within
from stretto.bench.elastic.arrivals import Arrivals, Rows, at
from stretto.bench.elastic.micro import Microbenchmark
from stretto.bench.elastic.tuples import Tuples
from stretto.errors import UserError
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job

KB = 1024
SIZES = (32 * KB, 256 * KB, 1024 * KB, 4096 * KB)
UPSTREAMS = (1, 4, 16, 32)
KEYS = 16
RATE = 500.0
WARM_UP_MOVES = 5
STRETCH_S = 0.5
"""Moves follow each other for so long; then as long a time follows without any. The length is fixed, so that a pause of
the machine falls into either with the same probability."""
STRETCHES = 6
POLL_S = 0.01
WAIT_S = 120.0


@dataclass
class Moves:
    """What was measured in one run. `windows` are stretches of time by whether shards moved in them."""

    size: int
    upstreams: int
    waits_ms: list[float] = field(default_factory=list)
    windows: list[tuple[bool, int, int]] = field(default_factory=list)
    moved_keys: set[int] = field(default_factory=set)
    others_ms: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})
    match: bool = False

    @property
    def wait_ms(self) -> dict[str, float]:
        return {"p50": at(self.waits_ms, 50), "p99": at(self.waits_ms, 99)}

    def compare_others(self, rows: Rows, period_ns: int) -> None:
        """Keeps the delays of rows whose shards never moved, with moves and without."""
        delays_ns = rows.arrived_ns - rows.numbers * period_ns
        delays_ns = delays_ns - delays_ns.min()
        others = ~np.isin(rows.keys, sorted(self.moved_keys))
        for moving, begin_ns, end_ns in self.windows:
            within = others & (rows.arrived_ns >= begin_ns) & (rows.arrived_ns < end_ns)
            self.others_ms[moving] += (delays_ns[within] / 1e6).tolist()


@dataclass(frozen=True)
class MovesReport:
    """The runs by size with one upstream, and those by upstreams with the least size."""

    by_size: Sequence[Moves]
    by_upstreams: Sequence[Moves]

    @property
    def match(self) -> bool:
        """Whether the rows of all keys came once and in order, in all runs."""
        return all(run.match for run in (*self.by_size, *self.by_upstreams))

    def as_dict(self) -> dict[str, Any]:
        still, moving = ([ms for run in self.by_size for ms in run.others_ms[each]] for each in (False, True))
        return {
            "wait_ms": {
                str(run.size): {"p50": at(run.waits_ms, 50), "p99": at(run.waits_ms, 99)} for run in self.by_size
            },
            "by_upstreams": {str(run.upstreams): at(run.waits_ms, 50) for run in self.by_upstreams},
            "others_wait_ms": {
                "p50": round(max(0.0, at(moving, 50) - at(still, 50)), 3),
                "p99": round(max(0.0, at(moving, 99) - at(still, 99)), 3),
                "delay_with_moves": {"p50": at(moving, 50), "p99": at(moving, 99)},
                "delay_without": {"p50": at(still, 50), "p99": at(still, 99)},
            },
            "match": self.match,
            "moves": sum(len(run.waits_ms) for run in (*self.by_size, *self.by_upstreams)),
        }


def measure(
    cluster: Cluster,
    moves: int,
    note: Callable[[str], None] = lambda text: None,
    sizes: Sequence[int] = SIZES,
    upstreams: Sequence[int] = UPSTREAMS,
    stretches: int = STRETCHES,
) -> MovesReport:
    """Returns the waits of at least so many moves for each size of state and each number of upstream partitions."""
    by_size = [run(cluster, size, 1, moves, note, stretches) for size in sizes]
    further = [run(cluster, sizes[0], count, moves, note, stretches) for count in upstreams if count != 1]
    return MovesReport(by_size, [*(by_size[:1] if 1 in upstreams else []), *further])


def run(cluster: Cluster, size: int, upstreams: int, moves: int, note: Callable[[str], None], stretches: int) -> Moves:
    """Runs the micro-benchmark with shards of this size, and moves them."""
    if len(cluster.workers) < 2:
        raise UserError("shards move between workers", f"there is {len(cluster.workers)}", "Use two workers or more.")
    tuples = Tuples(events=None, rate=RATE, key_count=KEYS, skew=0.0, shuffles_per_minute=0.0, payload_bytes=32)
    micro = Microbenchmark(tuples, state_bytes=size, generators=upstreams, paced=True)
    arrivals, found = Arrivals(), Moves(size, upstreams)
    app = micro.app(lambda: sinks.callback(arrivals.take), f"shard-moves-{size}-{upstreams}")
    job = cluster.submit(app.elastic("calculator"))
    try:
        _wait_until(lambda: len(np.unique(arrivals.rows().keys)) == KEYS, job)
        _move_all(cluster, job, found, moves, stretches)
    finally:
        job.stop()
    rows = arrivals.rows()
    found.match = rows.are_in_order
    found.compare_others(rows, tuples.period_ns)
    delays = " and ".join(f"{at(found.others_ms[moving], 99)} ms" for moving in (True, False))
    note(
        f"{size // KB} KB, {upstreams} upstream: rows waited {at(found.waits_ms, 50)} ms "
        f"(median of {len(found.waits_ms)} moves); "
        f"99 % of the others were at most {delays} late, with and without moves"
    )
    return found


def _move_all(cluster: Cluster, job: Job, found: Moves, moves: int, stretches: int) -> None:
    """Moves shards, at least so many times and in so many stretches."""
    home = cluster.observation.jobs[job.name].placement["calculator"][0]
    away = next(member.name for member in cluster.workers if member.name != home)
    shards = lone_shards()
    chosen = dict(list(shards.items())[: len(shards) // 2])
    found.moved_keys = set(chosen.values())
    places = dict.fromkeys(chosen, home)

    def move(number: int) -> float:
        shard = list(chosen)[number % len(chosen)]
        places[shard] = away if places[shard] == home else home
        spent = job.move_shards("calculator", {shard: places[shard]}).spent or {}
        return spent["wait_ms"]

    for number in range(WARM_UP_MOVES):
        move(number)
    time.sleep(STRETCH_S)  # What has waited since the job began is gone then.
    while len(found.waits_ms) < moves or len(found.windows) < 2 * stretches:
        began_ns = time.monotonic_ns()
        middle_ns, ended_ns = (began_ns + round(part * STRETCH_S * 1e9) for part in (1, 2))
        while time.monotonic_ns() < middle_ns:
            found.waits_ms.append(move(WARM_UP_MOVES + len(found.waits_ms)))
        time.sleep(max(0, ended_ns - time.monotonic_ns()) / 1e9)
        found.windows += [(True, began_ns, middle_ns), (False, middle_ns, ended_ns)]


def lone_shards() -> dict[int, int]:
    """Returns the shards that have one key of the benchmark, with the key."""
    shards = shards_within(hash_rows([pa.array(range(KEYS), pa.int64())])).tolist()
    return {shard: key for key, shard in enumerate(shards) if shards.count(shard) == 1}


def _wait_until(condition: Callable[[], bool], job: Job) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        if job.error is not None:
            raise job.error
        if time.monotonic() >= deadline:
            raise UserError("the benchmark did not begin", f"it is {job.progress} after {WAIT_S:g} s")
        time.sleep(POLL_S)
