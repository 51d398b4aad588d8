"""Objects on a server: reads and writes are effects that come back as events, and are tried again when it is lost.

An instance that has written waits until the server has confirmed it: only then does its batch count as run, so a
checkpoint never has a batch whose writes are not on the server. A batch that runs again after a failure writes again.
"""

from __future__ import annotations

from typing import Protocol

from stretto.actors.deadlines import NEVER_NS
from stretto.protocol.jobs import Failure
from stretto.sharing.cache import Cache
from stretto.sharing.state import SharedState
from stretto.worker.events import Ran, ReadServer, ServerAnswered, ServerFailed, ServerWritten, WriteServer
from stretto.worker.part import Handlers, Host
from stretto.worker.sharing.asking import Asked

AGAIN_NS, AGAIN_NS_MAX = 20_000_000, 1_000_000_000
"""A lost server is tried again after so long, and then after twice as long each time, up to the last."""


class ServersHost(Host, Protocol):
    """The machine, which counts a run when its writes are confirmed."""

    def ran(self, event: Ran) -> None: ...


class Reads(Protocol):
    """Whoever waits for what is read, and has the caches."""

    def cache_of(self, job: str, state: SharedState) -> Cache: ...

    def answered(self, asked: Asked) -> None: ...

    def arrived(self, asked: Asked, cache: Cache) -> None: ...

    def superseded(self, job: str, state: SharedState, name: str) -> None: ...

    def set_alarm(self) -> None: ...


class Order:
    """What a server is to do. It is given up at `patience_ends_ns`, which counts from its first failure."""

    __slots__ = ("again_ns", "asked", "event", "job", "left", "patience_ends_ns", "pause_ns", "state", "what")

    def __init__(self, job: str, state: SharedState, what: ReadServer | WriteServer) -> None:
        self.job = job
        self.state = state
        self.what = what
        self.asked: Asked | None = None
        self.event: Ran | None = None
        self.left: list[SharedState] = []
        self.again_ns = NEVER_NS
        self.pause_ns = AGAIN_NS
        self.patience_ends_ns: int | None = None


class Servers:
    """The orders to servers under way, by their numbers."""

    def __init__(self, host: ServersHost, reads: Reads) -> None:
        self._host = host
        self._reads = reads
        self._orders: dict[int, Order] = {}
        self._last = 0

    def events(self) -> Handlers:
        return {ServerAnswered: self._on_answered, ServerWritten: self._on_written, ServerFailed: self._on_failed}

    def read(self, asked: Asked, state: SharedState) -> None:
        """Ask a server for objects."""
        assert state.server is not None
        wanted = tuple((ref.kind, ref.name) for ref in asked.refs)
        self._last += 1
        order = Order(asked.job, state, ReadServer(asked.job, state.server, state.space, self._last, wanted))
        order.asked = asked
        self._begin(order)

    def write(self, event: Ran) -> bool:
        """Have servers make the writes of a run, which counts as run when all have."""
        seat = event.seat
        sharing, lookups = seat.instance.sharing, seat.lookups
        assert sharing is not None
        assert lookups is not None
        spaces = dict.fromkeys(space for space, _, _ in event.outcome.writes)
        lookups.writing = True
        seat.starved += 1
        first, *left = (sharing.spaces[space] for space in spaces)
        self._write(event, first, left)
        return True

    def _write(self, event: Ran, state: SharedState, left: list[SharedState]) -> None:
        assert state.server is not None
        job = event.seat.address.job
        writes = tuple((name, write) for space, name, write in event.outcome.writes if space == state.space)
        self._last += 1
        order = Order(job, state, WriteServer(job, state.server, state.space, self._last, writes))
        order.event, order.left = event, left
        self._begin(order)

    def _begin(self, order: Order) -> None:
        self._orders[order.what.number] = order
        self._host.effects.append(order.what)

    def _on_answered(self, event: ServerAnswered) -> None:
        order = self._orders.pop(event.number, None)
        if order is None or order.asked is None:
            return
        self._reads.answered(order.asked)
        cache = self._reads.cache_of(order.job, order.state)
        for ref, content in zip(order.asked.refs, event.contents, strict=True):
            cache.take_in(ref.name, content, 0, order.asked.asked_ns)
        self._reads.arrived(order.asked, cache)

    def _on_written(self, event: ServerWritten) -> None:
        order = self._orders.pop(event.number, None)
        if order is None or order.event is None or not isinstance(order.what, WriteServer):
            return
        cache = self._reads.cache_of(order.job, order.state)
        for place, (name, write) in enumerate(order.what.writes):
            cache.made(name, write, order.state.freshness, place in event.again)
            self._reads.superseded(order.job, order.state, name)
        if order.left:
            self._write(order.event, order.left[0], order.left[1:])
            return
        self._wrote(order.event)

    def _wrote(self, event: Ran) -> None:
        seat = event.seat
        assert seat.lookups is not None
        seat.lookups.writing = False
        seat.starved -= 1
        event.outcome.writes = ()
        self._host.ran(event)

    # A lost server.

    def _on_failed(self, event: ServerFailed) -> None:
        order = self._orders.get(event.number)
        if order is None:
            return
        now_ns = self._host.now_ns
        if order.patience_ends_ns is None:
            order.patience_ends_ns = now_ns + order.state.patience_ns
        if event.lasting or now_ns >= order.patience_ends_ns:
            self._give_up(order, event.reason)
            return
        order.again_ns = min(now_ns + order.pause_ns, order.patience_ends_ns)
        order.pause_ns = min(2 * order.pause_ns, AGAIN_NS_MAX)
        self._reads.set_alarm()

    def _give_up(self, order: Order, reason: str) -> None:
        what = "written to" if isinstance(order.what, WriteServer) else "read from"
        fact = f"shared objects of the space '{order.state.space}' cannot be {what} their server"
        fix = "Start the server, or check its address; `patience` says how long a lost one is waited for."
        self._host.fail(order.job, Failure("StorageError", fact, f"{order.state.server!r}: {reason}", fix))

    @property
    def next_ns(self) -> int:
        """When a server is to be tried again."""
        return min((order.again_ns for order in self._orders.values()), default=NEVER_NS)

    def wake(self) -> None:
        for order in self._orders.values():
            if order.again_ns <= self._host.now_ns:
                order.again_ns = NEVER_NS
                self._host.effects.append(order.what)

    def dropped(self, job: str) -> None:
        """A job is gone."""
        self._orders = {number: order for number, order in self._orders.items() if order.job != job}
