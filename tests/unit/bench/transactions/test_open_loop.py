"""Calls at a rate: they are made when they are due, and wait from that moment on."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from stretto.bench.transactions import open_loop
from stretto.bench.transactions.in_process import InProcess
from stretto.bench.transactions.workload import Run
from stretto.bench.transactions.ycsb_t import YcsbT
from stretto.protocol.transactions import Reply


class Late:
    """Machines in one process, whose replies to calls that were begun are held back until `held` are open."""

    def __init__(self, held: int) -> None:
        workload = YcsbT(100)
        self._machines = InProcess(workload.entities, 2)
        self._held = held
        self._open: list[tuple[Any, Future[Reply]]] = []
        self.now_s = 100.0
        self.begun_s: list[float] = []
        self.map, self.rows = self._machines.map, self._machines.rows
        self.run = Run(self, workload)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds + 0.0007  # It is always a little late.

    def begin(self, made: Any) -> Future[Reply]:
        self.begun_s.append(self.now_s)
        future: Future[Reply] = Future()
        self._open.append((made, future))
        if len(self._open) == self._held:
            answering, self._open = self._open, []
            replies = self._machines.map([made for made, _ in answering])
            for (_, each), reply in zip(answering, replies, strict=True):
                each.set_result(reply)
        return future

    def replies(self, futures: Sequence[Future[Reply]]) -> list[Reply]:
        return [future.result() for future in futures]

    @property
    def workers_cpu_s(self) -> float:
        return self._machines.workers_cpu_s


def test_latency_is_from_when_a_call_was_due_and_nobody_waits_for_replies() -> None:
    service = Late(held=100)
    waits_s = open_loop.at_rate(service.run, service, 1_000, 0.1, lambda: service.now_s, service.sleep)
    due_s = [100 + open_loop.HEAD_START_S + number / 1_000 for number in range(100)]
    late_s = [begun - due for begun, due in zip(service.begun_s, due_s, strict=True)]
    assert -1e-9 < min(late_s) < max(late_s) < 0.003
    assert waits_s == pytest.approx([service.begun_s[-1] - due for due in due_s])
    assert service.run.problems() == []
    assert len(service.run.done) == 100


def test_a_report_has_all_loads() -> None:
    service = Late(held=1)
    report = open_loop.measure(service.run, service, 40, 0.02)
    assert report.match
    assert report.latency_ms.keys() == {"25%", "50%", "80%"}
    assert report.per_s is not None
    assert report.transactions == 40
