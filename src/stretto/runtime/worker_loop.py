"""Drives a worker machine with a transport and a clock: polls, runs, carries out effects, until the machine exits."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable

import psutil

from stretto.actors.address import job_of
from stretto.actors.deployment import Deployment
from stretto.actors.instance import Instance
from stretto.actors.work import OPEN
from stretto.errors import FunctionError, ProtocolError, StrettoError
from stretto.operators.ends import SinkFunction
from stretto.protocol.channels import CriticalSent, Data
from stretto.protocol.entities import PlaceSent, RepliesSent, RoundSent, RowRepliesSent
from stretto.protocol.jobs import Failure
from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.membership import COORDINATOR
from stretto.protocol.reports import Report
from stretto.queries.shelf import LoadPieces
from stretto.rendering import message_of
from stretto.runtime.clock import process_clock
from stretto.runtime.cold_store import ColdStores
from stretto.runtime.connections import Arrival, Connections
from stretto.runtime.entities.handler_watch import HandlerWatch
from stretto.runtime.entities.keeping import EntityKeeping
from stretto.runtime.event_pipe import EventPipe
from stretto.runtime.failures import failure_of
from stretto.runtime.object_servers import ObjectServers
from stretto.runtime.piece_io import PieceIO
from stretto.runtime.run_note import RunNote
from stretto.runtime.snapshot_io import SnapshotIO
from stretto.transactions.catalog import Catalog
from stretto.worker.events import (
    Close,
    CodeFailed,
    CodeLoaded,
    Connect,
    Effect,
    EntitiesFaulted,
    EntitiesLoaded,
    Event,
    Exit,
    FetchSnapshots,
    KeepEntities,
    LoadCode,
    LoadEntities,
    NoteDecision,
    PassAnswers,
    PassGathered,
    PeerBroken,
    Ran,
    ReadServer,
    ReleaseEntities,
    Run,
    RunFailed,
    StoreSnapshot,
    WriteServer,
)
from stretto.worker.machine import Worker

log = logging.getLogger("stretto.worker")

QUANTUM_NS = 1_000_000
"""How long functions may run before the network is polled."""
SHARE_NS_MAX = 20_000_000
"""How long functions of streams may run at once because transactions took as long before."""
IDLE_WAIT_MS = 200.0
GARBAGE_AFTER_NS = 500_000_000
"""The delay before a dropped job is collected, when nothing here refers to it any more."""
MEMORY_EVERY_NS = 2_000_000_000
"""How often it is measured what the process holds in memory."""
REFUSALS_EVERY_NS = 250_000_000
"""How often refusals are reported to the coordinator, if there are new ones."""
_SENT_BY_ENTITIES = RoundSent | RepliesSent | RowRepliesSent | PlaceSent
"""Frames that may be too long by what handlers return or keep."""


class WorkerLoop:
    """`run` returns when the machine exits. `load_code` turns a job's digest into its deployment."""

    def __init__(
        self,
        machine: Worker,
        transport: Connections,
        load_code: Callable[[str, str], Deployment],
        on_sink_opened: Callable[[Instance], None] | None = None,
        note: RunNote | None = None,
        load_entities: Callable[[str], Catalog] | None = None,
        pass_answers: Callable[[PassAnswers], None] | None = None,
        pass_gathered: Callable[[PassGathered], None] | None = None,
        note_decision: Callable[[NoteDecision], None] | None = None,
    ) -> None:
        self._note = note or RunNote()
        self._machine = machine
        self._transport = transport
        self._load_code = load_code
        self._on_sink_opened = on_sink_opened
        self._now_ns = process_clock().now_ns
        self._snapshots = SnapshotIO()
        self._cold_stores = ColdStores()
        transport.watch(self._snapshots.fd, self._handle_snapshot_events)
        self._load_entities = load_entities
        self._pass_answers = pass_answers
        self._pass_gathered = pass_gathered
        self._note_decision = note_decision
        self._pieces = PieceIO()
        transport.watch(self._pieces.fd, self._handle_pieces)
        self._keeping = EntityKeeping()
        transport.watch(self._keeping.fd, self._handle_kept)
        self._servers = ObjectServers()
        transport.watch(self._servers.fd, self._handle_served)
        self._posted: EventPipe[Callable[[], Event]] = EventPipe()
        transport.watch(self._posted.fd, self._handle_posted)
        machine.entities.around = HandlerWatch(self._note).around
        self._pending: Run | None = None
        self._exiting: str | None = None
        self._garbage_due_ns: int | None = None
        self._refusals_reported = 0
        self._refusals_due_ns = 0
        self._process = psutil.Process()
        self._memory_due_ns = 0

    def run(self) -> str:
        """Runs until the machine exits, and returns the reason."""
        poll_ns = 0
        while self._exiting is None:
            now_ns = self._now_ns()
            if now_ns >= self._refusals_due_ns:
                self._report_refusals(now_ns)
            run = self._pending
            if self._garbage_due_ns is not None and now_ns >= self._garbage_due_ns:
                self._collect_garbage()
            if run is None:
                arrivals = self._transport.poll(self._wait_ms(now_ns))
                now_ns = self._now_ns()
                self._take_in(arrivals, now_ns)
                if not arrivals:
                    self._handle(Ticked(), now_ns)
                self._handle_broken(now_ns)
                poll_ns = self._next_poll_ns(now_ns)
                continue
            if now_ns > poll_ns:
                self._take_in(self._transport.poll(0), now_ns)
                self._handle_broken(now_ns)
                poll_ns = self._next_poll_ns(now_ns)
            self._pending = None
            self._execute(run)
        return self._exiting

    def _take_in(self, arrivals: list[Arrival], now_ns: int) -> None:
        for sender, frame in arrivals:
            self._handle(FrameArrived(sender, frame), now_ns)

    def _next_poll_ns(self, began_ns: int) -> int:
        """Returns when the network is polled again while functions run. Transactions of entities run while what has
        arrived is handled, so functions of streams get at least as much time as that took, and neither starves."""
        now_ns = self._now_ns()
        return now_ns + max(QUANTUM_NS, min(now_ns - began_ns, SHARE_NS_MAX))

    def post(self, make: Callable[[], Event]) -> None:
        """Called from another thread: has the machine handle an event, which is made when its turn comes."""
        self._posted.put(make)

    def _handle_posted(self) -> None:
        for make in self._posted.events():
            self._handle(make(), self._now_ns())

    def _handle_kept(self) -> None:
        for event in self._keeping.events():
            self._handle(event, self._now_ns())

    def _handle_pieces(self) -> None:
        for event in self._pieces.events():
            self._handle(event, self._now_ns())

    def _handle_served(self) -> None:
        for event in self._servers.events():
            self._handle(event, self._now_ns())

    def stop(self) -> None:
        """Called from another thread: leaves the loop as soon as no function runs, without the coordinator."""
        self._exiting = "it was stopped"

    def close(self) -> None:
        self._snapshots.close()
        self._keeping.close()
        self._pieces.close()
        self._servers.close()
        self._posted.close()
        self._transport.close()
        self._cold_stores.close()

    def _handle_snapshot_events(self) -> None:
        for event in self._snapshots.events():
            self._handle(event, self._now_ns())

    def _handle_broken(self, now_ns: int) -> None:
        for member in self._transport.taken_broken():
            if member == COORDINATOR:
                # Commands may be lost, so this incarnation is unreliable; another one replaces it.
                self._exiting = "the connection to the driver broke"
            else:
                self._handle(PeerBroken(member), now_ns)

    def _report_refusals(self, now_ns: int) -> None:
        """Reports refusals to the coordinator: sockets refuse what the machine never sees, also while there is no
        job."""
        self._refusals_due_ns = now_ns + REFUSALS_EVERY_NS
        if now_ns >= self._memory_due_ns:
            self._memory_due_ns = now_ns + MEMORY_EVERY_NS
            self._machine.memory_bytes = self._process.memory_info().rss
        count = self._transport.refusals.count
        if count != self._refusals_reported and self._machine.version:  # Only a member can report.
            self._refusals_reported = self._machine.refused = count
            self._transport.send(COORDINATOR, Report("", {}, count))

    def _wait_ms(self, now_ns: int) -> float:
        deadline_ns = self._machine.next_deadline_ns()
        if deadline_ns is None:
            return IDLE_WAIT_MS
        # The poller truncates a wait to whole milliseconds, so the last fraction is rounded up.
        return min(IDLE_WAIT_MS, max(0.0, -(-(deadline_ns - now_ns) // 1_000_000)))

    def _execute(self, run: Run) -> None:
        instance = run.seat.instance
        started_ns = self._now_ns()
        event: Event
        self._note.begin(instance)
        try:
            if run.work is OPEN:
                instance.spill_to(self._cold_stores.made)
            outcome = instance.apply(run.work, started_ns)
        except BaseException as error:  # Also sys.exit() in a user's function: it fails the job, not the worker.
            event = RunFailed(run.seat, run.work, failure_of(error, instance, run.work))
            self._note.end()
            now_ns = self._now_ns()
        else:
            self._note.end()
            now_ns = self._now_ns()
            event = Ran(run.seat, run.work, outcome, now_ns - started_ns)
            opened_sink = run.work is OPEN and isinstance(instance.function, SinkFunction)
            if opened_sink and self._on_sink_opened is not None:
                self._on_sink_opened(instance)
        self._handle(event, now_ns)

    def _handle(self, event: Event, now_ns: int) -> None:
        unsent: ProtocolError | None = None
        for effect in self._machine.handle(event, now_ns):
            if unsent is not None and isinstance(effect, Send) and isinstance(effect.frame, Data | CriticalSent):
                continue  # Messages after one that was not sent would be out of order.
            try:
                self._carry_out(effect)
            except ProtocolError as error:
                if isinstance(effect, Send) and isinstance(effect.frame, _SENT_BY_ENTITIES):
                    too_much = Failure("ProtocolError", error.fact, error.detail, "Pass less between entities at once.")
                    self._handle(EntitiesFaulted(effect.frame.job, too_much), now_ns)
                    continue
                unsent = error
        if unsent is not None:
            if not isinstance(event, Ran):
                raise unsent
            # Too long, or not plain data: the fault of this job's function, and no reason to end the worker.
            instance = event.seat.instance
            self._handle(CodeFailed(instance.address.job, _unsendable(unsent, instance)), now_ns)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Run():
                self._pending = effect
            case Send(to=to, frame=frame):
                self._transport.send(to, frame)
            case LoadCode(job=job, digest=digest):
                self._load(job, digest)
            case Close(seats=seats):
                self._close([seat.instance for seat in seats])
            case Connect(members=members):
                self._transport.set_members(members)
            case Refuse(reason=reason):
                self._transport.refusals.add(reason)
            case Exit(reason=reason):
                self._exiting = reason
            case StoreSnapshot() | FetchSnapshots():
                self._snapshots.begin(effect)
            case LoadEntities(job=job, digest=digest):
                self._load_classes(job, digest)
            case KeepEntities() | ReleaseEntities():
                self._keeping.begin(effect)
            case LoadPieces():
                self._pieces.begin(effect)
            case PassGathered() if self._pass_gathered is not None:
                self._pass_gathered(effect)
            case NoteDecision() if self._note_decision is not None:
                self._note_decision(effect)
            case ReadServer() | WriteServer():
                self._servers.begin(effect)
            case PassAnswers() if self._pass_answers is not None:
                self._pass_answers(effect)

    def _load(self, job: str, digest: str) -> None:
        event: Event
        self._note.begin_loading(job)
        try:
            event = CodeLoaded(job, self._load_code(job, digest))
        except BaseException as error:
            event = CodeFailed(job, failure_of(error, None, None))
        self._note.end()
        self._handle(event, self._now_ns())

    def _load_classes(self, job: str, digest: str) -> None:
        event: Event
        self._note.begin_loading(job)
        try:
            assert self._load_entities is not None
            event = EntitiesLoaded(job, self._load_entities(digest))
        except BaseException as error:
            event = EntitiesFaulted(job, failure_of(error, None, None))
        self._note.end()
        self._handle(event, self._now_ns())

    def _collect_garbage(self) -> None:
        """Collects garbage some time after a job was dropped. Instances and channels refer to each other, and full
        collections are rare, so the state of an ended job would stay in memory."""
        self._garbage_due_ns = None
        gc.collect()

    def _goes_on(self, instance: Instance) -> bool:
        """Whether another attempt of its job is here. A collection would pause it, so that it would show in its output
        as the handover itself hardly does."""
        return any(job_of(name) == job_of(instance.address.job) for name in self._machine.jobs)

    def _close(self, instances: list[Instance]) -> None:
        handed_over = [instance for instance in instances if self._goes_on(instance)]
        if len(handed_over) < len(instances):
            self._garbage_due_ns = self._now_ns() + GARBAGE_AFTER_NS
        for instance in instances:
            self._note.begin(instance)
            try:
                instance.close()
            except StrettoError as error:
                log.warning("closing %s: %s", instance.address, message_of(error))
            except BaseException as error:
                failure = failure_of(error, instance, None)
                log.warning("closing %s failed: %s\n%s", instance.address, failure.detail, failure.traceback)
            self._note.end()
        for instance in handed_over:
            instance.release()
        self._note.forget(instances)


def _unsendable(error: ProtocolError, instance: Instance) -> Failure:
    function = instance.address.function
    return failure_of(FunctionError(f"function '{function}': {error.fact}", error.detail, error.fix), instance, None)
