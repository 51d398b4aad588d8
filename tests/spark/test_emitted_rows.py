"""Entities that emit rows into streams, on real workers, of which one is killed.

Which rows must come out, the balances say that each transaction has returned. There are many more schedules in
`tests/simulation/test_emitted_rows.py`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S, eventually

from stretto import App, Cluster, Entity, Job, UserError, sinks, tumbling

NAMES = [f"a{number}" for number in range(10)]
PAYMENTS = 400


class NotEnough(Exception):
    """Why a payment is aborted."""


class Account(Entity):
    balance: int = 50

    async def deposit(self, amount: int) -> None:
        self.balance += amount

    async def pay(self, number: int, to: str, amount: int) -> int:
        self.balance -= amount
        self.emit("paid", {"number": number, "payer": self.key, "left": self.balance})
        await Account(to).deposit(amount)
        if self.balance < 0:
            raise NotEnough(self.key)
        return self.balance

    async def emit_wrong(self) -> None:
        self.emit("paid", {"number": "one"})


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=2) as made:
        yield made


def bank() -> App:
    app = App("bank", entities=[Account], parallelism=2)
    paid = app.emitted("paid", "number bigint, payer string, left bigint", parallelism=2)
    paid.sink(sinks.collect(), name="out")
    return app


def pay(job: Job, numbers: range) -> set[tuple[int, str, int]]:
    """Makes payments, and returns the rows of those that were not aborted."""
    found = set()
    for first in range(numbers.start, numbers.stop, 50):
        batch = range(first, min(first + 50, numbers.stop))
        calls = [(number, NAMES[number % 10], NAMES[(number * 7 + 1) % 10], number % 30) for number in batch]
        for number, payer, payee, amount in calls:
            try:
                left: Any = job.call(Account(payer).pay(number, payee, amount), timeout=WAIT_S)
                found.add((number, payer, left))
            except NotEnough:
                pass
    return found


def came(job: Job) -> list[tuple[int, str, int]]:
    return sorted(tuple(row.values()) for row in job.results("out").to_pylist())


def test_each_row_comes_once_although_a_worker_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.submit(bank(), checkpoint=tmp_path / "bank", every="200 ms")
    paid = pay(job, range(PAYMENTS // 2))
    eventually(lambda: job.results("out").num_rows > 0)
    os.kill(cluster.workers[0].pid, signal.SIGKILL)
    paid |= pay(job, range(PAYMENTS // 2, PAYMENTS))
    assert 0 < len(paid) < PAYMENTS, "some must be aborted"
    eventually(lambda: came(job) == sorted(paid))
    assert job.checkpoints.recoveries > 0
    with pytest.raises(UserError, match="a row does not fit stream 'paid'"):
        job.call(Account("a1").emit_wrong(), timeout=WAIT_S)
    job.stop()

    # Both parts are there again, with all that the sink has collected: nothing comes a second time.
    again = cluster.submit(bank(), checkpoint=tmp_path / "bank", every="200 ms")
    later = pay(again, range(PAYMENTS, PAYMENTS + 50))
    assert later
    eventually(lambda: came(again) == sorted(paid | later))
    again.stop()


def test_time_goes_on_when_nobody_calls(cluster: Cluster) -> None:
    app = App("bank", entities=[Account], parallelism=2)
    rows = app.emitted("paid", "number bigint, payer string, left bigint", stamp="at", time="at")
    counts = rows.key_by("payer").window(tumbling("1 second")).aggregate(payments="count(*)")
    counts.sink(sinks.collect(), name="out")
    job = cluster.submit(app)
    paid = pay(job, range(20))
    eventually(lambda: sum(row["payments"] for row in job.results("out").to_pylist()) == len(paid))
    job.stop()
