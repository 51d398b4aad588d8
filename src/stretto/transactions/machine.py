"""The machine of one worker: calls into the log, epochs one after another, replies, snapshots, replay.

An attempt begins with `Resume`: the worker loads the last complete snapshot and its log. Epochs whose cut is in every
log (`Proceed.decided`) are replayed as they were; those that follow are cut by time and by what has come. Nothing of
an earlier attempt is heard any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from stretto.actors.deadlines import NEVER_NS
from stretto.errors import DamagedError, ProtocolError, UserError
from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.transactions import (
    Call,
    Conflicts,
    Copied,
    Copy,
    CopyOut,
    CopyTaken,
    Emitted,
    EntityName,
    Failure,
    Fetch,
    Look,
    Moved,
    Origin,
    Piece,
    Proceed,
    Reply,
    Resume,
    Resumed,
    Round,
    Row,
    Settle,
    SnapshotKept,
    SnapshotTaken,
    Stay,
    Switch,
    TakenOver,
    Takeover,
    TransactionTotals,
    Wave,
)
from stretto.transactions import log, snapshots
from stretto.transactions.activation import OutOfTime, activate
from stretto.transactions.attempt import Attempt, Settings, Stage, WorkerParts
from stretto.transactions.catalog import Catalog
from stretto.transactions.counting import Counts
from stretto.transactions.emitted import missing_rows
from stretto.transactions.epoch import Epoch, Phase, Sequenced, Setting, Settled
from stretto.transactions.events import (
    AdoptLog,
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
from stretto.transactions.invocation import failure_of
from stretto.transactions.log import Cut, Logged, Stopped
from stretto.transactions.looking import looked
from stretto.transactions.moving import Arrival, Departure, note_recent, recent_rounds
from stretto.transactions.outbox import is_of_stream
from stretto.transactions.placement import Placement
from stretto.transactions.sessions import Kept, Standing
from stretto.transactions.snapshots import PIECES_MAX, Again

COORDINATOR = "coordinator"
OTHER_PROCESS = "other process"
"""The one that this place moves to, or comes from."""
ENDED_MAX = 100
NOBODY = Origin("", 0, -1)
"""Whose calls delayed ones are."""
LOOKS_MAX = 10_000
"""The most looks that wait for an epoch. A client sends what is dropped again."""


class TransactionWorker:
    """The worker with this number, from 1."""

    departure: type[Departure] = Departure
    arrival: type[Arrival] = Arrival
    """The two sides of a move. The simulator plants a bug by replacing one."""

    def __init__(self, worker: int, catalog: Catalog, settings: Settings, parts: WorkerParts | None = None) -> None:
        self._worker = worker
        self._parts = parts or WorkerParts()
        self._catalog = catalog
        self._settings = settings
        self._stage = Stage.IDLE
        self._attempt = 0
        self._resume: Resume | None = None
        self._own: Attempt | None = None
        self._departure: Departure | None = None
        self._given_away: Attempt | None = None
        """What was here before the place moved: to free a million entities takes longer than to hand them over."""
        self._arrival: Arrival | None = None
        self._effects: list[WorkerEffect] = []
        self._now_ns = 0
        self._began_ns = 0
        self._snapshot_ns: int | None = None
        self.counts = Counts()
        self._frames: dict[type, Callable[[str, Any], None]] = {
            Call: self._on_call,
            Look: self._on_look,
            Settle: self._on_settle,
            Fetch: self._on_fetch,
            Round: self._on_round,
            Resume: self._on_resume,
            Proceed: self._on_proceed,
            SnapshotKept: self._on_snapshot_kept,
            CopyOut: self._on_copy_out,
            CopyTaken: self._on_copy_taken,
            Switch: self._on_switch,
            Stay: self._on_stay,
            Copy: self._on_copy,
            Takeover: self._on_takeover,
            Moved: self._on_moved,
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
        """Returns when the next epoch is due, if there are calls for it; else the next delayed call, or when the next
        entity expires."""
        own = self._own
        if self._stage is not Stage.RUNNING or own is None or own.epoch is not None:
            return None
        if self._departure is not None and self._departure.holds:
            return None  # What is waited for is the log.
        if own.ingress.ready() or own.again:
            return self._began_ns + self._settings.epoch_ns
        due_us = own.ingress.delayed.next_due_us()
        delayed_ns = NEVER_NS if due_us is None or own.ingress.is_full else due_us * 1_000
        due_ns = min(delayed_ns, self._sweep_due_ns(own))
        return None if due_ns == NEVER_NS else due_ns

    @property
    def is_idle(self) -> bool:
        """Whether nothing happens here unless somebody calls: no delayed call waits, no entity expires."""
        own = self._running()
        busy = own is None or own.epoch or own.again or own.ingress.is_busy
        return own is not None and not busy and own.ages.next_us() is None

    @property
    def is_calm(self) -> bool:
        """Whether no transaction is under way that has begun here. Epochs may run, for the time alone."""
        own = self._running()
        runs = own is None or own.again or own.ingress.is_busy or (own.epoch is not None and own.epoch.transactions)
        return not runs

    @property
    def state(self) -> dict[EntityName, bytes]:
        """The fields of all entities here that are not as in the beginning."""
        return self._own.state if self._own is not None else {}

    def kept(self) -> list[Kept]:
        """Returns what is kept of each client, for the checks."""
        return [] if self._own is None else self._own.ingress.sessions.kept()

    def emitted(self, stream: str, since: int = 0) -> list[Row]:
        """Returns the rows of a stream that are kept, from a number on, for the checks."""
        return [] if self._own is None else self._own.emitted.kept_of(stream, since)

    @property
    def finished(self) -> int:
        """The last epoch that is over; less than 0 while an attempt begins."""
        own = self._running()
        return -1 if own is None else own.finished

    def totals(self) -> TransactionTotals:
        """Returns what was counted here, and what is here now."""
        own = self._own
        if own is None:
            return self.counts.totals(0, 0, 0)
        return self.counts.totals(len(own.state), own.ingress.count, len(own.ingress.delayed))

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
        self._effects = [effect for effect in self._effects if isinstance(effect, AppendLog | AdoptLog)]
        self._append(own, Stopped(seed, in_fallback, own.finished + 1))
        self._stage, self._own, self._departure = Stage.IDLE, None, None  # It was left in the midst of a step.
        effects, self._effects = self._effects, []
        return effects

    def _do(self, effect: WorkerEffect) -> None:
        self._effects.append(effect)

    # Attempts.

    def _on_resume(self, sender: str, frame: Resume) -> None:
        if frame.attempt > self._attempt:
            self._attempt, self._resume, self._own = frame.attempt, frame, None
            self._departure = self._arrival = self._given_away = None
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
        ages = self._parts.ages(self._catalog, state, dict(last.written), last.at_us)
        delayed = self._parts.delayed([each for _, each in last.delayed if each is not None])
        keys = self._parts.keys(self._catalog, self._settings.keys_kept_us, last.keys)
        again = [Sequenced(each.tid, each.number, each.call) for each in last.again]
        in_flight = self._parts.in_flight(self._catalog)
        for each in again:
            if each.call.delayed is None:
                sessions.logged(each.call.origin)
                in_flight.begun(each.call)
        workers = len(frame.members)
        self._own = Attempt(
            frame.attempt,
            frame.members,
            Placement(workers),
            list(frame.pieces),
            self._parts.ingress(sessions, keys, delayed, in_flight, content, last.taken),
            self._parts.sequencer(self._worker, workers, last.counter),
            state,
            last.epoch,
            again,
            ages,
            self._parts.emitted(last.streams, last.rows),
            last.at_us,
        )
        self._own.reached_us = last.at_us
        self._own.changed.update(ages.unknown)
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
        if own is None or self._is_held(frame):
            return  # The client sends it again.
        sessions = own.ingress.sessions
        sessions.settle(frame.origin)
        match sessions.standing(frame.origin):
            case Standing.REPLIED:
                self._do(Send(frame.origin.client, sessions.reply(frame.origin)))
            case Standing.NEW if frame.request.key is not None or not own.ingress.is_full:
                self._take_in(own, frame)

    def _take_in(self, own: Attempt, frame: Call) -> None:
        """A call has come that the log does not have."""
        now_us, client = self._now_ns // 1_000, frame.origin.client
        failure = self._refused(own, frame.request)
        if failure is not None:
            self._do(Send(client, _reply(frame, failure, own.finished)))
            return
        ingress = own.ingress
        try:
            is_new = frame.request.key is None or ingress.keys.is_new(frame.request, now_us)
        except UserError as error:
            refusal = failure_of(error, frame.request.entity)
            self._do(Send(client, _reply(frame, refusal, own.finished)))
            return
        if not is_new:
            reply = ingress.keys.reply(frame.origin, frame.request)
            if reply is not None:
                self._do(Send(client, reply))
            return
        is_refused = ingress.in_flight.is_full(frame.request)
        if is_refused and self.replays():
            return  # What is under way here may have its reply. The client sends the call again.
        if is_refused and is_of_stream(client):
            return  # A row waits for its turn: nobody would call again for it later. It is sent again.
        if not ingress.is_full:
            self._append(own, Logged(frame.origin, frame.request, now_us, None, is_refused))

    def _on_settle(self, sender: str, frame: Settle) -> None:
        own = self._running()
        if own is not None and not self._is_held(frame):
            own.ingress.sessions.settle(Origin(frame.client, frame.number, frame.number))

    def _refused(self, own: Attempt, request: Any) -> Failure | None:
        """Returns why a call that has come from outside cannot run."""
        try:
            self._catalog.checked(request)
        except UserError as error:
            return failure_of(error, request.entity)
        home = self._catalog.worker_of(request, own.placement)
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
            if self._is_leaving(own):
                return
            self._make_delayed(own)
            if not self._is_due(own):
                return
            self._begin_epoch(own)

    def _make_delayed(self, own: Attempt) -> None:
        """Log the delayed calls that are due. In a replay, those that were made then are in the log already."""
        if self.replays():
            return
        now_us = self._now_ns // 1_000
        delayed = own.ingress.delayed
        while not own.ingress.is_full and (due := delayed.next_due(now_us)) is not None:
            self._append(own, Logged(NOBODY, due.request, now_us, due.name))

    def _is_due(self, own: Attempt) -> bool:
        number = own.finished + 1
        if number in own.ingress.cuts or number in own.early:
            return True
        ready = own.ingress.ready()
        waited = self._now_ns >= self._began_ns + self._settings.epoch_ns
        if self._now_ns >= self._sweep_due_ns(own):
            return True
        return ready >= self._settings.calls_max or (waited and bool(ready or own.again))

    def _sweep_due_ns(self, own: Attempt) -> int:
        """Returns when an epoch begins because entities expire, or because a stream waits for the time."""
        wanted = [own.ages.next_us(), *(fetch.at_us for _, fetch in own.fetches.values())]
        due_us = min((each for each in wanted if each is not None), default=None)
        return NEVER_NS if due_us is None else max(due_us * 1_000, self._began_ns + self._settings.sweep_ns)

    def _expire(self, own: Attempt) -> None:
        """Remove the entities that nobody has written for too long."""
        for name in own.ages.expired(own.at_us):
            own.state.pop(name, None)
            own.changed.add(name)

    def _begin_epoch(self, own: Attempt) -> None:
        number = own.finished + 1
        known = own.ingress.cuts.pop(number, None)
        if known is None:
            taken = own.ingress.take(min(own.ingress.ready(), self._settings.calls_max))
            own.at_us = max(own.at_us, self._now_ns // 1_000)
            refuses_rows = own.emitted.is_full
            self._append(own, Cut(number, own.ingress.taken, own.at_us, refuses_rows))
            own.cut_end = own.ingress.end
        else:
            taken = own.ingress.take(known.taken - own.ingress.taken)
            own.at_us = max(own.at_us, known.at_us)
            refuses_rows = known.refuses_rows
            own.cut_end = 0
        self._began_ns = self._now_ns
        self._expire(own)
        for each in taken:
            if each.call.is_refused:
                self._refuse(own, each.call)
        fresh = [
            Sequenced(own.sequencer.assign(), each.number, each.call) for each in taken if not each.call.is_refused
        ]
        transactions, own.again = own.again + fresh, []
        wants_snapshot = known is None and self._is_snapshot_due()
        setting = self._setting(own, refuses_rows)
        own.epoch = self._parts.epoch(setting, number, transactions, own.sequencer.counter, wants_snapshot)
        own.epoch.start()
        if own.ingress.durable >= own.cut_end:
            own.epoch.cut_is_durable()
        for sender, round_number, body in own.early.pop(number, ()):
            own.epoch.arrived(sender, round_number, body)

    def _refuse(self, own: Attempt, call: Logged) -> None:
        """Tell a client that too many calls are under way."""
        failure = own.ingress.in_flight.failure(call.request)
        if not self.replays():
            self.counts.refused += 1
        reply = Reply(call.origin.client, call.origin.number, None, failure, None, own.finished)
        own.ingress.sessions.replied(reply)
        self._do(Send(reply.client, reply))

    def _setting(self, own: Attempt, refuses_rows: bool) -> Setting:
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
            own.ingress.delayed,
            own.emitted,
            refuses_rows,
            bool(own.unstored),
            (lambda writes: own.ages.note(writes, own.at_us)) if own.ages.are_needed else None,
        )

    def _send_round(self, own: Attempt, worker: int, number: int, body: Wave | Conflicts) -> None:
        sent = Round(own.number, own.finished + 1, number, body)
        note_recent(own, worker, sent)
        self._do(Send(own.members[worker - 1], sent))

    def _settle(self, own: Attempt, settled: Settled) -> None:
        transaction = settled.transaction
        if not self.replays():
            self.counts.settled(settled, self._now_ns // 1_000)
        if settled.place is None:
            own.again.append(transaction)
            return
        if transaction.call.delayed is not None:
            return  # Nobody waits for it.
        origin = transaction.call.origin
        reply = Reply(origin.client, origin.number, settled.value, settled.failure, settled.place, settled.place.epoch)
        own.ingress.sessions.replied(reply)
        own.ingress.in_flight.ended(transaction.call)
        for each in [reply, *own.ingress.keys.replied(transaction.call.request, reply)]:
            self._do(Send(each.client, each))

    def _end_epoch(self, own: Attempt, epoch: Epoch) -> None:
        if not self.replays():
            self.counts.epoch_over(epoch.lost)
        own.finished = epoch.number
        own.epoch = None
        own.sequencer.level(epoch.counters)
        own.emitted.seal(own.at_us)
        own.reached_us = own.at_us
        if epoch.snapshot:
            self._take_snapshot(own)
        elif self._settings.snapshot_ns >= NEVER_NS:
            self._forget_changes(own)
        for stream in list(own.fetches):
            self._feed(own, stream)
        looks, own.looks = own.looks, []
        for look in looks:
            self._look(own, look)

    # Streams that read what is emitted.

    def _on_fetch(self, sender: str, frame: Fetch) -> None:
        own = self._running()
        if own is None or (self._departure is not None and self._departure.holds):
            return  # The stream asks again.
        own.emitted.settle(frame.stream, frame.settled)
        own.fetches[frame.stream] = sender, frame
        self._feed(own, frame.stream)
        self._begin_epochs()

    def _feed(self, own: Attempt, stream: str) -> None:
        """Send a stream what there is for it, or let it wait."""
        reader, fetch = own.fetches[stream]
        bounds = own.emitted.bounds_of(stream)
        since = bounds.first if fetch.since is None else fetch.since
        if since > bounds.next and self.replays():
            return  # They come again.
        rows: list[Row] = []
        missing = None
        if bounds.first <= since <= bounds.next:
            rows = own.emitted.since(stream, since)
        else:
            missing = missing_rows(self._worker, since, bounds)
        is_time = fetch.at_us is not None and own.reached_us >= fetch.at_us
        if rows or missing is not None or is_time:
            del own.fetches[stream]
            has_more = rows and since + len(rows) < bounds.next
            reached_us = rows[-1].at_us if has_more else own.reached_us
            self._do(Send(reader, Emitted(stream, fetch.reader, since, rows, reached_us, missing)))

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
                self.counts.looks += 1
                return
            except OutOfTime:
                activate(None)  # It was interrupted, perhaps while it ended.
                failure = failure_of(out_of_time(frame.request), frame.request.entity)
                # The client has sent it again meanwhile, several times perhaps.
                own.ended = {name: failure, **dict(list(own.ended.items())[: ENDED_MAX - 1])}
        self._do(Send(frame.origin.client, _reply(frame, failure, epoch)))

    # The place moves to another process.

    def _on_copy_out(self, sender: str, frame: CopyOut) -> None:
        own = self._running()
        if own is not None and frame.attempt == own.number:
            self._departure = self.departure(own)
            self._copy_more(self._departure)

    def _copy_more(self, departure: Departure) -> None:
        for frame in departure.more():
            self._do(Send(COORDINATOR if isinstance(frame, Copied) else OTHER_PROCESS, frame))

    def _on_copy_taken(self, sender: str, frame: CopyTaken) -> None:
        if self._departure is not None and frame.attempt == self._attempt:
            self._departure.taken(frame.number)
            self._copy_more(self._departure)

    def _on_stay(self, sender: str, frame: Stay) -> None:
        departure, self._departure = self._departure, None
        if departure is not None:
            departure.stay()
            self._take_back(departure)

    def _on_switch(self, sender: str, frame: Switch) -> None:
        if self._departure is not None and frame.attempt == self._attempt:
            self._departure.is_switching = True
            self._begin_epochs()

    def _is_held(self, frame: Call | Look | Settle) -> bool:
        """Whether what has come is for the next process of this place, which gets it with the place."""
        departure = self._departure
        if departure is None or not departure.holds:
            return False
        departure.held.append(frame)
        departure.waits(self._now_ns)
        return True

    def _is_leaving(self, own: Attempt) -> bool:
        """Hands the place over if it can be now, at the end of an epoch. Returns whether no other epoch begins here."""
        departure = self._departure
        if departure is None or not departure.is_switching or self.replays():
            return False
        if not departure.holds:  # A snapshot that must be complete first was taken at the end of this very epoch.
            self._take_back(departure)
            return False
        departure.waits(self._now_ns)
        if departure.may_hand_over():
            takeover = departure.takeover(recent_rounds(own), self._now_ns)
            self._do(Send(OTHER_PROCESS, replace(takeover, totals=self.totals())))
            self._stage, self._own, self._departure, self._given_away = Stage.IDLE, None, None, own
        return True

    def _take_back(self, departure: Departure) -> None:
        """What was held for the next process is for this one."""
        for frame in departure.take_held():
            self._frames[type(frame)]("", frame)

    def _on_copy(self, sender: str, frame: Copy) -> None:
        if frame.attempt < self._attempt:
            return
        if self._arrival is None or self._arrival.attempt < frame.attempt:
            kept_us = self._settings.keys_kept_us
            self._arrival = self.arrival(frame.attempt, self._worker, self._catalog, kept_us, self._parts)
        self._arrival.take(frame)
        self._do(Send(OTHER_PROCESS, CopyTaken(frame.attempt, frame.number)))

    def _on_takeover(self, sender: str, frame: Takeover) -> None:
        arrival, self._arrival = self._arrival, None
        if arrival is None or arrival.attempt != frame.attempt or frame.attempt < self._attempt:
            return
        own, rest = arrival.complete(frame)
        self.counts = Counts.continuing(frame.totals)
        self._attempt, self._own, self._stage = frame.attempt, own, Stage.RUNNING
        self._began_ns = self._now_ns - self._settings.epoch_ns
        self._snapshot_ns = self._now_ns
        self._do(AdoptLog(frame.attempt))
        for worker, each in rest.recent:
            self._do(Send(own.members[worker - 1], each))
        self._do(Send(COORDINATOR, TakenOver(frame.attempt, max(0, self._now_ns - frame.since_ns))))
        for held in rest.held:
            self._frames[type(held)]("", held)
        self._begin_epochs()

    def _on_moved(self, sender: str, frame: Moved) -> None:
        """What was sent to another worker may be lost with the process that it was."""
        own = self._own
        if own is not None:
            for each in own.recent.get(frame.worker, ()):
                self._do(Send(own.members[frame.worker - 1], each))

    # Snapshots.

    def _is_snapshot_due(self) -> bool:
        """The first worker says when; the others follow in the same epoch."""
        if self._worker != 1:
            return False
        return self._snapshot_ns is None or self._now_ns >= self._snapshot_ns + self._settings.snapshot_ns

    def _take_snapshot(self, own: Attempt) -> None:
        self._snapshot_ns = self._began_ns
        piece = Piece(own.number, own.finished)
        is_whole = len(own.pieces) >= PIECES_MAX
        names = sorted(own.state if is_whole else own.changed.unsaved)
        own.pieces = [piece] if is_whole else [*own.pieces, piece]
        own.changed.saved()
        position = own.ingress.position()
        content = snapshots.Content(
            own.finished,
            position,
            own.ingress.taken,
            own.sequencer.counter,
            [Again(each.tid, each.number, each.call) for each in own.again],
            own.ingress.sessions.kept(),
            [(name, own.state.get(name)) for name in names],
            own.ingress.keys.kept(is_whole, self._now_ns // 1_000),
            own.ingress.delayed.kept(is_whole),
            own.at_us,
            [(name, at_us) for name in names if (at_us := own.ages.written_us(name)) is not None],
            own.emitted.kept(is_whole),
            own.emitted.bounds(),
        )
        own.unstored.add(piece)
        own.taken[own.finished] = own.pieces, position
        self._do(StorePiece(piece, snapshots.encoded(content)))

    def _forget_changes(self, own: Attempt) -> None:
        """There will be no snapshot: what has changed must not pile up."""
        own.changed.saved()
        own.ingress.keys.kept(False, own.at_us)
        own.ingress.delayed.kept(False)
        own.emitted.kept(False)

    def _on_stored(self, piece: Piece) -> None:
        own = self._own
        if own is None or piece not in own.unstored:
            return
        own.unstored.discard(piece)
        for epoch, (pieces, _) in sorted(own.taken.items()):
            if piece in pieces and own.unstored.isdisjoint(pieces):
                self._do(Send(COORDINATOR, SnapshotTaken(own.number, epoch, pieces)))
        self._begin_epochs()

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
