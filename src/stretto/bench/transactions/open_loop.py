"""Transactions at a rate: calls are made when they are due, whatever the ones before them do (open loop).

Latency is from the moment at which a call was due, so a call that could not be made in time has waited all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol

from stretto.bench.transactions.measure import Report, percentiles, reported
from stretto.bench.transactions.service import Service
from stretto.bench.transactions.workload import Run
from stretto.protocol.transactions import Reply

LOADS = (0.25, 0.5, 0.8)
"""As shares of what is sustained when calls are made as fast as they are answered."""
HEAD_START_S = 0.05
STEP_S = 0.001
"""How long the caller sleeps at least, if no call is due: those that fall due meanwhile are made together."""


class Open(Service, Protocol):
    """A service whose calls can be left open."""

    def begin(self, made: Any) -> Future[Reply]: ...

    def replies(self, futures: Sequence[Future[Reply]]) -> list[Reply]: ...

    @property
    def workers_cpu_s(self) -> float: ...


def measure(run: Run, service: Open, calls: int, seconds: float) -> Report:
    """Measure so many calls as fast as they are answered, and then each load for some seconds."""
    run.more(calls // 4)
    cpu_s, began_s = service.workers_cpu_s, time.perf_counter()
    done = run.more(calls)
    took_s, used_s = time.perf_counter() - began_s, service.workers_cpu_s - cpu_s
    per_s = calls / took_s
    latency_ms = {
        f"{load:.0%}": percentiles([1e3 * wait_s for wait_s in at_rate(run, service, load * per_s, seconds)])
        for load in LOADS
    }
    return reported(run, done, per_s, calls / used_s, latency_ms)


def at_rate(
    run: Run,
    service: Open,
    rate: float,
    seconds: float,
    now_s: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> list[float]:
    """Make calls at a rate. Returns how long each has waited for its reply since it was due, in seconds."""
    made = run.draw(max(1, int(rate * seconds)))
    answered_s = [0.0] * len(made)
    futures: list[Future[Reply]] = []

    def note(number: int, future: Future[Reply]) -> None:
        answered_s[number] = now_s()

    began_s = now_s() + HEAD_START_S
    while len(futures) < len(made):
        due = min(len(made), int((now_s() - began_s) * rate) + 1)
        for number in range(len(futures), due):
            future = service.begin(made[number])
            future.add_done_callback(partial(note, number))
            futures.append(future)
        sleep(max(STEP_S, began_s + len(futures) / rate - now_s()))
    run.add(made, service.replies(futures))
    return [at_s - began_s - number / rate for number, at_s in enumerate(answered_s)]
