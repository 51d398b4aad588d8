"""`stretto bench compare`: check every system, find the rate it sustains, then measure all in turn, round by round."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from stretto.bench.compare.environments import environment
from stretto.bench.compare.feed import Library
from stretto.bench.compare.judge import Judge
from stretto.bench.compare.measure import QUANTILES, Figures
from stretto.bench.compare.queries import compared
from stretto.bench.compare.rounds import Search, Staircase, ratios
from stretto.bench.compare.systems import PEERS, STRETTO, CannotExpress, System, SystemFailed
from stretto.bench.compare.trial import Length, Trials
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.errors import UserError
from stretto.runtime.scratch import scratch_directory
from stretto.runtime.session import local_master, spark_session

CHECK_CONFIG = NexmarkConfig(seed=7, event_rate=2_000)
CHECK_FILES, CHECK_PER_FILE = 10, 20_000
EVENT_RATE = 10_000
"""Events per second of event time when throughput is measured."""
SPEED_UP = 10
"""How much faster event time runs than the clock when latency is measured, so that windows close often."""
DRAIN_S = 5.0
DRAIN_GROWTH_MAX = 5
"""Target length of each system's second run, and the maximum factor of its events over the first."""
COMMON_RATE_MAX = 10_000
COMMON_SHARE = 0.5
"""Latency is measured at no more than this share of the rate that the slowest system sustains."""

LATENCY_NAMES = ("p50", "p95", "p99", "max")


@dataclass(frozen=True, slots=True)
class Plan:
    """The query, the peers, and the size of a comparison."""

    query: str
    peers: tuple[str, ...] = PEERS
    events: int = 2_000_000
    rate: float | None = None
    rounds: int = 5
    steps: int = 8
    seconds: float = 8.0
    latency_seconds: float = 20.0
    cores: tuple[int, ...] = field(default_factory=lambda: tuple(sorted(os.sched_getaffinity(0))))
    seed: int = 7

    def __post_init__(self) -> None:
        unknown = [peer for peer in self.peers if peer not in PEERS]
        if unknown:
            raise UserError(f"there is no peer '{unknown[0]}'", None, f"Choose some of {', '.join(PEERS)}.")
        compared(self.query)


@dataclass
class Record:
    """The results of one system."""

    system: System | None = None
    version: str | None = None
    persists: str | None = None
    cores: int = 1
    match: bool | None = None
    unsupported: str | None = None
    error: str | None = None
    search: Search | None = None
    staircase: Staircase | None = None
    latencies: list[Figures] = field(default_factory=list)
    by_rate: list[Figures] = field(default_factory=list)

    @property
    def counts(self) -> bool:
        return bool(self.match) and self.error is None


class Comparison:
    """Runs one comparison."""

    def __init__(self, plan: Plan, say: Callable[[str], None], step: Callable[[], None]) -> None:
        self.plan = plan
        self.query = compared(plan.query)
        self.records: dict[str, Record] = {name: Record() for name in (STRETTO, *plan.peers)}
        self.rate: float | None = plan.rate
        self.loads: list[float] = [os.getloadavg()[0]]
        self.events = 0
        self._say = say
        self._step = step
        self._length = Length(plan.seconds)

    @property
    def steps(self) -> int:
        """The maximum number of runs."""
        return len(self.records) * (2 + self.plan.steps + 2 * self.plan.rounds)

    def run(self) -> dict[str, Any]:
        """Run the comparison; returns the object that `--json` prints."""
        with ExitStack() as stack:
            scratch = scratch_directory("compare")
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            library = Library(scratch / "files", self.query.columns, self._count_rendered)
            trials = Trials(self.plan.query, self.query, library, scratch, len(self.plan.cores))
            judge = self._judge(library)
            for name, record in self.records.items():
                self._start(name, record, scratch, stack)
            for record in self._running():
                self._check(record, trials, judge, library)
            for record in self._running():
                self._find_rate(record, trials)
            self._choose_common_rate()
            for _ in range(self.plan.rounds):
                for record in self._running():
                    self._measure_throughput(record, trials)
                for record in self._running():
                    self._measure_latency(record, trials)
            return self.as_dict()

    # The parts

    def _judge(self, library: Library) -> Judge:
        self._say("Spark SQL computes the right answer ...")
        rendered = library.rendered(CHECK_CONFIG, CHECK_PER_FILE, CHECK_FILES)
        with spark_session("stretto bench oracle", local_master(0)) as spark:
            judge = Judge(spark, self.plan.query, self.query, rendered)
        if not judge.rows:
            raise UserError("the reference answer is empty, so nothing can be checked", self.plan.query)
        return judge

    def _start(self, name: str, record: Record, scratch: Path, stack: ExitStack) -> None:
        self._say(f"{name}: starting")
        with self._guarded(name, record):
            system = System(name, environment(name, self._say), self.plan.cores, scratch)
            stack.callback(system.close)
            record.system = system
            record.version, record.persists, record.cores = system.version, system.persists, system.cores

    def _check(self, record: Record, trials: Trials, judge: Judge, library: Library) -> None:
        system = _system(record)
        self._say(f"{system.name}: checking its answer")
        with self._guarded(system.name, record):
            rendered = library.rendered(CHECK_CONFIG, CHECK_PER_FILE, CHECK_FILES)
            complaint = judge.complaint(trials.check(system, rendered))
            record.match = complaint is None
            if complaint is not None:
                self._say(f"{system.name}: its answer is wrong, so it gets no figures: {complaint}")
        self._step()

    def _find_rate(self, record: Record, trials: Trials) -> None:
        system, config = _system(record), self._config(EVENT_RATE)
        with self._guarded(system.name, record):
            events = self.plan.events
            guess = trials.drain(system, config, events)
            # Once more: a JVM compiles code after a while, and a system that starts slowly needs a longer run.
            guess = trials.drain(system, config, min(DRAIN_GROWTH_MAX * events, max(events, int(guess * DRAIN_S))))
            self._step()
            self._say(f"{system.name}: drains a backlog at {guess:,.0f} events/s")
            search = Search(max(guess, 1_000.0))
            for _ in range(self.plan.steps):
                if search.is_close:
                    self._step()
                    continue
                figures = trials.paced(system, config, search.rate, self._length, low_latency=False)
                self._note(record, figures)
                search.learn(figures.sustained, figures.events_per_s)
            record.staircase = Staircase(search.found)

    def _choose_common_rate(self) -> None:
        sustained = [record.staircase.rate for record in self._running() if record.staircase]
        if self.rate is None and sustained:
            self.rate = float(_rounded_down(min(COMMON_RATE_MAX, COMMON_SHARE * min(sustained))))
            self._say(f"latency is measured at {self.rate:,.0f} events/s")

    def _measure_throughput(self, record: Record, trials: Trials) -> None:
        system, staircase = _system(record), record.staircase
        assert staircase is not None
        with self._guarded(system.name, record):
            config = self._config(EVENT_RATE)
            figures = trials.paced(system, config, staircase.rate, self._length, low_latency=False)
            self._note(record, figures)
            staircase.learn(figures.sustained, figures.events_per_s)

    def _measure_latency(self, record: Record, trials: Trials) -> None:
        system = _system(record)
        assert self.rate is not None
        with self._guarded(system.name, record):
            config = self._config(max(1_000, int(self.rate / SPEED_UP)))
            length = Length(self.plan.latency_seconds)
            figures = trials.paced(system, config, self.rate, length, low_latency=True)
            self._note(record, figures)
            record.latencies.append(figures)

    # Helpers

    def _config(self, event_rate: int) -> NexmarkConfig:
        return NexmarkConfig(seed=self.plan.seed, event_rate=event_rate)

    def _running(self) -> list[Record]:
        """The systems that can still be measured: started, able to express the query, and not known to be wrong."""
        return [
            record
            for record in self.records.values()
            if record.system is not None
            and record.error is None
            and record.unsupported is None
            and record.match is not False
        ]

    def _note(self, record: Record, figures: Figures) -> None:
        record.by_rate.append(figures)
        self.loads.append(os.getloadavg()[0])
        p99 = figures.quantile_ms(0.99)
        verdict = "sustained" if figures.sustained else f"not sustained, reached {figures.events_per_s:,.0f}"
        late = "no output" if p99 is None else f"p99 {p99:,.1f} ms"
        self._say(f"{_system(record).name}: {figures.rate:,.0f} events/s {verdict}, {late}")
        self._step()

    def _count_rendered(self, events: int) -> None:
        self.events += events

    @contextmanager
    def _guarded(self, name: str, record: Record) -> Iterator[None]:
        """Drop a failing system and continue with the others; a failure of stretto is raised."""
        try:
            yield
        except CannotExpress as error:
            record.unsupported = str(error)
            self._say(f"{name}: cannot express {self.plan.query}: {error}")
        except SystemFailed as error:
            if name == STRETTO:
                raise
            record.error = str(error)
            self._say(f"{name}: {error}")

    # The result

    def as_dict(self) -> dict[str, Any]:
        counted = {name: record for name, record in self.records.items() if record.counts}
        per_core = {
            name: [reached / record.cores for reached in record.staircase.reached] if record.staircase else []
            for name, record in counted.items()
        }
        p99 = {name: [one.quantile_ms(0.99) for one in record.latencies] for name, record in counted.items()}
        throughput, latency = ratios(per_core, STRETTO), ratios(p99, STRETTO)
        return {
            "query": self.plan.query,
            "about": self.query.about,
            "events": self.events,
            "rounds": self.plan.rounds,
            "cores": len(self.plan.cores),
            "rate": self.rate,
            "load": {
                "before": round(self.loads[0], 2),
                "after": round(self.loads[-1], 2),
                "max": round(max(self.loads), 2),
            },
            "machine": machine(),
            "taken": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "systems": {name: _as_dict(record) for name, record in self.records.items()},
            "ratios": {"throughput_per_core": _digits(throughput.median), "p99": _digits(latency.median)},
            "ranges": {
                "throughput_per_core": {name: [_digit(v) for v in both] for name, both in throughput.range.items()},
                "p99": {name: [_digit(v) for v in both] for name, both in latency.range.items()},
            },
        }


def _as_dict(record: Record) -> dict[str, Any]:
    """Returns one system's part of the JSON. A system with a wrong answer has no figures."""
    found: dict[str, Any] = {
        "version": record.version,
        "persists": record.persists,
        "cores": record.cores,
        "match": record.match,
        "events_per_s": None,
        "events_per_s_per_core": None,
        "latency_ms": dict.fromkeys(LATENCY_NAMES),
    }
    if record.unsupported is not None:
        found["unsupported"] = record.unsupported
    if record.error is not None:
        found["error"] = record.error
    if not record.counts:
        return found
    if record.staircase and record.staircase.reached:
        events_per_s = statistics.median(record.staircase.reached)
        found["events_per_s"] = round(events_per_s, 1)
        found["events_per_s_per_core"] = round(events_per_s / record.cores, 1)
    pooled = np.concatenate([one.latencies_ms for one in record.latencies]) if record.latencies else np.empty(0)
    if len(pooled):
        shares = np.linspace(0, 1, 101)
        found["latency_ms"] = dict(
            zip(LATENCY_NAMES, (round(float(np.quantile(pooled, share)), 3) for share in QUANTILES), strict=True)
        )
        found["latency_quantiles_ms"] = [
            [round(float(share), 2), round(float(value), 3)]
            for share, value in zip(shares, np.quantile(pooled, shares), strict=True)
        ]
        found["outputs"] = len(pooled)
    found["rounds"] = _rounds(record)
    found["latency_by_rate"] = [
        {
            "rate": round(one.rate, 1),
            "p50_ms": _digit(one.quantile_ms(0.5)),
            "p99_ms": _digit(one.quantile_ms(0.99)),
            "sustained": one.sustained,
        }
        for one in record.by_rate
    ]
    return found


def _rounds(record: Record) -> list[dict[str, Any]]:
    reached = record.staircase.reached if record.staircase else []
    return [
        {"events_per_s": round(events_per_s, 1), "p99_ms": _digit(figures.quantile_ms(0.99))}
        for events_per_s, figures in zip(reached, record.latencies, strict=False)
    ]


def machine() -> dict[str, Any]:
    """Describes the machine."""
    return {
        "processor": _processor(),
        "cores": psutil.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "python": platform.python_version(),
        "java": _java(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _java() -> str | None:
    try:
        output = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        return None
    return output.splitlines()[0].split('"')[1] if '"' in output else None


def _system(record: Record) -> System:
    assert record.system is not None
    return record.system


def _rounded_down(rate: float) -> int:
    """Returns the next lower round number: 1, 2 or 5 times a power of ten."""
    steps = [digit * 10**power for power in range(8) for digit in (1, 2, 5)]
    return max((step for step in steps if step <= rate), default=1)


def _digit(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _digits(values: dict[str, float]) -> dict[str, float | None]:
    return {name: _digit(value) for name, value in values.items()}


def peers_from(text: str) -> tuple[str, ...]:
    """Returns the peers of a comma-separated list, each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
