"""The workloads of transactions in one process: their checks pass, and find faults that are planted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

import msgspec
import pytest

from stretto.bench.transactions.in_process import InProcess
from stretto.bench.transactions.movie import Movie
from stretto.bench.transactions.service import Done, Fields
from stretto.bench.transactions.tpcc import Terminals, Tpcc
from stretto.bench.transactions.tpcc_entities import ITEMS, customers_named, last_name
from stretto.bench.transactions.travel import Travel
from stretto.bench.transactions.workload import Run, Workload
from stretto.bench.transactions.ycsb_t import AMOUNT_MAX, Account, YcsbT
from stretto.protocol.transactions import Reply
from stretto.simulator.checking.transaction_mutations import (
    AbortedWritesCount,
    HandlersDoNotShare,
    conflicts_ignored,
)
from stretto.transactions.attempt import WorkerParts
from stretto.transactions.entity import Entity
from stretto.transactions.epoch import EpochParts

WORKLOADS: dict[str, tuple[Workload, int]] = {
    "uniform": (YcsbT(200), 800),
    "zipf": (YcsbT(200, skew=0.99), 500),
    "hot": (YcsbT(200, hot=True), 300),
    "movie": (Movie(40, 40), 300),
    "travel": (Travel(20, 20, 30, rooms=1), 1_500),
    "tpcc": (Tpcc(2), 150),
}
"""Small, so that transactions meet, and are aborted."""


def ran(name: str, parts: WorkerParts | None = None, workers: int = 2) -> Run:
    workload, calls = WORKLOADS[name]
    run = Run(InProcess(workload.entities, workers, parts=parts, open_max=60), workload, seed=3)
    run.more(calls)
    return run


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_runs_and_its_check_passes(name: str) -> None:
    run = ran(name, workers=3)
    assert run.problems() == []
    aborted = [each for each in run.done if each.reply.failure is not None]
    assert 0 < len(aborted) < len(run.done) / 2
    phases = {each.reply.place.phase for each in run.done if each.reply.place is not None}
    assert 3 in phases or name == "travel"  # There were conflicts.


@pytest.mark.parametrize("name", WORKLOADS)
def test_calls_are_those_of_the_seed(name: str) -> None:
    workload, _ = WORKLOADS[name]
    first, again, other = (
        [(made.key, made.method, made.arguments) for made in islice(workload.calls(seed), 60)] for seed in (3, 3, 4)
    )
    assert first == again != other


BROKEN = {
    "uniform": WorkerParts(in_epoch=EpochParts(decide=conflicts_ignored)),
    "zipf": WorkerParts(in_epoch=EpochParts(decide=conflicts_ignored)),
    "hot": WorkerParts(in_epoch=EpochParts(decide=conflicts_ignored)),
    "movie": WorkerParts(in_epoch=EpochParts(decide=conflicts_ignored)),
    "travel": WorkerParts(epoch=AbortedWritesCount),
    "tpcc": WorkerParts(in_epoch=EpochParts(decide=conflicts_ignored)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_check_finds_a_protocol_that_is_broken(name: str) -> None:
    assert ran(name, BROKEN[name]).problems()


def test_an_account_that_pays_itself_shares_its_handlers() -> None:
    """The hot account is a debtor too, so it calls itself."""
    assert ran("hot", WorkerParts(in_epoch=EpochParts(execution=HandlersDoNotShare))).problems()


class Tampered:
    """Rows with one change."""

    def __init__(self, service: Any, kind: str, change: Any) -> None:
        self._service, self._kind, self._change = service, kind, change

    def map(self, calls: Iterable[Any]) -> list[Reply]:
        return list(self._service.map(list(calls)))

    def rows(self, kind: type[Entity]) -> dict[str, Fields]:
        rows: dict[str, Fields] = self._service.rows(kind)
        if kind.__name__ == self._kind:
            self._change(rows)
        return rows


def removed(rows: dict[str, Fields]) -> None:
    del rows[max(rows)]


def more(field: str) -> Any:
    def change(rows: dict[str, Fields]) -> None:
        rows[max(rows)][field] += 1

    return change


@pytest.mark.parametrize(
    ("name", "kind", "change", "text"),
    [
        ("uniform", "Account", more("balance"), "money is not conserved: the accounts have +1"),
        ("uniform", "Account", removed, "in the replay"),
        ("movie", "MovieReviews", more("stars"), "in the replay"),
        ("movie", "Review", removed, "in the replay"),
        ("travel", "Booking", removed, "in the replay"),
        ("travel", "Hotel", more("rooms"), "in the replay"),
        ("tpcc", "WarehouseTill", more("ytd"), "condition 1"),
        ("tpcc", "DistrictTill", more("ytd"), "condition 1"),
        ("tpcc", "District", more("next_order"), "condition 2"),
        ("tpcc", "NewOrder", removed, "condition"),
        ("tpcc", "Order", removed, "condition 4"),
        ("tpcc", "Order", more("lines"), "condition 4"),
        ("tpcc", "OrderLine", removed, "condition 4"),
        ("tpcc", "Customer", more("balance"), "is booked"),
        ("tpcc", "History", removed, "rows of them"),
    ],
)
def test_the_check_finds_a_row_that_is_wrong(
    name: str, kind: str, change: Any, text: str, runs: dict[str, Run]
) -> None:
    run = replace_service(runs[name], kind, change)
    assert any(text in problem for problem in run.problems())


def replace_service(run: Run, kind: str, change: Any) -> Run:
    found = Run.__new__(Run)
    found.__dict__.update(run.__dict__, service=Tampered(run.service, kind, change))
    return found


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return {name: ran(name) for name in ("uniform", "movie", "travel", "tpcc")}


@pytest.mark.parametrize("name", ["uniform", "movie", "travel", "tpcc"])
def test_the_check_finds_a_reply_that_is_wrong(name: str, runs: dict[str, Run]) -> None:
    run = runs[name]
    rows = {kind.__name__: run.service.rows(kind) for kind in run.workload.entities}
    number = max(place for place, each in enumerate(run.done) if changed(each) is not None)
    lost = [*run.done[:number], *run.done[number + 1 :]]
    other = changed(run.done[number])
    assert other is not None
    for done in (lost, [*lost, other]):
        assert list(run.workload.verify(done, rows))


def changed(done: Done) -> Done | None:
    """Returns the call of a transaction that has written, with another reply."""
    reply = done.reply
    if reply.failure is not None or done.made.method not in ("transfer", "compose", "reserve", "order"):
        return None
    other = {int: lambda old: old + 1, str: lambda old: f"{old}x", list: lambda old: [old[0] + 1, old[1]]}
    value = msgspec.msgpack.encode(other[type(done.value)](done.value))
    return replace(done, reply=msgspec.structs.replace(reply, value=value))


# Distributions.


def test_creditors_are_skewed_as_asked() -> None:
    def share_of_the_first(workload: YcsbT) -> float:
        counts: dict[str, int] = {}
        for made in islice(workload.calls(1), 4_000):
            to = msgspec.msgpack.decode(made.arguments)["to"]
            counts[to] = counts.get(to, 0) + 1
        return max(counts.values()) / 4_000

    weights = [rank**-0.99 for rank in range(1, 1_001)]
    assert share_of_the_first(YcsbT(1_000)) < 0.01
    assert abs(share_of_the_first(YcsbT(1_000, skew=0.99)) - weights[0] / sum(weights)) < 0.02
    assert share_of_the_first(YcsbT(1_000, hot=True)) == 1


def test_nobody_pays_itself_unless_all_pay_to_one() -> None:
    for made in islice(YcsbT(20).calls(1), 500):
        arguments = msgspec.msgpack.decode(made.arguments)
        assert made.key != arguments["to"]
        assert 1 <= arguments["amount"] <= AMOUNT_MAX


def test_tpcc_draws_as_the_specification_says() -> None:
    orders, payments, lines, unused = 0, 0, [], 0
    for made in islice(Tpcc(10).calls(1), 3_000):
        arguments = msgspec.msgpack.decode(made.arguments)
        if made.method == "order":
            orders += 1
            lines += arguments["lines"]
            unused += arguments["lines"][-1][0] > ITEMS
            assert 5 <= len(arguments["lines"]) <= 15
        else:
            payments += 1
    assert abs(orders / payments - 45 / 43) < 0.1
    assert 0.003 < unused / orders < 0.02
    assert 9.5 < len(lines) / orders < 10.5


def test_nurand_prefers_some_as_the_formula_does() -> None:
    """NURand(1023, 1, 3000): the or of two uniform numbers sets bits more often than either."""
    terminals = Terminals(random.Random(1), 1)
    drawn = [terminals.nurand(1_023, 1, 3_000) for _ in range(20_000)]
    assert min(drawn) >= 1
    assert max(drawn) <= 3_000
    counts = sorted(Counter(drawn).values(), reverse=True)
    assert sum(counts[:300]) > 0.25 * len(drawn)  # A tenth of the customers has more than a quarter of the calls.


def test_last_names_are_syllables_by_digits_and_all_have_customers() -> None:
    assert last_name(371) == "PRICALLYOUGHT"
    assert last_name(40) == "BARPRESBAR"
    named = [customers_named(last_name(number)) for number in range(1_000)]
    assert sorted(each for some in named for each in some) == list(range(1, 3_001))


# The driver.


def test_equal_calls_give_equal_runs() -> None:
    assert [each.reply for each in ran("zipf").done] == [each.reply for each in ran("zipf").done]


def test_what_is_used_is_counted() -> None:
    service = InProcess([Account], 2)
    run = Run(service, YcsbT())
    before = service.workers_cpu_s
    run.more(50)
    assert service.workers_cpu_s > before
    assert service.frames_sent >= 50
