"""Writes the logs and snapshots of entities beside the loop of a worker; what is done comes back as events.

One thread writes the logs. While it waits for the disk, more is appended, and all of that is made durable at once: so a
call waits for two syncs at most, and there are as many syncs as the disk can do, however many calls there are. Another
thread writes snapshots, which may be large.
"""

from __future__ import annotations

import logging
import queue
import threading
from concurrent.futures import ThreadPoolExecutor

from stretto.errors import StrettoError
from stretto.protocol.jobs import Failure
from stretto.rendering import error_text, sendable
from stretto.runtime.entities.log_files import AppendableFiles
from stretto.runtime.event_pipe import EventPipe
from stretto.transactions.events import (
    AppendLog,
    DropPieces,
    LogWritten,
    OpenState,
    PieceStored,
    StateOpened,
    StorePiece,
)
from stretto.transactions.place_log import PlaceLog
from stretto.worker.events import EntitiesFaulted, EntitiesKept, Event, KeepEntities, ReleaseEntities

log = logging.getLogger("stretto.worker")

_Order = KeepEntities | ReleaseEntities
Name = tuple[str, int]
"""Of a place: its job and its number."""


class EntityKeeping:
    """`fd` is readable when there are `events`. Threads are started with the first entities here."""

    def __init__(self) -> None:
        self._pipe: EventPipe[Event] = EventPipe()
        self.fd = self._pipe.fd
        self.events = self._pipe.events
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pieces: ThreadPoolExecutor | None = None
        self._places: dict[Name, PlaceLog] = {}
        """The log thread's own."""

    def begin(self, order: _Order) -> None:
        """Starts what a machine wants done; its outcome will be in `events`."""
        if isinstance(order, KeepEntities) and order.directory is None:
            self._forget(order)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_logs, name="stretto-entity-logs", daemon=True)
            self._pieces = ThreadPoolExecutor(1, thread_name_prefix="stretto-entity-pieces")
            self._thread.start()
        if isinstance(order, KeepEntities) and isinstance(order.what, StorePiece | DropPieces):
            assert self._pieces is not None
            self._pieces.submit(self._write_piece, order)
        else:
            self._orders.put(order)

    def close(self) -> None:
        """Ends the threads. What is not durable yet was not acknowledged."""
        if self._thread is not None and self._pieces is not None:
            self._orders.put(None)
            self._thread.join()
            self._pieces.shutdown(wait=True, cancel_futures=True)
        self._pipe.close()

    def _forget(self, order: KeepEntities) -> None:
        """Without a directory nothing is kept, so whatever is to be durable is as durable as it gets."""
        match order.what:
            case OpenState(attempt=attempt):
                self._done(order, StateOpened(attempt, [], b"", 0))
            case AppendLog(attempt=attempt, end=end):
                self._done(order, LogWritten(attempt, end))
            case StorePiece(piece=piece):
                self._done(order, PieceStored(piece))

    def _done(self, order: KeepEntities, event: StateOpened | LogWritten | PieceStored) -> None:
        self._pipe.put(EntitiesKept(order.job, order.number, event))

    # The thread of the logs.

    def _write_logs(self) -> None:
        closing = False
        while not closing:
            orders = [self._orders.get()]
            while not self._orders.empty():
                orders.append(self._orders.get())
            closing = None in orders
            self._carry_out([order for order in orders if order is not None])
        for place in self._places.values():
            place.close()

    def _carry_out(self, orders: list[_Order]) -> None:
        """Does all of it in order; what was appended to a log is synced once."""
        appended: dict[Name, tuple[KeepEntities, AppendLog]] = {}
        for order in orders:
            try:
                if isinstance(order, ReleaseEntities):
                    self._release((order.job, order.place))
                elif isinstance(order.what, AppendLog):
                    what = order.what
                    self._place(order).append(what.attempt, what.data, what.end)
                    appended[order.job, order.number] = order, what
                else:
                    self._sync(appended)
                    self._change(order, self._place(order))
            except Exception as error:
                self._pipe.put(EntitiesFaulted(order.job, _failure_of(error), _place_of(order)))
        self._sync(appended)

    def _change(self, order: KeepEntities, place: PlaceLog) -> None:
        event = place.carry_out(order.what)
        if event is not None:
            self._done(order, event)

    def _sync(self, appended: dict[Name, tuple[KeepEntities, AppendLog]]) -> None:
        for name, (order, what) in appended.items():
            try:
                self._places[name].sync()
            except Exception as error:
                self._pipe.put(EntitiesFaulted(order.job, _failure_of(error), _place_of(order)))
            else:
                self._done(order, LogWritten(what.attempt, what.end))
        appended.clear()

    def _place(self, order: KeepEntities) -> PlaceLog:
        name = order.job, order.number
        place = self._places.get(name)
        if place is None:
            assert order.directory is not None
            place = self._places[name] = PlaceLog(AppendableFiles(order.directory), order.number)
        return place

    def _release(self, name: Name) -> None:
        place = self._places.pop(name, None)
        if place is not None:
            place.close()

    # The thread of the snapshots.

    def _write_piece(self, order: KeepEntities) -> None:
        assert order.directory is not None
        try:
            self._change(order, PlaceLog(AppendableFiles(order.directory), order.number))
        except Exception as error:
            # The log has it all, and the next snapshot tries again.
            log.warning("a snapshot of the entities of %s: %s", order.job, error_text(error))


def _place_of(order: _Order) -> int:
    return order.number if isinstance(order, KeepEntities) else order.place


def _failure_of(error: Exception) -> Failure:
    if isinstance(error, StrettoError):
        return Failure(type(error).__name__, error.fact, error.detail, error.fix)
    return Failure("StorageError", "the log of entities cannot be written", sendable(error_text(error)))
