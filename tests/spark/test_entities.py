"""Entities on real workers: what clients get, and what is left of it when workers and drivers are lost.

The order of transactions is in their replies, so a run is replayed one transaction after another by a model that knows
nothing of epochs. `tests/simulation/test_transactions.py` has many more schedules.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S, eventually

from stretto import App, Cluster, Entity, Job, UserError, reads, sinks, sources
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.source import NexmarkSource
from stretto.coordinator.records import JobStatus
from stretto.errors import AbortedError, BusyError, ClusterError, StorageError, TakenOverError
from stretto.protocol.transactions import Reply
from stretto.transactions.activation import MadeCall

ACCOUNTS = 100
NAMES = [f"a{number}" for number in range(ACCOUNTS)]
BALANCE = 50


class NotEnough(Exception):
    """Made of plain data."""


class Odd(Exception):
    """Cannot be made of what it passes on."""

    def __init__(self, reason: object) -> None:
        super().__init__(reason, object())


class Account(Entity):
    balance: int = BALANCE
    paid: dict[str, int] = {}  # noqa: RUF012

    async def deposit(self, amount: int) -> int:
        self.balance += amount
        return self.balance

    async def transfer(self, to: str, amount: int) -> int:
        if self.balance < amount:
            raise NotEnough(self.key, self.balance)
        self.balance -= amount
        self.paid[to] = self.paid.get(to, 0) + amount
        if amount % 2:
            Account(to).deposit(amount)
        elif to != self.key:
            await Account(to).deposit(amount)
        else:
            self.balance += amount
        return self.balance

    @reads
    async def look(self) -> int:
        return self.balance

    async def misbehave(self, how: str) -> Any:
        self.balance = -1
        match how:
            case "exit":
                sys.exit(3)
            case "odd":
                raise Odd("reason")
            case "recursion":
                await Account(self.key + "+").misbehave(how)
            case "spin":
                while True:
                    pass
            case "field":
                self.balance = "much"  # type: ignore[assignment]
            case "result":
                return object()
            case "long":
                return await Account("b").note("x" * (2 << 20))
        return None

    @reads
    async def stare(self) -> None:
        while True:
            pass

    async def save_later(self, to: str, amount: int) -> int:
        if self.balance < amount:
            raise NotEnough(self.key, self.balance)
        self.balance -= amount
        there: Any = Account(to)
        await there.deposit(amount, after="2 s")
        return self.balance

    async def note(self, text: str) -> int:
        return len(text)


class Session(Entity, expires="2 s"):
    user: str = ""

    async def log_in(self, user: str) -> None:
        self.user = user

    @reads
    async def who(self) -> str:
        return self.user


class Gate(Entity, in_flight_max=3):
    passed: int = 0

    async def pass_(self) -> int:
        self.passed += 1
        return self.passed

    async def remove(self) -> bool:
        existed = self.exists
        self.delete()
        return existed


class Stranger(Entity):
    async def greet(self) -> None: ...


class Ledger:
    """Transfers that were called and answered, and the model that they are compared with."""

    def __init__(self, job: Job, seed: int, before: dict[str, int] | None = None) -> None:
        self.job = job
        self.balances = dict(before or {})
        self._chance = random.Random(seed)
        self._called = 0
        self.answered: list[tuple[MadeCall, Reply]] = []
        answer = job.entity_client.answer

        def noted(answers: list[tuple[Any, Reply]]) -> None:
            self.answered += [(ticket.made, reply) for ticket, reply in answers if ticket.made.method == "transfer"]
            answer(answers)

        job.entity_client.answer = noted  # type: ignore[method-assign]

    def transfer(self, count: int) -> list[int | Exception]:
        calls = [self._transfer() for _ in range(count)]
        self._called += count
        return self.job.map(calls, return_exceptions=True, timeout=WAIT_S)

    def _transfer(self) -> Any:
        sender, to = (f"a{self._chance.randrange(ACCOUNTS)}" for _ in range(2))
        return Account(sender).transfer(to, self._chance.randint(1, 30))

    @contextmanager
    def under_load(self, until: type[Exception] | None = None) -> Iterator[None]:
        """Transfers come one batch after another meanwhile, until they raise this."""
        ends = threading.Event()

        def load() -> None:
            while not ends.is_set():
                self.transfer(50)

        with ThreadPoolExecutor(1) as pool:
            loading = pool.submit(load)
            try:
                yield
            finally:
                ends.set()
            with pytest.raises(until) if until is not None else nullcontext():
                loading.result(WAIT_S)

    def wait_for(self, more: int) -> None:
        """Wait until so many more transfers are answered."""
        enough = len(self.answered) + more
        eventually(lambda: len(self.answered) >= enough)

    def check(self) -> None:
        """All calls were answered once; replies and balances are those of one transaction after another."""
        called = self._called
        assert len(self.answered) == called
        aborted = 0
        for made, reply in sorted(self.answered, key=lambda each: each[1].place or ()):
            assert reply.place is not None
            arguments = msgspec.msgpack.decode(made.arguments)
            aborted += self._replay(made.key, arguments["to"], arguments["amount"], reply)
        assert 0 < aborted < called, "both kinds must happen, or the test shows nothing"
        self.looks_before = self.looks()
        assert self.looks_before == {name: self.balances.get(name, BALANCE) for name in NAMES}
        assert sum(self.looks_before.values()) == BALANCE * ACCOUNTS

    def _replay(self, sender: str, to: str, amount: int, reply: Reply) -> bool:
        balance = self.balances.get(sender, BALANCE)
        if balance < amount:
            assert reply.failure is not None
            assert msgspec.msgpack.decode(reply.failure.arguments or b"") == [sender, balance]
            return True
        assert reply.failure is None
        self.balances[sender] = balance - amount
        returned = balance - amount if amount % 2 or to != sender else balance
        self.balances[to] = self.balances.get(to, BALANCE) + amount
        assert reply.value is not None
        assert msgspec.msgpack.decode(reply.value) == returned
        return False

    def looks(self) -> dict[str, int]:
        return dict(zip(NAMES, self.job.map([Account(name).look() for name in NAMES]), strict=True))


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=2) as made:
        yield made


def bank(cluster: Cluster, directory: Path | None = None) -> Job:
    return cluster.submit(App("bank", entities=[Account]), checkpoint=directory)


def test_transactions_are_those_of_one_after_another(cluster: Cluster, tmp_path: Path) -> None:
    job = bank(cluster, tmp_path / "bank")
    ledger = Ledger(job, 1)
    results = ledger.transfer(400)
    assert {type(each) for each in results} == {int, NotEnough}
    ledger.check()
    # The other ways to call.
    assert job.call(Account("new").deposit(5)) == BALANCE + 5

    async def together() -> list[int]:
        return await asyncio.gather(*(job.acall(Account("newer").deposit(1)) for _ in range(10)))

    assert sorted(asyncio.run(together())) == list(range(BALANCE + 1, BALANCE + 11))
    with pytest.raises(NotEnough) as aborted:
        job.call(Account("new").transfer("newer", 1_000))
    assert aborted.value.args == ("new", BALANCE + 5)
    assert job.stop().status is JobStatus.STOPPED
    with pytest.raises(ClusterError, match="job 'bank' has ended"):
        job.call(Account("new").look())


def test_what_is_wrong_is_told_to_its_caller_alone(cluster: Cluster) -> None:
    job = bank(cluster)
    with pytest.raises(UserError, match=r"wrong arguments for Account\.deposit: Expected `int`, got `str`"):
        job.call(Account("a").deposit("much"))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="Account has no method 'withdraw'"):
        job.call(Account("a").withdraw(1))  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="there is no entity 'Stranger'"):
        job.call(Stranger("a").greet())
    with pytest.raises(UserError, match="this is not a call of an entity"):
        job.call(5)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"the arguments of Account\.note are too large"):
        job.call(Account("a").note("x" * (2 << 20)))
    wrong = {
        "exit": (AbortedError, "SystemExit"),
        "odd": (AbortedError, "Account/a raised Odd"),
        "recursion": (UserError, "a chain of calls is too long: the limit is 100"),
        "field": (UserError, "a field of Account/a has a wrong value"),
        "result": (UserError, "Account.misbehave returned a wrong value"),
        "long": (UserError, "the arguments of Account.note are too large"),
    }
    calls = [Account("a").misbehave(how) for how in wrong]
    found = job.map([*calls, Account("a").deposit(1)], return_exceptions=True, timeout=WAIT_S)
    for (kind, text), error in zip(wrong.values(), found, strict=False):
        assert isinstance(error, kind)
        assert text in str(error)
    assert found[-1] == BALANCE + 1
    assert job.call(Account("a").look()) == BALANCE + 1
    job.stop()


def test_a_handler_that_does_not_return_is_ended_and_nobody_else_is_harmed(cluster: Cluster, tmp_path: Path) -> None:
    job = bank(cluster, tmp_path / "bank")
    calls = [Account(f"b{number}").deposit(1) for number in range(20)]
    found = job.map([*calls, Account("a").misbehave("spin"), *calls], return_exceptions=True, timeout=WAIT_S)
    assert isinstance(found.pop(20), UserError)
    assert sorted(found) == [BALANCE + 1] * 20 + [BALANCE + 2] * 20
    with pytest.raises(UserError, match="a transaction ran out of time"):
        job.call(Account("a").stare(), timeout=WAIT_S)
    assert job.call(Account("a").look(), timeout=WAIT_S) == BALANCE
    assert job.status is JobStatus.RUNNING
    assert job.checkpoints.recoveries == 0, "no worker was lost for it"
    job.stop()


def test_streams_and_entities_share_workers_and_neither_starves(cluster: Cluster) -> None:
    app = App("endless", engine="actors", batch_rows=1_000)
    stream = app.source("bids", NexmarkSource("bid", NexmarkConfig(events=None), None, ["auction", "price"]))
    stream.key_by("auction").aggregate(high="max(price)").sink(sinks.null(), name="out")
    busy, job = cluster.submit(app), bank(cluster)
    ledger = Ledger(job, 7)
    eventually(lambda: busy.metrics().rows_in > 50_000)
    with ledger.under_load():
        before = busy.metrics().rows_in
        ledger.wait_for(300)
        eventually(lambda: busy.metrics().rows_in > before + 50_000)
    ledger.check()
    busy.stop()
    job.stop()


def test_nothing_is_lost_or_repeated_when_workers_are_killed(cluster: Cluster, tmp_path: Path) -> None:
    job = bank(cluster, tmp_path / "bank")
    ledger = Ledger(job, 2)
    with ledger.under_load():
        for number in range(2):
            ledger.wait_for(300)
            os.kill(sorted(cluster.workers, key=lambda each: each.name)[number].pid, signal.SIGKILL)
            eventually(lambda times=number + 1: job.checkpoints.recoveries == times)
            ledger.wait_for(300)
    ledger.check()
    job.stop()


def test_places_move_while_transactions_run_and_workers_come_and_go(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.submit(App("bank", entities=[Account], parallelism=3), checkpoint=tmp_path / "bank")
    ledger = Ledger(job, 7)
    with ledger.under_load():
        ledger.wait_for(100)
        first = cluster.workers[0].name
        cluster.scale_out(1)
        ledger.wait_for(100)
        cluster.drain(first)
        assert first not in [worker.name for worker in cluster.workers]
        ledger.wait_for(100)
        cluster.scale_in(1)
        ledger.wait_for(100)
        assert len(cluster.workers) == 1
        cluster.scale_out(1)
        ledger.wait_for(100)
    ledger.check()
    assert job.checkpoints.recoveries == 0
    job.stop()


def test_without_a_directory_entities_end_with_their_worker(cluster: Cluster) -> None:
    job = bank(cluster)
    assert job.call(Account("a").deposit(1)) == BALANCE + 1
    os.kill(cluster.workers[0].pid, signal.SIGKILL)
    with pytest.raises(ClusterError, match="are in memory only"):
        job.wait(WAIT_S)
    with pytest.raises(ClusterError, match="are in memory only"):
        job.call(Account("a").look(), timeout=WAIT_S)
    eventually(lambda: len(cluster.workers) == 2)


def test_another_driver_takes_over_with_all_that_was_acknowledged(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    directory = tmp_path / "bank"
    first = bank(cluster, directory)
    ledger = Ledger(first, 3)
    with Cluster.on_spark(spark, workers=2) as other:
        with ledger.under_load(until=TakenOverError):
            ledger.wait_for(300)
            later = Ledger(bank(other, directory), 4)
            later.transfer(50)
            with pytest.raises(TakenOverError):
                first.wait(WAIT_S)
        # All that the first driver has answered comes before all that the second one has. What the first one had not
        # answered may be in the log, and then it has taken place as well: no money is lost or made.
        assert max(reply.epoch for _, reply in ledger.answered) < min(reply.epoch for _, reply in later.answered)
        assert sum(later.looks().values()) == BALANCE * ACCOUNTS
        with pytest.raises(StorageError, match="has snapshots of entities"):
            other.submit(numbers(1), checkpoint=directory)


def test_entities_are_there_again_when_the_app_is_submitted_again(cluster: Cluster, tmp_path: Path) -> None:
    job = bank(cluster, tmp_path / "bank")
    ledger = Ledger(job, 5)
    ledger.transfer(100)
    ledger.check()
    job.stop()
    again = Ledger(bank(cluster, tmp_path / "bank"), 6, ledger.balances)
    assert again.looks() == ledger.looks_before
    again.transfer(100)
    again.check()
    again.job.stop()


def test_a_call_under_a_key_runs_once_also_when_workers_and_drivers_are_lost(cluster: Cluster, tmp_path: Path) -> None:
    job = bank(cluster, tmp_path / "bank")
    keys = [f"order-{number}" for number in range(20)]
    calls = [Account(f"a{number}").deposit(number) for number in range(20)]
    first = job.map([*calls, *calls], timeout=WAIT_S, idempotency_keys=[*keys, *keys])
    assert first == [BALANCE + number for number in range(20)] * 2
    with pytest.raises(NotEnough):
        job.call(Account("a1").transfer("a2", 60), idempotency_key="too-much")
    os.kill(cluster.workers[0].pid, signal.SIGKILL)
    eventually(lambda: job.checkpoints.recoveries == 1)
    assert job.map(calls, timeout=WAIT_S, idempotency_keys=keys) == first[:20]
    job.stop()
    job = bank(cluster, tmp_path / "bank")
    assert job.map(calls, timeout=WAIT_S, idempotency_keys=keys) == first[:20]
    assert job.call(Account("a1").deposit(100), timeout=WAIT_S) == BALANCE + 101
    with pytest.raises(NotEnough) as aborted:
        job.call(Account("a1").transfer("a2", 60), idempotency_key="too-much", timeout=WAIT_S)
    assert aborted.value.args == ("a1", BALANCE + 1), "the first reply, although there is enough now"
    with pytest.raises(UserError, match="another call has the idempotency key 'order-3'"):
        job.call(Account("a4").deposit(3), idempotency_key="order-3", timeout=WAIT_S)
    job.stop()


def numbers(count: int) -> App:
    app = App("numbers", engine="actors")
    app.source("numbers", sources.memory([{"n": n} for n in range(count)])).sink(sinks.collect(), name="out")
    return app


def test_delayed_calls_are_made_once_also_when_workers_and_drivers_are_lost(cluster: Cluster, tmp_path: Path) -> None:
    job = bank(cluster, tmp_path / "bank")
    late: Any = Account("late")
    assert job.call(late.deposit(7, after="2 s")) is None
    names = [f"b{number}" for number in range(20)]
    left = job.map([Account(name).save_later("late", 1) for name in names], timeout=WAIT_S)
    assert left == [BALANCE - 1] * 20
    with pytest.raises(NotEnough):
        job.call(Account("b0").save_later("late", 1_000))
    os.kill(cluster.workers[0].pid, signal.SIGKILL)
    job.stop()
    job = bank(cluster, tmp_path / "bank")
    eventually(lambda: job.call(Account("late").look(), timeout=WAIT_S) == BALANCE + 27)
    assert job.call(late.deposit(100, after="100 ms")) is None
    eventually(lambda: job.call(Account("late").look(), timeout=WAIT_S) >= BALANCE + 127)
    assert job.call(Account("late").look()) == BALANCE + 127
    job.stop()


def test_an_entity_that_nobody_writes_expires(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.submit(App("sessions", entities=[Session]), checkpoint=tmp_path / "sessions")
    job.call(Session("a").log_in("ann"))
    eventually(lambda: job.call(Session("a").who(), timeout=WAIT_S) == "")
    job.call(Session("a").log_in("bob"))
    job.stop()
    job = cluster.submit(App("sessions", entities=[Session]), checkpoint=tmp_path / "sessions")
    eventually(lambda: job.call(Session("a").who(), timeout=WAIT_S) == "")
    job.stop()


def test_few_calls_of_an_entity_are_under_way_and_it_can_be_deleted(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.submit(App("gates", entities=[Gate]), checkpoint=tmp_path / "gates")
    found = job.map([Gate("a").pass_() for _ in range(200)], return_exceptions=True, timeout=WAIT_S)
    through = [each for each in found if isinstance(each, int)]
    assert sorted(through) == list(range(1, len(through) + 1))
    assert {type(each) for each in found} == {int, BusyError}
    assert job.map([Gate(name).pass_() for name in "bcdefgh"], timeout=WAIT_S) == [1] * 7
    assert job.call(Gate("a").remove(), timeout=WAIT_S) is True
    job.stop()
    job = cluster.submit(App("gates", entities=[Gate]), checkpoint=tmp_path / "gates")
    assert job.call(Gate("a").remove(), timeout=WAIT_S) is False
    assert job.call(Gate("a").pass_(), timeout=WAIT_S) == 1
    job.stop()
