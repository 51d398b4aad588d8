"""Drives the coordinator machine in a thread of the driver: its mailbox, requests from users' threads, the clock."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable

from stretto.coordinator.events import (
    AnnounceCheckpoint,
    AnnounceDecision,
    AnnounceEntities,
    AnnounceJob,
    AnnounceLongRuns,
    AnnounceLoss,
    AnnounceMembers,
    AnnounceMisbehaviour,
    CommitEntities,
    Event,
    GiveUpWorker,
    MakeCode,
    Observed,
    PruneCheckpoints,
    ReleaseWorker,
    ReplaceWorker,
    StartWorker,
    WorkerEnded,
    WorkerExpected,
    WriteManifest,
)
from stretto.coordinator.machine import LOST_AFTER_NS, WORKERLESS_NS, Coordinator
from stretto.elasticity.team import Team
from stretto.observation.model import Observation
from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.runtime.announcements import Announcements
from stretto.runtime.clock import process_clock
from stretto.runtime.keys import KeyPair
from stretto.runtime.manifest_io import ManifestIO
from stretto.runtime.transport import Transport

log = logging.getLogger("stretto.coordinator")

POLL_MS = 250.0


class CoordinatorLoop:
    """`request` may be called from any thread, and `observation` may be read by any."""

    def __init__(
        self,
        cluster: str,
        address: str,
        on_job: Callable[[AnnounceJob], None],
        on_members: Callable[[AnnounceMembers], None],
        on_failed: Callable[[Exception], None],
        on_change: Callable[[ReplaceWorker | StartWorker | GiveUpWorker | ReleaseWorker], None],
        on_checkpoint: Callable[[AnnounceCheckpoint], None],
        on_noticed: Callable[[AnnounceMisbehaviour | AnnounceLongRuns], None],
        on_decision: Callable[[AnnounceDecision], None],
        on_code_wanted: Callable[[MakeCode], None],
        on_entities: Callable[[AnnounceEntities], None],
        controllers: Team,
        lost_after_ns: int = LOST_AFTER_NS,
        workerless_ns: int = WORKERLESS_NS,
        announcements: Announcements | None = None,
    ) -> None:
        self.keys = KeyPair.new()
        self._machine = Coordinator(lost_after_ns, controllers=controllers, workerless_ns=workerless_ns)
        self._now_ns = process_clock().now_ns
        self.observation = Observation()
        """The last observation of the cluster. It is immutable; the next reports replace it."""
        self._announcements = announcements
        self.manifests = ManifestIO(self.request)
        self._on_change = on_change
        self._on_checkpoint = on_checkpoint
        self._on_noticed = on_noticed
        self._on_decision = on_decision
        self._on_code_wanted = on_code_wanted
        self._on_entities = on_entities
        self._on_job = on_job
        self._on_members = on_members
        self._on_failed = on_failed
        self._requests: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        self._stopping = threading.Event()
        self._wake_lock = threading.Lock()
        self._closed = False
        self.transport = Transport(cluster, "coordinator", self.keys, address)
        self.endpoint = self.transport.endpoint
        self.transport.watch(self._wake_read, self._drain_wakes)
        self._thread = threading.Thread(target=self._run, name="stretto-coordinator", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def expect(self, member: str, public_key: str, parked: bool = False, transient: bool = False) -> None:
        """Admits a worker; called before it is started."""
        self.transport.expect(member, public_key)
        self.request(WorkerExpected(member, public_key, parked, transient))

    @property
    def wanted(self) -> int:
        """How many workers there are to be."""
        return self._machine.wanted

    def request(self, event: Event) -> None:
        """Passes an event to the machine from another thread; ignored once the loop is closed."""
        self._requests.put(event)
        self._wake()

    def close(self) -> None:
        """Stops the loop once all requests are handled."""
        self._stopping.set()
        self._wake()
        if self._thread.ident is not None:
            self._thread.join()
        self.manifests.close()
        self.transport.close()
        with self._wake_lock:
            self._closed = True
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _wake(self) -> None:
        with self._wake_lock:  # The number of a closed descriptor may be another file by now.
            if not self._closed:
                os.write(self._wake_write, b"!")

    def _drain_wakes(self) -> None:
        try:
            while os.read(self._wake_read, 4096):
                pass
        except BlockingIOError:
            return

    def _run(self) -> None:
        try:
            self._loop()
        except Exception as error:
            log.exception("the coordinator failed; its jobs are lost")
            self._on_failed(error)

    def _loop(self) -> None:
        while True:
            arrivals = self.transport.poll(POLL_MS)
            # Requests first: a worker is expected before it can send anything.
            while True:
                try:
                    self._handle(self._requests.get_nowait())
                except queue.Empty:
                    break
            for sender, frame in arrivals:
                self._handle(FrameArrived(sender, frame))
            self._handle(Ticked())
            if self._stopping.is_set() and self._requests.empty():
                return

    def _handle(self, event: Event) -> None:
        if isinstance(event, WorkerEnded):
            self.transport.dismiss(event.name)
        for effect in self._machine.handle(event, self._now_ns()):
            match effect:
                case Send(to=to, frame=frame):
                    self.transport.send_routed(to, frame)
                case AnnounceMembers(members=members):
                    self.transport.set_members(list(members))
                    self._on_members(effect)
                case Observed(observation=observation):
                    self.observation = observation
                    if self._announcements is not None:
                        self._announcements.observed(observation)
                case AnnounceJob(failure=failure):
                    if failure is None:
                        self._on_job(effect)
                    else:
                        self.manifests.explain(effect, self._on_job)
                case AnnounceLoss(member=member, reason=reason):
                    log.info("%s is no longer a member: %s", member, reason)
                case Refuse(reason=reason):
                    self.transport.refusals.add(reason)
                case AnnounceEntities():
                    self._on_entities(effect)
                case WriteManifest() | PruneCheckpoints() | CommitEntities():
                    self.manifests.begin(effect)
                case AnnounceCheckpoint():
                    self._on_checkpoint(effect)
                case AnnounceMisbehaviour() | AnnounceLongRuns():
                    self._on_noticed(effect)
                case AnnounceDecision(record=record):
                    if self._announcements is not None:
                        self._announcements.decided(record)
                    if log.isEnabledFor(logging.INFO):
                        log.info("%s", record, extra={"fields": {"decision": record.plain()}})
                    self._on_decision(effect)
                case ReplaceWorker() | StartWorker() | GiveUpWorker() | ReleaseWorker():
                    self._on_change(effect)
                case MakeCode():
                    self._on_code_wanted(effect)
