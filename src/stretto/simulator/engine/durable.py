"""A simulated cluster whose workers crash, hang and lose connections, with storage that survives them.

Heartbeats, replacements and driver restarts work as in the runtime, in virtual time. The driver hangs too, and so does
all that is done in its process: the coordinator, the driver's own worker, the writes of manifests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from stretto.actors.address import Address, job_of
from stretto.actors.deployment import Deployment
from stretto.actors.gate import Observer
from stretto.actors.seat import Seat
from stretto.actors.twins import RunTwin
from stretto.checkpoints.log import Log
from stretto.checkpoints.manifest import Storage
from stretto.checkpoints.store import CheckpointStore
from stretto.coordinator import events as coordination
from stretto.coordinator.events import (
    AnnounceCheckpoint,
    AnnounceJob,
    Death,
    DeathCause,
    LastRun,
    ManifestWritten,
    PruneCheckpoints,
    ReplaceWorker,
    WriteManifest,
)
from stretto.coordinator.machine import Coordinator, CoordinatorParts
from stretto.errors import DamagedError, StorageError, StrettoError
from stretto.protocol.clock import SteadyClock
from stretto.protocol.frames import Frame
from stretto.protocol.jobs import Deploy
from stretto.protocol.machines import Ticked
from stretto.protocol.membership import COORDINATOR, Heartbeat, Leave
from stretto.protocol.reports import Stuck
from stretto.scheduling.strategy import Strategy
from stretto.simulator.engine.cluster import CLOCK_TURN_NS, SimulatedCluster
from stretto.simulator.engine.storage import SimulatedFiles
from stretto.worker import events as working
from stretto.worker.events import FetchFailed, FetchSnapshots, SnapshotFailed, SnapshotStored, StoreSnapshot
from stretto.worker.machine import Worker, WorkerParts

PULSE_NS = 20_000_000
LOST_AFTER_NS = 120_000_000
REPLACED_NS = (5_000_000, 60_000_000)
FOREVER_NS = 10**18


@dataclass(frozen=True, slots=True)
class Cut:
    """An interval in which frames from `one` to `other` are lost, and also the reverse if `both`."""

    start_ns: int
    end_ns: int
    one: str
    other: str
    both: bool

    def loses(self, sender: str, to: str, now_ns: int) -> bool:
        there = (sender, to) == (self.one, self.other)
        back = self.both and (to, sender) == (self.one, self.other)
        return self.start_ns <= now_ns < self.end_ns and (there or back)


class DeadlyKind(Enum):
    """How a function ends the worker that runs it."""

    CRASH = "it crashes"
    KILL = "it kills its process, as an operator could"
    THREAD = "a thread of it ends the process while something else runs"
    SILENT = "it keeps the process from sending heartbeats"
    SPIN = "it does not return, and its job is stopped"


@dataclass(frozen=True, slots=True)
class Deadly:
    """A function that is deadly from its n-th run of each attempt on. `delay_ns` later its thread ends the process,
    or its job is stopped."""

    kind: DeadlyKind
    after_runs: int = 1
    delay_ns: int = 0


class Moment(Enum):
    """A point at which a fault is most harmful: an operation is half done."""

    STORING = "a snapshot is written"
    COMMITTING = "a manifest is written"
    FETCHING = "a snapshot is read"
    RESUMING = "a sink resumes"


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the machines that implement checkpoints, and the clock of their drivers; mutations replace them."""

    coordinator: CoordinatorParts | None = None
    worker: WorkerParts | None = None
    clock: type[SteadyClock] = SteadyClock
    log: type[Log] = Log


class DurableCluster(SimulatedCluster):
    """Use: `submit_durable`, plan faults with `plan`, `at_step` and `at_moment`, then `run`."""

    def __init__(
        self,
        workers: int,
        seed: int,
        files: SimulatedFiles,
        *,
        cuts: tuple[Cut, ...] = (),
        parts: Parts | None = None,
        parked: int = 0,
        **more: Any,
    ) -> None:
        self._parts = parts or Parts()
        self.files = files
        self._cuts = list(cuts)
        self._files: dict[str, SimulatedFiles] = {}
        """The files of each job, by the address of its storage."""
        self._job_stores: dict[str, CheckpointStore] = {}
        self._stores: dict[tuple[str, str], CheckpointStore] = {}
        """The stores of workers, by worker and address of the storage."""
        self._deadly: dict[tuple[str, str], Deadly] = {}
        self._runs: Counter[tuple[str, str]] = Counter()
        self._spinning: dict[str, Stuck] = {}
        self.deaths = 0
        self.redirected = 0
        """The number of batches that have run on transient workers."""
        self.vanished = 0
        """The number of transient workers that have vanished."""
        self._broken: set[tuple[str, str]] = set()
        self._ticks_ns: int | None = None
        self._workers_wanted = workers
        self._parked_wanted = parked
        self._parked: set[str] = set()
        self._incarnation = 1
        self._planned: list[tuple[int, Callable[[], None]]] = []
        self._committing: list[WriteManifest] = []
        self._durable: list[tuple[Deployment, SimulatedFiles]] = []
        self._at_steps: dict[int, Callable[[], None]] = {}
        self._at_moments: dict[tuple[Moment, int], Callable[[str], None]] = {}
        self._at_every_moment: dict[Moment, list[Callable[[str], None]]] = {}
        self._moments: Counter[Moment] = Counter()
        self._pulsing = False
        self.steps = 0
        self.write_ns = (100_000, 8_000_000)
        """Bounds of the time to write or read a snapshot or a manifest."""
        self.noticed_ns = (100_000, 40_000_000)
        """Bounds of the time until Spark reports the death of a worker."""
        self.kept = 3
        self.interval_ns: int | None = 20_000_000
        self.announced: list[AnnounceCheckpoint] = []
        self.replaced: list[str] = []
        self._storing: dict[str, set[tuple[Address, int]]] = {}
        """The snapshots that workers are writing."""
        self.late: list[str] = []
        """Commits of this driver after another one had claimed the checkpoints."""
        self._settings = more
        super().__init__(workers, seed, **more)
        self._assemble(self._new_parked())

    def successor(self, seed: int) -> DurableCluster:
        """Returns another cluster for the same app and storage, with a driver of its own; it begins now."""
        settings = {**self._settings, "weather": None, "begins_ns": self.now_ns}
        other = DurableCluster(
            self._workers_wanted, seed, self.files, parts=self._parts, parked=self._parked_wanted, **settings
        )
        other.write_ns, other.noticed_ns, other.interval_ns = self.write_ns, self.noticed_ns, self.interval_ns
        other._durable = list(self._durable)
        other._resubmit()
        return other

    def new_coordinator(self) -> Coordinator:
        return Coordinator(LOST_AFTER_NS, self._parts.coordinator)

    def new_worker(self, name: str, observer: Observer | None, strategy: Strategy | None) -> Worker:
        return Worker(name, self._parts.worker, observer, self._policy(), strategy)

    def new_clock(self, name: str) -> SteadyClock:
        return self._parts.clock(lambda: self.wall_ns(name), lambda: self.now_ns, CLOCK_TURN_NS)

    def submit_durable(self, deployment: Deployment, files: SimulatedFiles | None = None) -> None:
        """Run a deployment with checkpoints in these files; it resumes from the last complete checkpoint, if any."""
        files = self.files if files is None else files
        store = CheckpointStore(files, log=self._parts.log)
        files.claims += 1
        files.owner = store.claim(f"driver {files.claims}", str(files.claims))
        manifests, wrong = store.manifests()
        if manifests and wrong:
            store.go_back(manifests)
        storage = Storage(f"simulated/{deployment.job}", store.owner, store.lineage("00000001"))
        self._files[storage.uri], self._job_stores[deployment.job] = files, store
        plan = coordination.CheckpointPlan(storage, self.interval_ns, self.kept, tuple(manifests[-self.kept :]))
        self._durable = [each for each in self._durable if each[0].job != deployment.job] + [(deployment, files)]
        self.submit(deployment, plan)
        self._begin_pulse()

    def submit_plain(self, deployment: Deployment) -> None:
        """Run a deployment without checkpoints."""
        self.submit(deployment)
        self._begin_pulse()

    def _begin_pulse(self) -> None:
        if not self._pulsing:
            self._pulsing = True
            self._later(0, self._pulse)

    # Faults.

    def step(self) -> None:
        super().step()
        self.steps += 1
        happen = self._at_steps.pop(self.steps, None)
        if happen is not None:
            happen()

    def at_step(self, step: int, happen: Callable[[], None]) -> None:
        """Call `happen` right after step number `step`."""
        self._at_steps[step] = happen

    def at_moment(self, moment: Moment, number: int, happen: Callable[[str], None]) -> None:
        """Call `happen` when a moment occurs for the `number`-th time, with the worker at which it occurs, or a random
        worker if it occurs at the driver."""
        self._at_moments[moment, number] = happen

    def at_next_moment(self, moment: Moment, happen: Callable[[str], None]) -> None:
        """Likewise, when it occurs next."""
        self.at_moment(moment, self._moments[moment] + 1, happen)

    def at_every_moment(self, moment: Moment, happen: Callable[[str], None]) -> None:
        """Likewise, whenever it occurs."""
        self._at_every_moment.setdefault(moment, []).append(happen)

    def _reach_moment(self, moment: Moment, name: str) -> None:
        self._moments[moment] += 1
        for always in self._at_every_moment.get(moment, ()):
            always(name)
        happen = self._at_moments.pop((moment, self._moments[moment]), None)
        if happen is not None:
            happen(name)

    def make_deadly(self, job: str, function: str, deadly: Deadly) -> None:
        """Let a function end the worker that runs it."""
        self._deadly[job, function] = deadly

    def _execute(self, name: str, seat: Seat, work: Any) -> None:
        if not self._survives(name, seat):
            return
        if seat.instance.origin is not None and seat.instance.is_sink:
            self._reach_moment(Moment.RESUMING, name)
        self.redirected += isinstance(work, RunTwin)
        super()._execute(name, seat, work)

    def hang(self, name: str, length_ns: int) -> None:
        """Pause a worker for `length_ns` from now: nothing reaches it and nothing leaves it."""
        self._weather.pauses.setdefault(name, []).append((self.now_ns, self.now_ns + length_ns))

    def cut_off(self, one: str, other: str, length_ns: int) -> None:
        """Lose all frames between `one` and `other` for `length_ns` from now."""
        self._cuts.append(Cut(self.now_ns, self.now_ns + length_ns, one, other, both=True))

    def plan(self, after_ns: int, happen: Callable[[], None]) -> None:
        """Call `happen` after `after_ns` of virtual time, even if the driver is restarted before that."""
        self._planned.append((self.now_ns + after_ns, happen))
        self._later(after_ns, happen)

    def _survives(self, name: str, seat: Seat) -> bool:
        """Whether a worker survives a run; if not, it dies or spins in it."""
        attempt, function, _ = seat.address
        deadly = self._deadly.get((job_of(attempt), function))
        if deadly is None:
            return True
        self._runs[attempt, function] += 1
        if self._runs[attempt, function] < deadly.after_runs:
            return True
        if deadly.kind is DeadlyKind.THREAD:
            self._later(deadly.delay_ns, partial(self._die_beside, name, self.workers[name]))
            return True
        if deadly.kind is DeadlyKind.SPIN:
            self._spinning[name] = Stuck(attempt, function, 0, "it spins")
            self.stop(job_of(attempt), deadly.delay_ns)
        elif deadly.kind is DeadlyKind.SILENT:
            self.hang(name, FOREVER_NS)
        else:
            cause = DeathCause.ANY if deadly.kind is DeadlyKind.KILL else DeathCause.OWN
            self.crash(name, Death("died", cause, LastRun(attempt, function, underway=True)))
        return False

    def _work(self, name: str, event: working.Event) -> None:
        if name not in self._spinning:  # The loop of a worker that spins handles nothing.
            super()._work(name, event)

    def _die_beside(self, name: str, worker: Worker) -> None:
        """A thread of a deadly function ends the process while anything runs, or nothing."""
        if self.workers.get(name) is worker:
            seat = worker.running
            last = LastRun(seat.address.job, seat.address.function, underway=True) if seat is not None else None
            self.crash(name, Death("died", DeathCause.OWN, last))

    def crash(self, name: str, death: Death | None = None) -> None:
        """Kill a worker's process; Spark reports it a little later, with how it died if that is known."""
        if name not in self.workers:
            return
        self.deaths += 1
        self._forget(name)
        ended = coordination.WorkerEnded(name, "its process died", death)
        self._later(self._random.randint(*self.noticed_ns), partial(self._coordinate, ended))

    def crash_some(self) -> None:
        """Crash one of the present workers, chosen at random (seeded)."""
        self.crash(self._random.choice(self.names_of_workers() or [""]))

    def hang_driver(self, length_ns: int, workers: bool) -> None:
        """Pause the driver's process for `length_ns` from now, optionally with all its workers."""
        self.hang(self._driver, length_ns)
        for name in self.names_of_workers() if workers else ():
            self.hang(name, length_ns)

    @property
    def _driver(self) -> str:
        return f"driver~{self._incarnation}"

    @property
    def has_ended(self) -> bool:
        return all(job.status.ended for job in self.jobs.values())

    def is_owner(self, job: str) -> bool:
        """Whether it was the last to claim the checkpoints of a job."""
        return self._job_stores[job].owner == self._files[f"simulated/{job}"].owner

    def die(self) -> None:
        """Kill the driver with its workers."""
        for write in self._committing:
            self._interrupt(write)
        self._committing.clear()
        for name in list(self.workers):
            self._forget(name)
        self._queue.clear()
        self._latest_ns.clear()
        self._broken.clear()
        self.forget_decisions()

    def _release(self, name: str) -> None:
        if name in self.workers:
            self._forget(name)
        super()._release(name)

    def restart(self, deployment: Deployment | None = None, workers: int | None = None) -> None:
        """Kill the driver with its workers and restart it, optionally with another deployment of the app and another
        number of workers."""
        if self.has_ended:
            return
        self._durable = self._durable if deployment is None else [(deployment, self.files)]
        self._workers_wanted = workers or self._workers_wanted
        self.recoveries += 1
        self.die()
        self._incarnation += 1
        self.coordinator = self.new_coordinator()
        self._clocks[COORDINATOR] = self.new_clock(COORDINATOR)
        self._pulsing = False
        names = [f"w{i}~{self._incarnation}" for i in range(self._workers_wanted)]
        self._assemble([*names, self._driver, *self._new_parked(), *self._new_transient(self._incarnation)])
        self._resubmit()
        for after_ns, happen in self._planned:
            if after_ns > self.now_ns:
                self._later(after_ns - self.now_ns, happen)

    def _resubmit(self) -> None:
        try:
            for deployment, files in self._durable:
                self.submit_durable(deployment, files)
        except StorageError:
            self._later(REPLACED_NS[0], self._resubmit)  # The user would try again.

    def _interrupt(self, write: WriteManifest) -> None:
        """Interrupt the write of a manifest: it is complete, missing or torn."""
        became = self._random.choice(("whole", "torn", "nothing"))
        if became == "nothing":
            return
        store, files = self._job_stores[write.job], self._files[f"simulated/{write.job}"]
        before = set(files.contents)
        with suppress(StrettoError):
            store.commit(write.manifest)
        for path in sorted(files.contents.keys() - before) if became == "torn" else ():
            files.tear(path, [files.contents[path]], self._random)

    def _forget(self, name: str) -> None:
        self._gone.append(self.workers.pop(name))
        self._frames_waiting.pop(name, None)
        self._wake_ns.pop(name, None)
        self._busy.discard(name)
        self._spinning.pop(name, None)
        self._stores = {known: store for known, store in self._stores.items() if known[0] != name}

    def is_parked(self, name: str) -> bool:
        return name in self._parked

    def _new_parked(self) -> list[str]:
        names = [f"p{i}~{self._incarnation}" for i in range(self._parked_wanted)]
        self._parked.update(names)
        return names

    def names_of_workers(self) -> list[str]:
        return sorted(name for name in self.workers if not name.startswith("driver"))

    # Time: heartbeats and the coordinator's clock continue until all jobs have ended.

    def _pulse(self) -> None:
        if self.has_ended:
            self._pulsing = False
            return
        for name in self.names_of_workers():
            if not self._paused_until(name):
                self._transmit(name, COORDINATOR, Heartbeat())
                if name in self._spinning:
                    self._transmit(name, COORDINATOR, self._spinning[name])
        if not self._paused_until(self._driver):
            self._coordinate(Ticked())
        self._later(PULSE_NS, self._pulse)

    def _coordinate(self, event: coordination.Event) -> None:
        paused_until_ns = self._paused_until(self._driver)
        if paused_until_ns:
            self._later(paused_until_ns - self.now_ns, partial(self._coordinate, event))
        else:
            super()._coordinate(event)

    def explained(self, announcement: AnnounceJob) -> AnnounceJob:
        store = self._job_stores.get(announcement.job)
        return announcement if announcement.failure is None or store is None else announcement.explained_by(store)

    def _transmit(self, sender: str, to: str, frame: Frame) -> None:
        if any(cut.loses(sender, to, self.now_ns) for cut in self._cuts):
            if isinstance(frame, Heartbeat) or (sender, to) in self._broken:
                return
            self._broken.add((sender, to))
            heals_ns = max(cut.end_ns for cut in self._cuts if cut.loses(sender, to, self.now_ns))
            self._later(heals_ns - self.now_ns, partial(self._notice_broken, sender, to))
            return
        if (sender, to) not in self._broken:
            super()._transmit(sender, to, frame)

    def _notice_broken(self, sender: str, to: str) -> None:
        """Report a broken connection to its sender; called when the cut ends."""
        self._broken.discard((sender, to))
        if COORDINATOR in (sender, to):
            self.crash(sender if to == COORDINATOR else to)  # It leaves by itself, and joins under a new name.
        elif sender in self.workers:
            self._work(sender, working.PeerBroken(to))

    # Storage.

    def carry_out_for_worker(self, name: str, effect: working.Effect) -> None:
        match effect:
            case StoreSnapshot() | FetchSnapshots():
                if isinstance(effect, StoreSnapshot):
                    self._storing.setdefault(name, set()).add((effect.address, effect.snapshot.checkpoint))
                self._reach_moment(Moment.STORING if isinstance(effect, StoreSnapshot) else Moment.FETCHING, name)
                self._later(
                    self._random.randint(*self.write_ns), partial(self._reach_storage, name, self.workers[name], effect)
                )

    def _check_leaver(self, name: str, frame: Leave | Deploy) -> None:
        super()._check_leaver(name, frame)
        if not isinstance(frame, Leave):
            return
        unended = [job for job in self.coordinator.jobs.values() if not job.status.ended and job.durability is not None]
        underway = {job.attempt: job.durability.underway for job in unended if job.durability is not None}
        for address, checkpoint in sorted(self._storing.get(name, ())):
            awaiting = underway.get(address.job)
            if awaiting is not None and awaiting.checkpoint == checkpoint:
                self.leaver_faults.append(f"{name} was asked to leave while it stores a snapshot of {address}")

    def _reach_storage(self, name: str, worker: Worker, effect: StoreSnapshot | FetchSnapshots) -> None:
        if isinstance(effect, StoreSnapshot):
            self._storing.get(name, set()).discard((effect.address, effect.snapshot.checkpoint))
        if self.workers.get(name) is not worker:
            if isinstance(effect, StoreSnapshot) and self._random.random() < 0.5:
                self._tear(effect)
            return
        paused_until_ns = self._paused_until(name)
        if paused_until_ns:
            self._later(paused_until_ns - self.now_ns, partial(self._reach_storage, name, worker, effect))
            return
        uri = effect.storage.uri
        store = self._stores.setdefault((name, uri), CheckpointStore(self._files[uri], effect.storage.owner))
        event = _stored(store, effect) if isinstance(effect, StoreSnapshot) else _fetched(store, effect)
        self._work(name, event)

    def _tear(self, effect: StoreSnapshot) -> None:
        torn = SimulatedFiles()
        with suppress(StorageError):  # A snapshot that refers to earlier files is incomplete without them.
            CheckpointStore(torn, effect.storage.owner).store(effect.address, effect.snapshot)
        for path, content in torn.contents.items():
            self._files[effect.storage.uri].tear(path, [content], self._random)

    def carry_out_for_coordinator(self, effect: coordination.Effect) -> None:
        match effect:
            case WriteManifest():
                self._reach_moment(Moment.COMMITTING, self._random.choice(self.names_of_workers() or [""]))
                self._committing.append(effect)
                self._later(self._random.randint(*self.write_ns), partial(self._commit, effect))
            case PruneCheckpoints(job=job, kept=kept):
                self._job_stores[job].prune(kept)
            case AnnounceCheckpoint():
                self.announced.append(effect)
            case ReplaceWorker(name=name, parked=parked):
                self.replaced.append(name)
                if name in self._spinning:
                    self._forget(name)
                base, _, incarnation = name.partition("~")
                again = f"{base}~{int(incarnation) + 1_000}"
                self._parked.update({again} if parked else ())
                self._later(self._random.randint(*REPLACED_NS), partial(self._join, again))

    def _commit(self, effect: WriteManifest) -> None:
        paused_until_ns = self._paused_until(self._driver)
        if paused_until_ns:
            self._later(paused_until_ns - self.now_ns, partial(self._commit, effect))
            return
        self._committing.remove(effect)
        store = self._job_stores[effect.job]
        event = effect.write_to(store)
        if isinstance(event, ManifestWritten) and not self.is_owner(effect.job):
            late = f"owner {store.owner} committed checkpoint {event.checkpoint}"
            self.late.append(f"{late} after another one had claimed the directory")
        self._coordinate(event)


def _stored(store: CheckpointStore, effect: StoreSnapshot) -> working.Event:
    checkpoint = effect.snapshot.checkpoint
    try:
        return SnapshotStored(effect.address, checkpoint, store.store(effect.address, effect.snapshot))
    except StorageError as error:
        return SnapshotFailed(effect.address, checkpoint, str(error))


def _fetched(store: CheckpointStore, effect: FetchSnapshots) -> working.Event:
    try:
        return effect.read_from(store)
    except StorageError as error:
        return FetchFailed(effect.job, str(error), isinstance(error, DamagedError))
