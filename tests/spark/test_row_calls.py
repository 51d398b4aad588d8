"""Rows of streams that call entities on real workers, of which one is killed, and the two parts of one app.

Every transaction notes the row and the balance that it leaves, so what the entities hold in the end says which
transactions took place, and what each row's reply must be. There are many more schedules in
`tests/simulation/test_row_calls.py`.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S, eventually

from stretto import App, Cluster, Entity, Job, reads, sinks, sources
from stretto.bench.gates import Gate
from stretto.coordinator.records import JobStatus
from stretto.errors import ClusterError, EngineError, FunctionError, StorageError

ACCOUNTS = 20
BALANCE = 100
NAMES = [f"a{number}" for number in range(ACCOUNTS)]
ROWS = 2_000


class NotEnough(Exception):
    """Why a payment is aborted."""


class Account(Entity):
    balance: int = BALANCE
    paid: list[tuple[int, int]] = []  # noqa: RUF012

    async def deposit(self, amount: int) -> None:
        self.balance += amount

    async def pay(self, row: int, to: str, amount: int) -> int:
        self.balance -= amount
        await Account(to).deposit(amount)
        if self.balance < 0:
            raise NotEnough(f"{self.key} lacks {-self.balance}")
        self.paid.append((row, self.balance))
        return self.balance

    @reads
    async def look(self) -> tuple[int, list[tuple[int, int]]]:
        return self.balance, self.paid

    @reads
    async def rich(self) -> bool:
        return self.balance > BALANCE


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=2) as made:
        yield made


def payments(count: int) -> list[dict[str, Any]]:
    chance = random.Random(3)
    pairs = [chance.sample(NAMES, 2) for _ in range(count)]
    return [
        {"row": row, "payer": payer, "payee": payee, "amount": chance.randint(1, 40)}
        for row, (payer, payee) in enumerate(pairs)
    ]


def bank(source: Any) -> App:
    app = App("bank", entities=[Account])
    paid = app.source("payments", source).call(
        Account.pay, key="payer", row="row", to="payee", amount="amount", into="left", name="paid"
    )
    paid.sink(sinks.collect(), name="out")
    return app


def check(job: Job, rows: list[dict[str, Any]]) -> None:
    """Each row came out once, with the reply that its account shows; the balances are those of what was paid."""
    results = {row["row"]: row for row in job.results("out").to_pylist()}
    assert job.results("out").num_rows == len(results) == len(rows)
    looks = dict(zip(NAMES, job.map([Account(name).look() for name in NAMES], timeout=WAIT_S), strict=True))
    noted = {row: (name, left) for name, (_, paid) in looks.items() for row, left in paid}
    assert sum(len(paid) for _, paid in looks.values()) == len(noted)
    balances = Counter(dict.fromkeys(NAMES, BALANCE))
    for each in rows:
        result = results[each["row"]]
        if result["left_error"] is None:
            assert noted.pop(each["row"]) == (each["payer"], result["left"])
            balances[each["payer"]] -= each["amount"]
            balances[each["payee"]] += each["amount"]
        else:
            assert (result["left"], result["left_error"]) == (None, "NotEnough")
            assert result["left_error_text"].startswith(f"{each['payer']} lacks ")
    assert not noted
    assert {name: balance for name, (balance, _) in looks.items()} == balances
    assert 0 < sum(1 for row in results.values() if row["left_error"]) < len(rows), "both kinds must happen"


def test_each_row_is_paid_once_although_a_worker_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    rows = payments(ROWS)
    gate = Gate(tmp_path / "gate", 0.5)
    source = gate.before(sources.memory(rows))
    job = cluster.submit(bank(source), checkpoint=tmp_path / "bank", every="200 ms")
    eventually(lambda: job.results("out").num_rows > 0)
    os.kill(cluster.workers[0].pid, signal.SIGKILL)
    eventually(lambda: job.checkpoints.recoveries > 0)
    gate.open()
    job.wait(WAIT_S)
    assert job.status is JobStatus.FINISHED
    check(job, rows)
    looked = job.call(Account("a1").look(), timeout=WAIT_S)
    job.stop()

    # Both parts are there again: no row is paid a second time, and nothing is left to read.
    again = cluster.submit(bank(source), checkpoint=tmp_path / "bank", every="200 ms")
    again.wait(WAIT_S)
    assert again.call(Account("a1").look(), timeout=WAIT_S) == looked
    again.stop()
    with pytest.raises(StorageError, match="has snapshots of entities"):
        cluster.submit(bank(source), checkpoint=tmp_path / "bank" / "entities")


def test_without_checkpoints_rows_are_called_at_once(cluster: Cluster) -> None:
    rows = payments(200)
    job = cluster.submit(bank(sources.memory(rows)))
    job.wait(WAIT_S)
    check(job, rows)
    job.stop()


def test_methods_that_only_read_enrich_rows(cluster: Cluster) -> None:
    app = App("bank", entities=[Account])
    rows = app.source("payments", sources.memory(payments(10)))
    rows.call(Account.rich, key="payee", into="rich").sink(sinks.collect(), name="out")
    job = cluster.submit(app)
    job.wait(WAIT_S)
    assert {(row["rich"], row["rich_error"]) for row in job.results("out").to_pylist()} == {(False, None)}
    job.stop()


def test_when_the_streams_fail_the_entities_end(cluster: Cluster) -> None:
    def fail(batch: Any) -> Any:
        raise ValueError("on purpose")

    app = App("bank", entities=[Account])
    rows = app.source("payments", sources.memory(payments(10)))
    rows.map(fail, rows.schema).call(Account.rich, key="payer").sink(sinks.collect(), name="out")
    job = cluster.submit(app)
    with pytest.raises(FunctionError, match="on purpose"):
        job.wait(WAIT_S)
    with pytest.raises(ClusterError, match="has ended"):
        job.call(Account("a1").look(), timeout=WAIT_S)


def test_micro_batches_are_refused(cluster: Cluster) -> None:
    with pytest.raises(EngineError, match="micro-batches have none"):
        cluster.submit(bank(sources.memory(payments(1))), engine="microbatch")
