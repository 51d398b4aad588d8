"""What a run of a workload shows: whether it is right, how many transactions a second, and how long calls wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from stretto.bench.transactions.in_process import InProcess
from stretto.bench.transactions.movie import Movie
from stretto.bench.transactions.service import Done
from stretto.bench.transactions.tpcc import Tpcc
from stretto.bench.transactions.travel import Travel
from stretto.bench.transactions.workload import Run, Workload
from stretto.bench.transactions.ycsb_t import YcsbT
from stretto.runtime.garbage import calm_garbage_collector
from stretto.transactions.conflicts import FALLBACK

WARM = 0.1
"""The share of the calls that run before it is measured."""


class Named(StrEnum):
    """The workloads, by their names on the command line."""

    YCSB_T = "ycsb-t"
    MOVIE = "movie"
    TRAVEL = "travel"
    TPCC = "tpcc"


def workload_named(name: Named, skew: float = 0.0, hot: bool = False, warehouses: int = 1) -> Workload:
    """Returns a workload; the skew and the hot account are YCSB-T's, the warehouses TPC-C's."""
    makers: dict[Named, Callable[[], Workload]] = {
        Named.YCSB_T: lambda: YcsbT(skew=skew, hot=hot),
        Named.MOVIE: Movie,
        Named.TRAVEL: Travel,
        Named.TPCC: lambda: Tpcc(warehouses),
    }
    return makers[name]()


@dataclass(frozen=True)
class Report:
    """The figures of one run."""

    workload: str
    match: bool
    problems: list[str]
    """What is wrong, if anything is."""
    transactions: int
    per_s: float | None
    """Per second of the clock. None: it ran in virtual time."""
    per_cpu_s: float
    """Per second of the workers' processor time."""
    latency_ms: dict[str, dict[str, float]]
    """By load."""
    aborted: int
    """By their own logic."""
    conflicts: int
    """Those that lost in the dry run, and ran again."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def in_process(workload: Workload, workers: int, calls: int, seed: int = 1) -> Report:
    """Measure the machines in one process. Times are virtual: a turn of all machines is 0.1 ms."""
    service = InProcess(workload.entities, workers)
    run = Run(service, workload, seed)
    run.more(int(calls * WARM))
    cpu_s, waits = service.workers_cpu_s, len(service.waits_ns)
    with calm_garbage_collector():
        done = run.more(calls)
    per_cpu_s = calls / (service.workers_cpu_s - cpu_s)
    latency_ms = {"virtual": percentiles([wait_ns / 1e6 for wait_ns in service.waits_ns[waits:]])}
    return reported(run, done, None, per_cpu_s, latency_ms)


def reported(
    run: Run,
    done: Sequence[Done],
    per_s: float | None,
    per_cpu_s: float,
    latency_ms: dict[str, dict[str, float]],
) -> Report:
    """Returns the report of a run: `done` are the calls that were measured; all that the run has are verified."""
    problems = run.problems()
    return Report(
        run.workload.name,
        not problems,
        problems,
        len(done),
        None if per_s is None else round(per_s, 1),
        round(per_cpu_s, 1),
        latency_ms,
        sum(1 for each in done if each.reply.failure is not None),
        sum(1 for each in done if each.reply.place is not None and each.reply.place.phase == FALLBACK),
    )


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Returns the p50 and the p99 of some values, of which there is one at least."""
    ordered = sorted(values)
    return {f"p{percent}": round(ordered[len(ordered) * percent // 100], 3) for percent in (50, 99)}
