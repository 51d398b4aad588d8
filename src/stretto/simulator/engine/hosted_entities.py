"""Entities on a whole simulated cluster: the worker and the coordinator machines with all their parts, as on Spark.

Workers crash, hang until they count as lost and continue, and lose connections. Logs are files that outlive them, by
the same rules as on Spark (`transactions/place_log.py`); what a worker was writing when it crashed is torn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

from stretto.actors.gate import Observer
from stretto.checkpoints.store import CheckpointStore
from stretto.coordinator import events as coordination
from stretto.coordinator.entities import entity_manifest
from stretto.errors import StrettoError
from stretto.protocol.entities import Pace, RepliesSent
from stretto.protocol.frames import Frame
from stretto.protocol.jobs import Deploy, Failure
from stretto.protocol.membership import Leave
from stretto.protocol.transactions import EntityName, Reply
from stretto.scheduling.strategy import Strategy
from stretto.simulator.engine.cluster import SimulatedJob
from stretto.simulator.engine.durable import DurableCluster, Parts
from stretto.simulator.engine.storage import SimulatedFiles
from stretto.transactions.activation import MadeCall
from stretto.transactions.attempt import WorkerParts as TransactionParts
from stretto.transactions.catalog import Catalog
from stretto.transactions.events import (
    AppendLog,
    DropPieces,
    LogWritten,
    Manifest,
    StorePiece,
)
from stretto.transactions.machine import TransactionWorker
from stretto.transactions.place_log import PlaceLog
from stretto.worker import events as working
from stretto.worker.entities import Around
from stretto.worker.events import EntitiesFaulted, EntitiesKept, KeepEntities
from stretto.worker.machine import Worker

JOB = "cells"
CLIENT = "c1"
ATTEMPTS_MAX = 1_000


@dataclass
class _Writer:
    """The thread of a worker that writes its log: one thing after another."""

    place: PlaceLog
    orders: deque[KeepEntities] = field(default_factory=deque)


class HostedEntities(DurableCluster):
    """Use: `submit_entities`, then `call` and `run_until`. `answered` hears of each answer."""

    job = JOB
    """The name of the job with the entities."""

    def __init__(
        self,
        workers: int,
        seed: int,
        catalog: Catalog,
        answered: Callable[[str, Reply], None],
        parts: Parts | None = None,
        place: type[PlaceLog] = PlaceLog,
        machine_parts: TransactionParts | None = None,
        machine: type[TransactionWorker] = TransactionWorker,
        around: Around | None = None,
    ) -> None:
        self.machine_parts = machine_parts
        self.machine = machine
        self.around: Around = around or (lambda job, replays: nullcontext())
        self._catalog = catalog
        self._answered = answered
        self._place = place
        self._writers: dict[tuple[str, int], _Writer] = {}
        """By worker and place."""
        self._calls = 0
        self.replies: list[Reply] = []
        """Everything that was sent to the client."""
        self.torn = 0
        self.snapshots = 0
        self.is_calm = False
        """Nothing goes wrong any more."""
        super().__init__(workers, seed, SimulatedFiles(), parts=parts)

    def new_worker(self, name: str, observer: Observer | None, strategy: Strategy | None) -> Worker:
        worker = super().new_worker(name, observer, strategy)
        worker.entities.parts = self.machine_parts
        worker.entities.machines = self.machine
        worker.entities.around = self.around
        return worker

    def submit_entities(self, pace: Pace, places: int) -> None:
        """Claim the storage, as a driver does, and have the entities hosted."""
        self._places = places
        store = self._job_stores[self.job] = CheckpointStore(self.files)
        self.files.claims += 1
        self.files.owner = store.claim("the driver", str(self.files.claims))
        manifests, _ = store.manifests()
        if not manifests:
            store.commit(entity_manifest(self.job, 1, Manifest(0, [[] for _ in range(places)])))
            manifests, _ = store.manifests()
        self.jobs[self.job] = SimulatedJob()
        plan = coordination.EntityPlan("simulated", manifests[-1], store.owner * ATTEMPTS_MAX)
        self._calls = 0
        self._work(self._driver, working.DoorOpened(self.job, f"{self._driver}/{CLIENT}", self._catalog))
        self._coordinate(coordination.EntitiesSubmitted(self.job, self.job, "", places, pace, plan))
        self._begin_pulse()

    # For the users.

    @property
    def crashes(self) -> int:
        return self.deaths

    @property
    def places_moved(self) -> int:
        """How many places have moved."""
        return self.coordinator.entities.moving.moved

    def after(self, delay_ns: int, act: Callable[[], None]) -> None:
        self._later(delay_ns, act)

    def call(self, client: str, made: MadeCall) -> int:
        number, self._calls = self._calls, self._calls + 1
        self._work(self._driver, working.CallsMade(self.job, [(made, number)]))
        return number

    def run_until(self, steps_max: int, until: Callable[[], bool]) -> bool:
        for _ in range(steps_max):
            if until():
                return True
            if not self._queue:
                return False
            self.step()
        return until()

    def has_finished(self, epoch: int) -> bool:
        machines = self._machines()
        return len(machines) == self._places and all(machine.finished >= epoch for machine in machines)

    def state(self) -> dict[EntityName, bytes]:
        found: dict[EntityName, bytes] = {}
        for machine in self._machines():
            found.update(machine.state)
        return found

    def _machines(self) -> list[TransactionWorker]:
        """Returns those of the places. One that was replaced, and does not know it, does not count."""
        places = enumerate(self.coordinator.entities.places(self.job), 1)
        hosted = [(self.workers.get(name or ""), place) for place, name in places]
        machines = [None if worker is None else worker.entities.machine(self.job, place) for worker, place in hosted]
        return [machine for machine in machines if machine is not None]

    def _check_leaver(self, name: str, frame: Leave | Deploy) -> None:
        super()._check_leaver(name, frame)
        if isinstance(frame, Leave) and name in self.coordinator.entities.places(self.job):
            self.leaver_faults.append(f"{name} was asked to leave with entities")

    # Faults.

    def crash(self, name: str, death: coordination.Death | None = None) -> None:
        if not self.is_calm:
            super().crash(name, death)

    def hang(self, name: str, length_ns: int) -> None:
        if not self.is_calm:
            super().hang(name, length_ns)

    def _forget(self, name: str) -> None:
        super()._forget(name)
        for key in [key for key in self._writers if key[0] == name]:
            writer = self._writers.pop(key)
            if writer.orders and isinstance(what := writer.orders[0].what, AppendLog):
                # It was writing this. A later attempt cannot have claimed the place: it would be told of that first.
                self.torn += 1
                kept = what.data[: self._random.randrange(len(what.data) + 1)]
                writer.place.append(what.attempt, kept, what.end - len(what.data) + len(kept))

    # Effects.

    def _transmit(self, sender: str, to: str, frame: Frame) -> None:
        if isinstance(frame, RepliesSent):
            self.replies += [_renamed(reply) for reply in frame.replies]
        super()._transmit(sender, to, frame)

    def carry_out_for_worker(self, name: str, effect: working.Effect) -> None:
        match effect:
            case working.LoadEntities(job=job):
                self._later(self._random.randint(*self._timing.delay_ns), partial(self._load, name, job))
            case KeepEntities():
                self._keep(name, effect)
            case working.PassAnswers(answers=answers):
                for number, reply in answers:
                    assert number == reply.number
                    self._answered(CLIENT, _renamed(reply))
            case _:
                super().carry_out_for_worker(name, effect)

    def _load(self, name: str, job: str) -> None:
        self._work(name, working.EntitiesLoaded(job, self._catalog))

    def carry_out_for_coordinator(self, effect: coordination.Effect) -> None:
        match effect:
            case coordination.AnnounceEntities(job=job, members=members, waited_ns=waited_ns):
                moved = working.DoorMoved(job, members, waited_ns is None)
                self._later(self._random.randint(*self._timing.delay_ns), partial(self._work, self._driver, moved))
            case coordination.CommitEntities():
                self._later(self._random.randint(*self.write_ns), partial(self._commit_entities, effect))
            case _:
                super().carry_out_for_coordinator(effect)

    def _commit_entities(self, effect: coordination.CommitEntities) -> None:
        self.snapshots += 1
        self._coordinate(effect.write_to(self._job_stores[effect.job]))

    # The writers of the workers.

    def _keep(self, name: str, order: KeepEntities) -> None:
        if isinstance(order.what, StorePiece | DropPieces):
            delay_ns = 3 * self._random.randint(*self.write_ns)
            self._later(delay_ns, partial(self._write_piece, name, self.workers[name], order))
            return
        key = name, order.number
        writer = self._writers.setdefault(key, _Writer(self._place(self.files, order.number)))
        writer.orders.append(order)
        if len(writer.orders) == 1:
            self._write_next(key, writer)

    def _write_next(self, key: tuple[str, int], writer: _Writer) -> None:
        self._later(self._random.randint(*self.write_ns), partial(self._write, key, writer))

    def _write(self, key: tuple[str, int], writer: _Writer) -> None:
        if self._writers.get(key) is not writer:
            return  # It has crashed.
        name = key[0]
        paused_until_ns = self._paused_until(name)
        if paused_until_ns:
            self._later(paused_until_ns - self.now_ns, partial(self._write, key, writer))
            return
        order = writer.orders.popleft()
        if writer.orders:
            self._write_next(key, writer)
        try:
            event = _written(writer.place, order)
        except StrettoError as error:
            event = EntitiesFaulted(order.job, Failure(type(error).__name__, error.fact, error.detail), order.number)
        if event is not None:
            self._work(name, event)

    def _write_piece(self, name: str, worker: object, order: KeepEntities) -> None:
        if self.workers.get(name) is not worker:
            return
        event = _written(self._place(self.files, order.number), order)
        if event is not None:
            self._work(name, event)


def _written(place: PlaceLog, order: KeepEntities) -> working.Event | None:
    what = order.what
    if isinstance(what, AppendLog):
        place.append(what.attempt, what.data, what.end)
        place.sync()
        return EntitiesKept(order.job, order.number, LogWritten(what.attempt, what.end))
    event = place.carry_out(what)
    return None if event is None else EntitiesKept(order.job, order.number, event)


def _renamed(reply: Reply) -> Reply:
    """Returns a reply under the name that the checks know the client by."""
    return Reply(CLIENT, reply.number, reply.value, reply.failure, reply.place, reply.epoch)
