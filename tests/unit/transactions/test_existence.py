"""Entities that are created and deleted, and limits on their calls."""

from __future__ import annotations

from typing import Any

import pytest

from stretto import App, UserError
from stretto.errors import BusyError
from stretto.protocol.machines import FrameArrived
from stretto.protocol.transactions import Call, Origin, Proceed, Request, Resume
from stretto.runtime.entities.aborts import exception_of
from stretto.transactions import log
from stretto.transactions.attempt import Settings
from stretto.transactions.catalog import Catalog
from stretto.transactions.entity import Entity, reads
from stretto.transactions.events import AppendLog, OpenState, StateOpened, WorkerEffect
from stretto.transactions.idempotency import Keys
from stretto.transactions.in_flight import InFlight
from stretto.transactions.log import Logged
from stretto.transactions.machine import TransactionWorker
from stretto.transactions.placement import Placement

NEVER_NS = 1 << 62


class Room(Entity):
    guests: list[str] = []  # noqa: RUF012
    beds: int = 2

    async def open(self) -> bool:
        existed = self.exists
        self.create()
        return existed

    async def check_in(self, guest: str) -> bool:
        self.guests.append(guest)
        return self.exists

    async def check_out(self, guest: str) -> bool:
        self.guests.remove(guest)
        return self.exists

    async def close(self) -> list[Any]:
        self.delete()
        return [self.exists, self.guests, self.beds]

    async def renew(self, guest: str) -> bool:
        self.delete()
        self.guests.append(guest)
        return self.exists

    async def close_other(self, other: str, fail: bool) -> None:
        await Room(other).close()
        assert not await Room(other).is_open()
        if fail:
            raise ValueError("after all")

    @reads
    async def is_open(self) -> bool:
        return self.exists

    @reads
    async def cheat(self) -> None:
        self.delete()


class Api(Entity, in_flight_max=2):
    calls: int = 0

    async def ask(self, what: str = "") -> int:
        self.calls += 1
        return self.calls


def hotel() -> Any:
    return App("hotel", entities=[Room]).in_process()


def test_an_entity_exists_when_it_was_written_or_created() -> None:
    some = hotel()
    assert some.map([Room("1").is_open(), Room("1").open(), Room("1").is_open(), Room("1").open()]) == [
        False,
        False,
        True,
        True,
    ]
    assert some.map([Room("2").check_in("ann"), Room("2").is_open()]) == [True, True]
    assert some.map([Room("2").check_out("ann"), Room("2").is_open()]) == [True, True], "until it is deleted"


def test_a_deleted_entity_is_as_in_the_beginning() -> None:
    some = hotel()
    some.call(Room("1").check_in("ann"))
    assert some.call(Room("1").close()) == [False, [], 2]
    assert some.call(Room("1").is_open()) is False
    assert all(machine.state == {} for machine in some._machines)
    some.call(Room("1").check_in("bob"))
    assert some.call(Room("1").renew("cy")) is True
    assert some.call(Room("1").check_out("cy")) is True, "only cy was there"


def test_a_deletion_is_a_part_of_its_transaction() -> None:
    some = hotel()
    some.call(Room("1").open())
    with pytest.raises(ValueError, match="after all"):
        some.call(Room("2").close_other("1", fail=True))
    assert some.call(Room("1").is_open()) is True
    some.call(Room("2").close_other("1", fail=False))
    assert some.call(Room("1").is_open()) is False


def test_what_only_reads_deletes_nothing() -> None:
    with pytest.raises(UserError, match=r"Room\.cheat only reads: it has deleted itself"):
        hotel().call(Room("1").cheat())


@pytest.mark.parametrize("name", ["delete", "create", "exists", "now"])
def test_what_every_entity_has_cannot_be_defined(name: str) -> None:
    with pytest.raises(UserError, match=f"Wrong.{name} cannot be defined: every entity has it already"):
        type("Wrong", (Entity,), {name: 1})


# Limits.


CATALOG = Catalog([Api, Room])


def logged(made: Any, number: int, is_refused: bool = False) -> Logged:
    return Logged(Origin("c", number, -1), CATALOG.request(made), 0, None, is_refused)


def request(made: Any, key: str | None = None) -> Request:
    return CATALOG.request(made.under(key))


def test_so_many_calls_of_an_entity_are_under_way_and_no_more() -> None:
    some = InFlight(CATALOG)
    calls = [logged(Api("a").ask(), number) for number in range(2)]
    for call in calls:
        assert not some.is_full(call.request)
        some.begun(call)
    assert some.is_full(request(Api("a").ask()))
    assert not some.is_full(request(Api("b").ask()))
    assert not some.is_full(request(Room("a").open()))
    some.begun(logged(Api("a").ask(), 2, is_refused=True))
    some.ended(calls[0])
    assert not some.is_full(request(Api("a").ask()))
    some.ended(calls[1])
    assert not some._counts, "nothing is kept of an entity that nobody calls"


def test_who_is_refused_gets_an_error_of_its_own() -> None:
    error = exception_of(InFlight(CATALOG).failure(request(Api("a").ask())), set())
    assert isinstance(error, BusyError)
    assert str(error).startswith("Api/a is busy: 2 calls of it are under way, which is its limit")


def test_with_a_limit_a_key_belongs_to_one_entity_whose_worker_counts_its_calls() -> None:
    placement = Placement(3)
    for name in "abcdefgh":
        one = request(Api(name).ask(), "order-7")
        assert CATALOG.worker_of(one, placement) == placement.worker_of(one.entity)
    keys = Keys(CATALOG, 100)
    keys.logged(Logged(Origin("c", 1, -1), request(Api("a").ask("x"), "order-7"), 0))
    keys.written(Logged(Origin("c", 1, -1), request(Api("a").ask("x"), "order-7"), 0))
    assert keys.is_new(request(Api("b").ask("x"), "order-7"), 1)
    with pytest.raises(UserError, match="another call has the idempotency key 'order-7'"):
        keys.is_new(request(Api("a").ask("y"), "order-7"), 1)


@pytest.mark.parametrize("most", [0, -1, "two"])
def test_a_wrong_limit_is_refused_where_the_class_is_written(most: Any) -> None:
    with pytest.raises(UserError, match="in_flight_max of Wrong is wrong"):

        class Wrong(Entity, in_flight_max=most):
            pass


class Taking:
    """The machine of one worker, which logs calls and begins no epoch by itself."""

    def __init__(self) -> None:
        self._machine = TransactionWorker(1, CATALOG, Settings(epoch_ns=NEVER_NS, calls_max=100, snapshot_ns=NEVER_NS))
        for frame in (Resume(1, ["w"], []), Proceed(1, 0)):
            self.hear("coordinator", frame)

    def hear(self, sender: str, frame: Any) -> list[WorkerEffect]:
        effects = self._machine.handle(FrameArrived(sender, frame), 1)
        for effect in effects:
            if isinstance(effect, OpenState):
                self._machine.handle(StateOpened(effect.attempt, [], b"", 0), 1)
        return effects

    def entries(self, client: str, calls: int) -> list[bool]:
        """Returns for each of several calls of one entity that were logged whether they were refused."""
        found: list[bool] = []
        for number in range(calls):
            effects = self.hear("w1", Call(Origin(client, number, -1), request(Api("a").ask())))
            data = b"".join(effect.data for effect in effects if isinstance(effect, AppendLog))
            found += [call.is_refused for _, call in log.read(data, 0).calls]
        return found


def test_beyond_the_limit_a_client_is_refused_and_a_row_of_a_stream_waits() -> None:
    assert Taking().entries("driver/1", 3) == [False, False, True]
    assert Taking().entries("=calls/0@", 3) == [False, False]
