"""Rows that handlers emit: what is checked where they are emitted, how they are numbered, and what is kept of them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from stretto import App, Entity, UserError, reads, sinks
from stretto.api.relational import unsupported
from stretto.errors import PlanError
from stretto.protocol.machines import FrameArrived, Send, Ticked
from stretto.protocol.transactions import Call, Emitted, EntityName, Fetch, Origin, Proceed, Reply, Request, Resume, Row
from stretto.transactions import emitted
from stretto.transactions.attempt import Settings
from stretto.transactions.emitted import Bounds, Emission, EmittedRows
from stretto.transactions.events import AppendLog, LogWritten, OpenState, StateOpened
from stretto.transactions.log import Cut
from stretto.transactions.log import read as read_log
from stretto.transactions.machine import COORDINATOR, TransactionWorker


class Account(Entity):
    balance: int = 0

    async def pay(self, amount: int) -> int:
        """Emits a row before it knows whether it will be aborted."""
        self.emit("frauds", {"account": self.key, "amount": amount})
        if amount < 0:
            raise ValueError("there are no negative payments")
        self.balance += amount
        return self.balance

    async def pay_all(self, others: list[str], amount: int) -> None:
        for other in others:
            await Account(other).pay(amount)

    async def emit_into(self, stream: str, row: dict[str, Any]) -> None:
        self.emit(stream, row)

    async def emit_large(self) -> None:
        self.emit("frauds", {"account": "x" * (1 << 20)})

    async def emit_quietly(self) -> str:
        try:
            self.emit("frauds", {"amount": "many"})
        except UserError as error:
            return error.fact
        return ""

    async def emit_many(self, count: int) -> None:
        for number in range(count):
            self.emit("frauds", {"amount": number})

    @reads
    async def look(self) -> None:
        self.emit("frauds", {"account": self.key})


def app() -> App:
    bank = App("bank", entities=[Account])
    bank.emitted("frauds", "account string, amount bigint")
    bank.emitted("prices", "price decimal(5,2)")
    return bank


# What users see.


def test_a_transaction_that_commits_emits_its_rows_and_an_aborted_one_none() -> None:
    bank = app().in_process()
    bank.call(Account("ann").pay(5))
    with pytest.raises(ValueError, match="negative"):
        bank.call(Account("ann").pay(-1))
    bank.call(Account("ann").pay_all(["bob", "cy"], 7))
    with pytest.raises(ValueError, match="negative"):
        bank.call(Account("ann").pay_all(["bob", "cy"], -1))
    assert bank.emitted("frauds") == [
        {"account": "ann", "amount": 5},
        {"account": "bob", "amount": 7},
        {"account": "cy", "amount": 7},
    ]
    assert bank.emitted("prices") == []


@pytest.mark.parametrize(
    ("stream", "row", "text"),
    [
        ("fraud", {}, r"the app emits into no stream 'fraud': it has frauds, prices"),
        ("frauds", {"amount": "5"}, r"a row does not fit stream 'frauds': Expected `int \| null`, got `str`"),
        ("frauds", {"amount": 2**63}, "a row does not fit stream 'frauds'"),
        ("frauds", {"sum": 5}, "unknown field `sum`"),
        ("prices", {"price": Decimal("1234.5")}, "a row does not fit stream 'prices'"),
    ],
)
def test_a_wrong_row_is_an_error_of_its_caller_alone(stream: str, row: dict[str, Any], text: str) -> None:
    bank = app().in_process()
    with pytest.raises(UserError, match=text):
        bank.call(Account("ann").emit_into(stream, row))
    bank.call(Account("ann").pay(1))
    assert bank.emitted("frauds") == [{"account": "ann", "amount": 1}]


def test_a_row_has_a_limit() -> None:
    with pytest.raises(UserError, match="a row for stream 'frauds' is too large: 1,048,590 bytes"):
        app().in_process().call(Account("ann").emit_large())


def test_a_handler_may_go_on_after_a_wrong_row() -> None:
    bank = app().in_process()
    assert bank.call(Account("ann").emit_quietly()) == "a row does not fit stream 'frauds'"
    assert bank.emitted("frauds") == []


def test_a_handler_emits_so_many_rows_and_no_more() -> None:
    bank = app().in_process()
    bank.call(Account("ann").emit_many(10_000))
    with pytest.raises(UserError, match="a handler has emitted too many rows"):
        bank.call(Account("ann").emit_many(10_001))
    assert [row["amount"] for row in bank.emitted("frauds")] == list(range(10_000))


def test_a_method_that_only_reads_emits_nothing() -> None:
    bank = app().in_process()
    with pytest.raises(UserError, match=r"Account\.look only reads: it has emitted a row"):
        bank.call(Account("ann").look())


def test_a_handler_that_emits_other_rows_when_it_runs_again_is_an_error_of_the_test() -> None:
    seen: list[int] = []

    class Counter(Entity):
        async def count(self) -> None:
            seen.append(len(seen))
            self.emit("counts", {"count": len(seen)})

    counts = App("counts", entities=[Counter])
    counts.emitted("counts", "count bigint")
    with pytest.raises(UserError, match="emitted other rows in two runs"):
        counts.in_process().call(Counter("a").count())


@pytest.mark.parametrize(
    ("declare", "text"),
    [
        (lambda: App("a").emitted("rows", "n int"), "app 'a' has no entities"),
        (lambda: app().emitted("rows", "n map<string,int>"), "column 'n' of stream 'rows' cannot be emitted"),
        (lambda: app().emitted("rows", "n int", stamp="n"), "has a column 'n' already"),
        (lambda: app().emitted("rows", "n int", time="n"), "must be a timestamp"),
        (lambda: app().emitted("frauds", "n int"), "two functions named 'frauds'"),
    ],
)
def test_a_wrong_declaration_is_refused_when_the_app_is_built(declare: Any, text: str) -> None:
    with pytest.raises((PlanError, UserError), match=text):
        declare()


def test_only_actors_can_run_such_an_app() -> None:
    bank = App("bank", entities=[Account])
    bank.emitted("frauds", "amount bigint").sink(sinks.collect(), name="out")
    for streaming in (False, True):
        reason = unsupported(bank.plan(), streaming=streaming)
        assert reason == "the rows of 'frauds' are emitted by entities, which run on actors"


# How rows are numbered and kept.


def rows_of(*numbers: int) -> list[Emission]:
    return [Emission("s", str(number).encode()) for number in numbers]


def numbers(rows: list[Row]) -> list[int]:
    return [int(row.data) for row in rows]


def test_rows_are_there_when_their_epoch_is_over_and_not_before() -> None:
    kept = EmittedRows()
    kept.stage(rows_of(1, 2))
    assert kept.since("s", 0) == []
    kept.seal(10)
    kept.stage(rows_of(3))
    kept.seal(20)
    assert kept.since("s", 0) == [Row(10, b"1"), Row(10, b"2"), Row(20, b"3")]
    assert numbers(kept.since("s", 2)) == [3]


def test_rows_are_dropped_when_a_complete_checkpoint_has_them() -> None:
    kept = EmittedRows()
    kept.stage(rows_of(1, 2, 3))
    kept.seal(10)
    kept.settle("s", 2)
    kept.settle("s", 1)
    assert kept.bounds_of("s") == Bounds("s", 2, 3)
    assert numbers(kept.since("s", 2)) == [3]
    kept.settle("s", 99)
    assert kept.bounds_of("s") == Bounds("s", 3, 3)


def test_rows_come_back_from_any_chain_of_pieces_and_numbers_go_on() -> None:
    kept = EmittedRows()
    pieces = {}
    kept.stage(rows_of(1, 2, 3))
    kept.seal(10)
    pieces.update(kept.kept(False))
    kept.settle("s", 1)
    kept.stage(rows_of(4))
    kept.seal(20)
    assert [name for name, _ in kept.kept(True)] == [("s", 1), ("s", 2), ("s", 3)]
    pieces.update(kept.kept(True))
    again = EmittedRows(kept.bounds(), pieces.items())
    assert numbers(again.since("s", 1)) == [2, 3, 4]
    assert again.bounds() == [Bounds("s", 1, 4)]
    again.stage(rows_of(5))
    again.seal(30)
    assert numbers(again.since("s", 3)) == [4, 5]


def test_rows_are_given_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emitted, "SENT_MAX", 2)
    kept = EmittedRows()
    kept.stage(rows_of(1, 2, 3))
    kept.seal(10)
    assert numbers(kept.since("s", 0)) == [1, 2]
    monkeypatch.setattr(emitted, "SENT_BYTES_MAX", 0)
    assert numbers(kept.since("s", 0)) == [1], "a large row must come too"


# The machine.


class Place:
    """The only place of a bank: what is sent from it, and its log."""

    def __init__(self, log: bytes = b"") -> None:
        catalog = app().in_process().catalog
        self.machine = TransactionWorker(1, catalog, Settings(epoch_ns=0, snapshot_ns=10**15, sweep_ns=1_000))
        self.log = log
        self.sent: list[Any] = []
        self.now_ns = 1_000_000_000
        self.calls = 0
        self.tell(FrameArrived(COORDINATOR, Resume(1, ["1"], [])))
        decided = max(read_log(log, 0).cuts, default=0)
        self.tell(FrameArrived(COORDINATOR, Proceed(1, decided)))

    def tell(self, event: Any) -> None:
        events = [event]
        while events:
            for effect in self.machine.handle(events.pop(0), self.now_ns):
                match effect:
                    case OpenState(attempt=attempt):
                        events.append(StateOpened(attempt, [], self.log, 0))
                    case AppendLog(attempt=attempt, data=data, end=end):
                        self.log += data
                        events.append(LogWritten(attempt, end))
                    case Send(frame=frame):
                        self.sent.append(frame)
        self.now_ns += 1_000_000

    def call(self, made: Any) -> Reply:
        origin = Origin("c", self.calls, self.calls - 1)
        self.calls += 1
        request = Request(EntityName(made.kind, made.key), made.method, made.arguments)
        self.tell(FrameArrived("c", Call(origin, request)))
        self.tell(Ticked())
        return next(each for each in reversed(self.sent) if isinstance(each, Reply))

    def fetch(self, since: int | None, settled: int = 0, at_us: int | None = None) -> list[Emitted]:
        """Returns what comes at once."""
        self.sent.clear()
        self.tell(FrameArrived("w", Fetch("frauds", "r", since, settled, at_us)))
        return self.came

    @property
    def came(self) -> list[Emitted]:
        return [each for each in self.sent if isinstance(each, Emitted)]


def test_whoever_fetches_waits_for_the_next_row() -> None:
    place = Place()
    assert place.fetch(None) == []
    place.call(Account("ann").pay(5))
    (came,) = place.came
    assert (came.first, len(came.rows), came.reader) == (0, 1, "r")
    place.call(Account("ann").pay(6))
    assert len(place.came) == 1, "one question has one answer"
    (came,) = place.fetch(1)
    assert (came.first, len(came.rows)) == (1, 1)


def test_a_replay_gives_the_same_rows_with_the_same_numbers() -> None:
    place = Place()
    for amount in (5, -1, 7):
        place.call(Account("ann").pay(amount))
    place.call(Account("ann").pay_all(["bob", "cy"], 3))
    (before,) = place.fetch(0)
    assert len(before.rows) == 4
    (after,) = Place(place.log).fetch(0)
    assert after == before


def test_rows_that_are_not_there_are_said_to_be_missing() -> None:
    place = Place()
    place.call(Account("ann").pay(5))
    place.call(Account("ann").pay(6))
    (came,) = place.fetch(3)
    assert came.missing == "row 3 of place 1 of the entities is wanted, and its next one is 2"
    assert place.fetch(2, settled=1) == []
    (came,) = place.fetch(0)
    assert came.missing == "row 0 of place 1 of the entities is wanted, and it has none before 1"
    (came,) = place.fetch(None)
    assert (came.first, len(came.rows), came.missing) == (1, 1, None)


def test_an_epoch_begins_when_a_stream_waits_for_the_time() -> None:
    place = Place()
    due_us = place.now_ns // 1_000 + 50_000
    assert place.fetch(None, at_us=due_us) == []
    assert place.machine.next_deadline() == due_us * 1_000
    place.tell(Ticked())
    assert place.came == []
    place.now_ns = due_us * 1_000
    place.tell(Ticked())
    (came,) = place.came
    assert (came.rows, came.reached_us) == ([], due_us)


def test_where_too_many_rows_wait_transactions_that_emit_are_aborted_also_in_a_replay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(emitted, "KEPT_MAX", 2)
    place = Place()
    place.call(Account("ann").pay(1))
    place.call(Account("ann").pay(2))
    reply = place.call(Account("ann").pay(4))
    assert reply.failure is not None
    assert reply.failure.text.startswith("too many emitted rows wait to be read")
    place.fetch(2, settled=2)
    assert place.call(Account("ann").pay(8)).failure is None
    assert [cut.refuses_rows for cut in read_log(place.log, 0).cuts.values() if isinstance(cut, Cut)][:3] == [
        False,
        False,
        True,
    ]
    monkeypatch.setattr(emitted, "KEPT_MAX", 1_000)  # In the replay nothing is settled, and nothing is full.
    (came,) = Place(place.log).fetch(0)
    assert len(came.rows) == 3
