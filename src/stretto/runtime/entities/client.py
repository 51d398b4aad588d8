"""Calls of entities from users' threads: handed to the driver's own worker, which has the door, and waited for."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from stretto.errors import StrettoError, UserError
from stretto.protocol.transactions import Reply
from stretto.runtime.entities.aborts import exception_of
from stretto.transactions.activation import MadeCall
from stretto.transactions.catalog import Catalog
from stretto.worker.events import CallsMade, DoorMoved, DoorOpened, DoorShut, Event

T = TypeVar("T")

OPEN_MAX = 8_192
"""The most calls of a job that are open at once. Whoever calls more waits: a worker drops what is far too much."""
WAIT_STEP_S = 0.5
"""Waits are cut into steps of this length, so that Ctrl-C is noticed."""


class EntityClient:
    """The client of one job, whose door is in the loop of the driver's worker. `post` has that loop handle an event,
    which is made when its turn comes."""

    def __init__(
        self,
        job: str,
        member: str,
        catalog: Catalog,
        modules: set[str],
        post: Callable[[Callable[[], Event]], None],
    ) -> None:
        self._job = job
        self.catalog = catalog
        self._modules = modules
        self._post = post
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._open: set[Ticket] = set()
        self._made: list[tuple[MadeCall, Ticket]] = []
        """Calls that the loop has not taken yet."""
        self._ended: StrettoError | None = None
        """Why there will be no answers any more."""
        opened = DoorOpened(job, f"{member}/{secrets.token_hex(6)}", catalog)
        post(lambda: opened)

    # For users.

    def call(self, made: Awaitable[T], timeout_s: float | None, key: str | None = None) -> T:
        return cast(T, self._result(self._begin(made, wait=True, key=key), timeout_s))

    async def acall(self, made: Awaitable[T], key: str | None = None) -> T:
        reply = await self.areply(made, key)
        return cast(T, self._value(cast(MadeCall, made), reply))

    async def areply(self, made: Any, key: str | None = None) -> Reply:
        """Returns the reply to a call, also that of a transaction which was aborted."""
        ticket = self._begin(made, wait=False, key=key)
        while ticket is None:
            await asyncio.get_running_loop().run_in_executor(None, self._wait_for_room)
            ticket = self._begin(made, wait=False, key=key)
        return await asyncio.wrap_future(ticket.future)

    def map(
        self,
        calls: Iterable[Awaitable[T]],
        return_exceptions: bool,
        timeout_s: float | None,
        keys: Iterable[str] | None = None,
    ) -> list[Any]:
        tickets = [self._begin(made, wait=True, key=key) for made, key in with_keys(calls, keys)]
        found: list[Any] = []
        first: Exception | None = None
        for ticket in tickets:
            try:
                found.append(self._result(ticket, timeout_s))
            except TimeoutError:
                raise
            except Exception as error:
                found.append(error)
                first = first or error
        if first is not None and not return_exceptions:
            raise first
        return found

    def begin(self, made: Any, key: str | None = None) -> Future[Reply]:
        """Returns the reply to a call, which is there later. Waits while too many calls are under way."""
        future: Future[Reply] = self._begin(made, wait=True, key=key).future
        return future

    def _begin(self, made: Any, wait: bool, key: str | None = None) -> Any:
        """Returns the ticket of a call that is under way; None if there is no room for it and it must not wait."""
        if not isinstance(made, MadeCall):
            raise UserError(
                "this is not a call of an entity",
                repr(made)[:200],
                'Pass a call that was not awaited: job.call(Account("ann").deposit(10)).',
            )
        made = made.under(key)
        self.catalog.request(made)
        with self._room:
            while self._ended is None and len(self._open) >= OPEN_MAX:
                if not wait:
                    return None
                self._room.wait(WAIT_STEP_S)
            if self._ended is not None:
                raise self._ended
            ticket = Ticket(made)
            self._open.add(ticket)
            self._made.append((made, ticket))
            is_first = len(self._made) == 1
        if is_first:
            self._post(self._take)
        return ticket

    def _wait_for_room(self) -> None:
        with self._room:
            self._room.wait_for(lambda: self._ended is not None or len(self._open) < OPEN_MAX, WAIT_STEP_S)

    def _result(self, ticket: Ticket, timeout_s: float | None) -> Any:
        try:
            reply = ticket.future.result(timeout_s)
        except TimeoutError:
            raise TimeoutError(
                f"{ticket.made.kind}/{ticket.made.key}.{ticket.made.method} was not answered within {timeout_s:g} s; "
                "it may still take place"
            ) from None
        return self._value(ticket.made, reply)

    def _value(self, made: MadeCall, reply: Reply) -> Any:
        if reply.failure is not None:
            raise exception_of(reply.failure, self._modules)
        assert reply.value is not None
        if made.after_us:
            return None  # It is scheduled, and has not run.
        return self.catalog.kind(made.kind).method(made.method).decode_result(reply.value)

    # For the loop of the driver's worker, and the coordinator's thread.

    def _take(self) -> CallsMade:
        """Returns the calls that were made since the last time: those of many threads, or of a loop, at once."""
        with self._lock:
            made, self._made = self._made, []
        return CallsMade(self._job, cast(list[tuple[MadeCall, Any]], made))

    def answer(self, answers: list[tuple[Any, Reply]]) -> None:
        with self._room:
            self._open.difference_update(ticket for ticket, _ in answers)
            self._room.notify_all()
        for ticket, reply in answers:
            if ticket.future.set_running_or_notify_cancel():
                ticket.future.set_result(reply)

    def move(self, members: tuple[str, ...], again: bool) -> None:
        self._post(lambda: DoorMoved(self._job, members, again))

    def end(self, error: StrettoError) -> None:
        """The job has ended, and nothing will be answered any more."""
        with self._room:
            if self._ended is not None:
                return
            self._ended = error
            tickets, self._open, self._made = self._open, set(), []
            self._room.notify_all()
        for ticket in tickets:
            if ticket.future.set_running_or_notify_cancel():
                ticket.future.set_exception(error)
        self._post(lambda: DoorShut(self._job))


def with_keys(calls: Iterable[Awaitable[T]], keys: Iterable[str] | None) -> list[tuple[Awaitable[T], str | None]]:
    """Returns each call with its idempotency key."""
    made = list(calls)
    given: list[str] | list[None] = [None] * len(made) if keys is None else list(keys)
    if len(given) != len(made):
        raise UserError("each call needs an idempotency key", f"there are {len(made)} calls and {len(given)} keys")
    return list(zip(made, given, strict=True))


class Ticket:
    """A call that is open, and its reply in the future."""

    __slots__ = ("future", "made")

    def __init__(self, made: MadeCall) -> None:
        self.made = made
        self.future: Future[Reply] = Future()
