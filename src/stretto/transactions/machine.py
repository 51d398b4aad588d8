"""The machine of one worker: calls into the log, epochs one after another, replies, snapshots, replay.

An attempt begins with `Resume`: the worker loads the last complete snapshot and its log. Epochs whose cut is in every
log (`Proceed.decided`) are replayed as they were; those that follow are cut by time and by what has come. Nothing of
an earlier attempt is heard any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from stretto.errors import DamagedError, ProtocolError, UserError
from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.transactions import (
    Call,
    Conflicts,
    EntityName,
    Failure,
    Look,
    Piece,
    Proceed,
    Reply,
    Resume,
    Resumed,
    Round,
    SnapshotKept,
    SnapshotTaken,
    Wave,
)
from stretto.transactions import log, snapshots
from stretto.transactions.activation import OutOfTime, nothing_runs
from stretto.transactions.catalog import Catalog
from stretto.transactions.epoch import Epoch, EpochParts, Phase, Sequenced, Setting, Settled
from stretto.transactions.events import (
    AppendLog,
    CutLog,
    DropPieces,
    LogWritten,
    OpenState,
    PieceStored,
    StateOpened,
    StorePiece,
    TrimLog,
    WorkerEffect,
    WorkerEvent,
)
from stretto.transactions.execution import out_of_time
from stretto.transactions.ingress import Ingress
from stretto.transactions.invocation import failure_of
from stretto.transactions.log import Cut, Logged, Stopped
from stretto.transactions.looking import looked
from stretto.transactions.placement import Placement
from stretto.transactions.sequencing import Sequencer
from stretto.transactions.sessions import Sessions, Standing
from stretto.transactions.snapshots import PIECES_MAX, Again

COORDINATOR = "coordinator"
ENDED_MAX = 100
LOOKS_MAX = 10_000
"""The most looks that wait for an epoch. A client sends what is dropped again."""


@dataclass(frozen=True)
class Settings:
    """When epochs and snapshots are taken."""

    epoch_ns: int = 1_000_000
    """The least time between the beginnings of two epochs, unless the first was full."""
    calls_max: int = 100
    """The most calls that a worker takes into an epoch."""
    snapshot_ns: int = 4_000_000_000
    reordering: bool = True
    fallback: bool = True


@dataclass(frozen=True)
class WorkerParts:
    """The classes that a worker is made of. The simulator plants a bug by replacing one."""

    epoch: type[Epoch] = Epoch
    ingress: type[Ingress] = Ingress
    sessions: type[Sessions] = Sessions
    sequencer: type[Sequencer] = Sequencer
    read_log: Callable[[bytes, int], log.Content] = log.read
    in_epoch: EpochParts = field(default_factory=EpochParts)


class Stage(Enum):
    """How far the worker is in an attempt."""

    IDLE = "idle"
    OPENING = "opening"
    OPENED = "opened"
    RUNNING = "running"


@dataclass
class Attempt:
    """What a worker has in one attempt."""

    number: int
    members: list[str]
    placement: Placement
    pieces: list[Piece]
    ingress: Ingress
    sequencer: Sequencer
    state: dict[EntityName, bytes]
    finished: int
    """The last epoch that is over."""
    again: list[Sequenced]
    decided: int = 0
    changed: set[EntityName] = field(default_factory=set)
    early: dict[int, list[tuple[int, int, Wave | Conflicts]]] = field(default_factory=dict)
    """Rounds of epochs that have not begun here."""
    looks: list[Look] = field(default_factory=list)
    ended: dict[tuple[str, int], Failure] = field(default_factory=dict)
    """The last looks that ran out of time, by client and number."""
    epoch: Epoch | None = None
    cut_end: int = 0
    """Where the log ends after the cut of the running epoch."""
    unstored: set[Piece] = field(default_factory=set)
    taken: dict[int, tuple[list[Piece], int]] = field(default_factory=dict)
    """Snapshots that are not complete yet: their pieces, and where the log after them begins."""


class TransactionWorker:
    """The worker with this number, from 1."""

    def __init__(self, worker: int, catalog: Catalog, settings: Settings, parts: WorkerParts | None = None) -> None:
        self._worker = worker
        self._parts = parts or WorkerParts()
        self._catalog = catalog
        self._settings = settings
        self._stage = Stage.IDLE
        self._attempt = 0
        self._resume: Resume | None = None
        self._own: Attempt | None = None
        self._effects: list[WorkerEffect] = []
        self._now_ns = 0
        self._began_ns = 0
        self._snapshot_ns: int | None = None
        self._frames: dict[type, Callable[[str, Any], None]] = {
            Call: self._on_call,
            Look: self._on_look,
            Round: self._on_round,
            Resume: self._on_resume,
            Proceed: self._on_proceed,
            SnapshotKept: self._on_snapshot_kept,
        }

    # The machine.

    def handle(self, event: WorkerEvent, now_ns: int) -> list[WorkerEffect]:
        self._now_ns = now_ns
        match event:
            case FrameArrived(sender, frame):
                handler = self._frames.get(type(frame))
                if handler is None:
                    raise ProtocolError("a worker of transactions cannot handle a frame", type(frame).__name__)
                handler(sender, frame)
            case Ticked():
                self._begin_epochs()
            case StateOpened():
                self._on_opened(event)
            case LogWritten():
                self._on_written(event)
            case PieceStored(piece):
                self._on_stored(piece)
        effects, self._effects = self._effects, []
        return effects

    def next_deadline(self) -> int | None:
        """Returns when the next epoch is due, if there are calls for it."""
        own = self._own
        if self._stage is not Stage.RUNNING or own is None or own.epoch is not None:
            return None
        return self._began_ns + self._settings.epoch_ns if own.ingress.ready() or own.again else None

    @property
    def state(self) -> dict[EntityName, bytes]:
        """The fields of all entities here that are not as in the beginning."""
        return self._own.state if self._own is not None else {}

    @property
    def finished(self) -> int:
        """The last epoch that is over; less than 0 while an attempt begins."""
        own = self._running()
        return -1 if own is None else own.finished

    def replays(self) -> bool:
        """Returns whether an epoch runs again of which clients may have replies: whatever ran then must run now."""
        own = self._own
        return own is not None and own.finished < own.decided

    def stop(self, seed: str) -> list[WorkerEffect]:
        """A handler of the transaction with this seed ran out of time, in the midst of an epoch. Another attempt must
        begin; the log says that the transaction is aborted in it."""
        own = self._own
        assert own is not None
        in_fallback = own.epoch is not None and own.epoch.phase is Phase.FALLBACK
        # What was to be appended counts already; what was to be sent will be sent again, or is not true any more.
        self._effects = [effect for effect in self._effects if isinstance(effect, AppendLog)]
        self._append(own, Stopped(seed, in_fallback))
        self._stage, self._own = Stage.IDLE, None  # The epoch was left in the midst of a step.
        effects, self._effects = self._effects, []
        return effects

    def _do(self, effect: WorkerEffect) -> None:
        self._effects.append(effect)

    # Attempts.

    def _on_resume(self, sender: str, frame: Resume) -> None:
        if frame.attempt > self._attempt:
            self._attempt, self._resume, self._own = frame.attempt, frame, None
            self._stage = Stage.OPENING
            self._do(OpenState(frame.attempt, frame.pieces))

    def _on_opened(self, event: StateOpened) -> None:
        frame = self._resume
        if frame is None or event.attempt != self._attempt or self._stage is not Stage.OPENING:
            return
        last, state = snapshots.restored(event.pieces)
        if not event.position <= last.position <= event.position + len(event.log):
            held = f"it is from {event.position} to {event.position + len(event.log)}"
            raise DamagedError("a part of the ingress log is missing", f"{last.position} is needed, and {held}")
        content = self._parts.read_log(event.log[last.position - event.position :], last.position)
        if content.end < event.position + len(event.log):
            self._do(CutLog(content.end))
        sessions = self._parts.sessions(last.sessions)
        again = [Sequenced(each.tid, each.number, each.call) for each in last.again]
        for each in again:
            sessions.logged(each.call.origin)
        workers = len(frame.members)
        self._own = Attempt(
            frame.attempt,
            frame.members,
            Placement(workers),
            list(frame.pieces),
            self._parts.ingress(sessions, content, last.taken),
            self._parts.sequencer(self._worker, workers, last.counter),
            state,
            last.epoch,
            again,
        )
        self._stage = Stage.OPENED
        self._do(Send(COORDINATOR, Resumed(frame.attempt, max([last.epoch, *content.cuts]))))

    def _on_proceed(self, sender: str, frame: Proceed) -> None:
        own = self._own
        if own is None or frame.attempt != self._attempt or self._stage is not Stage.OPENED:
            return
        own.decided = frame.decided
        self._stage = Stage.RUNNING
        self._began_ns = self._now_ns - self._settings.epoch_ns
        self._begin_epochs()

    # Calls.

    def _on_call(self, sender: str, frame: Call) -> None:
        own = self._running()
        if own is None:
            return  # The client sends it again.
        sessions = own.ingress.sessions
        sessions.settle(frame.origin)
        match sessions.standing(frame.origin):
            case Standing.REPLIED:
                self._do(Send(frame.origin.client, sessions.reply(frame.origin)))
            case Standing.NEW if not own.ingress.is_full:
                failure = self._refused(own, frame.request)
                if failure is not None:
                    self._do(Send(frame.origin.client, _reply(frame, failure, own.finished)))
                    return
                self._append(own, Logged(frame.origin, frame.request, self._now_ns // 1_000))

    def _refused(self, own: Attempt, request: Any) -> Failure | None:
        """Returns why a call that has come from outside cannot run."""
        try:
            self._catalog.checked(request)
        except UserError as error:
            return failure_of(error, request.entity)
        home = own.placement.worker_of(request.entity)
        if home != self._worker:
            text = f"{request.entity} is at worker {home}, not at {self._worker}"
            return Failure("ProtocolError", f"a call was sent to the wrong worker: {text}", str(request.entity))
        return None

    def _append(self, own: Attempt, entry: log.Entry) -> None:
        self._do(AppendLog(own.number, own.ingress.append(entry), own.ingress.end))

    def _on_written(self, event: LogWritten) -> None:
        own = self._own
        if own is None or event.attempt != own.number:
            return
        own.ingress.written(event.end)
        if own.epoch is not None and own.ingress.durable >= own.cut_end:
            own.epoch.cut_is_durable()
        self._begin_epochs()

    def _running(self) -> Attempt | None:
        return self._own if self._stage is Stage.RUNNING else None

    # Epochs.

    def _on_round(self, sender: str, frame: Round) -> None:
        own = self._own
        if own is None or frame.attempt != own.number:
            self._do(Refuse("a round of another attempt"))
            return
        if sender not in own.members:
            self._do(Refuse(f"a round of {sender}, which is not in the attempt"))
            return
        worker = own.members.index(sender) + 1
        if own.epoch is not None and frame.epoch == own.epoch.number:
            own.epoch.arrived(worker, frame.number, frame.body)
        elif frame.epoch > own.finished:
            own.early.setdefault(frame.epoch, []).append((worker, frame.number, frame.body))
        self._begin_epochs()

    def _begin_epochs(self) -> None:
        """End the epoch that is over, begin the next one if it is due, and so on."""
        own = self._running()
        while own is not None:
            if own.epoch is not None:
                if own.epoch.phase is not Phase.DONE:
                    return
                self._end_epoch(own, own.epoch)
            if not self._is_due(own):
                return
            self._begin_epoch(own)

    def _is_due(self, own: Attempt) -> bool:
        number = own.finished + 1
        if number in own.ingress.cuts or number in own.early:
            return True
        ready = own.ingress.ready()
        waited = self._now_ns >= self._began_ns + self._settings.epoch_ns
        return ready >= self._settings.calls_max or (waited and bool(ready or own.again))

    def _begin_epoch(self, own: Attempt) -> None:
        number = own.finished + 1
        known = own.ingress.cuts.pop(number, None)
        if known is None:
            taken = own.ingress.take(min(own.ingress.ready(), self._settings.calls_max))
            self._append(own, Cut(number, own.ingress.taken))
            own.cut_end = own.ingress.end
        else:
            taken = own.ingress.take(known - own.ingress.taken)
            own.cut_end = 0
        self._began_ns = self._now_ns
        fresh = [Sequenced(own.sequencer.assign(), each.number, each.call) for each in taken]
        transactions, own.again = own.again + fresh, []
        wants_snapshot = known is None and self._is_snapshot_due()
        own.epoch = self._parts.epoch(self._setting(own), number, transactions, own.sequencer.counter, wants_snapshot)
        own.epoch.start()
        if own.ingress.durable >= own.cut_end:
            own.epoch.cut_is_durable()
        for sender, round_number, body in own.early.pop(number, ()):
            own.epoch.arrived(sender, round_number, body)

    def _setting(self, own: Attempt) -> Setting:
        return Setting(
            self._worker,
            own.placement,
            self._catalog,
            own.state,
            own.changed,
            lambda worker, number, body: self._send_round(own, worker, number, body),
            lambda settled: self._settle(own, settled),
            self._settings.reordering,
            self._settings.fallback,
            self._parts.in_epoch,
            own.ingress.stopped,
        )

    def _send_round(self, own: Attempt, worker: int, number: int, body: Wave | Conflicts) -> None:
        self._do(Send(own.members[worker - 1], Round(own.number, own.finished + 1, number, body)))

    def _settle(self, own: Attempt, settled: Settled) -> None:
        transaction = settled.transaction
        if settled.place is None:
            own.again.append(transaction)
            return
        origin = transaction.call.origin
        reply = Reply(origin.client, origin.number, settled.value, settled.failure, settled.place, settled.place.epoch)
        own.ingress.sessions.replied(reply)
        self._do(Send(origin.client, reply))

    def _end_epoch(self, own: Attempt, epoch: Epoch) -> None:
        own.finished = epoch.number
        own.epoch = None
        own.sequencer.level(epoch.counters)
        if epoch.snapshot:
            self._take_snapshot(own)
        looks, own.looks = own.looks, []
        for look in looks:
            self._look(own, look)

    # Looks.

    def _on_look(self, sender: str, frame: Look) -> None:
        own = self._running()
        if own is not None:
            self._look(own, frame)

    def _look(self, own: Attempt, frame: Look) -> None:
        if own.finished < max(frame.since, own.decided):
            if len(own.looks) < LOOKS_MAX:
                own.looks.append(frame)
            return
        # In the fallback, what it has committed is seen already.
        is_ahead = own.epoch is not None and own.epoch.phase is Phase.FALLBACK
        epoch = own.finished + is_ahead
        name = frame.origin.client, frame.origin.number
        failure = own.ended.get(name) or self._refused(own, frame.request)
        if failure is None:
            try:
                reply = looked(self._catalog, own.state, frame, epoch, self._now_ns // 1_000)
                self._do(Send(frame.origin.client, reply))
                return
            except OutOfTime:
                nothing_runs()
                failure = failure_of(out_of_time(frame.request), frame.request.entity)
                # The client has sent it again meanwhile, several times perhaps.
                own.ended = {name: failure, **dict(list(own.ended.items())[: ENDED_MAX - 1])}
        self._do(Send(frame.origin.client, _reply(frame, failure, epoch)))

    # Snapshots.

    def _is_snapshot_due(self) -> bool:
        """The first worker says when; the others follow in the same epoch."""
        if self._worker != 1:
            return False
        if self._snapshot_ns is None or self._now_ns >= self._snapshot_ns + self._settings.snapshot_ns:
            self._snapshot_ns = self._now_ns
            return True
        return False

    def _take_snapshot(self, own: Attempt) -> None:
        piece = Piece(own.number, own.finished)
        is_whole = len(own.pieces) >= PIECES_MAX
        names = sorted(own.state if is_whole else own.changed)
        own.pieces = [piece] if is_whole else [*own.pieces, piece]
        own.changed.clear()
        position = own.ingress.position()
        content = snapshots.Content(
            own.finished,
            position,
            own.ingress.taken,
            own.sequencer.counter,
            [Again(each.tid, each.number, each.call) for each in own.again],
            own.ingress.sessions.kept(),
            [(name, own.state[name]) for name in names],
        )
        own.unstored.add(piece)
        own.taken[own.finished] = own.pieces, position
        self._do(StorePiece(piece, snapshots.encoded(content)))

    def _on_stored(self, piece: Piece) -> None:
        own = self._own
        if own is None or piece not in own.unstored:
            return
        own.unstored.discard(piece)
        for epoch, (pieces, _) in sorted(own.taken.items()):
            if piece in pieces and own.unstored.isdisjoint(pieces):
                self._do(Send(COORDINATOR, SnapshotTaken(own.number, epoch, pieces)))

    def _on_snapshot_kept(self, sender: str, frame: SnapshotKept) -> None:
        own = self._own
        if own is None or frame.attempt != own.number or frame.epoch not in own.taken:
            return
        pieces, position = own.taken[frame.epoch]
        own.taken = {epoch: each for epoch, each in own.taken.items() if epoch > frame.epoch}
        self._do(TrimLog(position))
        self._do(DropPieces(pieces[0]))


def _reply(frame: Call | Look, failure: Failure, epoch: int) -> Reply:
    return Reply(frame.origin.client, frame.origin.number, None, failure, None, epoch)
