"""Workers of transactions, their coordinator and clients in virtual time: delays, repeats, crashes, torn logs, by seed.

Messages may overtake each other, and may come twice; what is sent to a process that is down is lost, and what a process
has sent shortly before it ends may be. A worker that crashes keeps what is durable, and of the rest of its log any part
from the beginning, perhaps with a wrong bit.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.transactions import EntityName, Piece, Reply, TransactionFrame
from stretto.transactions.activation import MadeCall
from stretto.transactions.attempt import Settings, WorkerParts
from stretto.transactions.catalog import Catalog
from stretto.transactions.coordinating import TransactionCoordinator
from stretto.transactions.door import Door
from stretto.transactions.events import (
    Answer,
    AppendLog,
    CutLog,
    DropPieces,
    LogWritten,
    Manifest,
    ManifestWritten,
    OpenState,
    PieceStored,
    StateOpened,
    StorePiece,
    TrimLog,
    WorkerDown,
    WorkerUp,
    WriteManifest,
)
from stretto.transactions.machine import COORDINATOR, TransactionWorker

_PACK = msgspec.msgpack.Encoder().encode
_UNPACK = msgspec.msgpack.Decoder(TransactionFrame).decode
ATTEMPTS_MAX = 1_000
"""More than one coordinator has."""


@dataclass(frozen=True)
class Climate:
    """How long things take, in nanoseconds, and how often a message is slow or comes twice."""

    delay_ns: tuple[int, int] = (20_000, 2_000_000)
    write_ns: tuple[int, int] = (50_000, 3_000_000)
    restart_ns: tuple[int, int] = (1_000_000, 60_000_000)
    slow: float = 0.05
    repeated: float = 0.1


@dataclass(frozen=True)
class EntityParts:
    """The machines, and the parts of a worker. A mutation replaces one."""

    worker: type[TransactionWorker] = TransactionWorker
    coordinator: type[TransactionCoordinator] = TransactionCoordinator
    within: WorkerParts = field(default_factory=WorkerParts)


class SimulatedLog:
    """A file that grows: `durable` is how far it survives a crash for certain."""

    def __init__(self) -> None:
        self.begin = 0
        self.data = bytearray()
        self.durable = 0

    @property
    def end(self) -> int:
        return self.begin + len(self.data)

    def cut(self, end: int) -> None:
        del self.data[end - self.begin :]
        self.durable = min(self.durable, end)

    def trim(self, position: int) -> None:
        del self.data[: max(0, position - self.begin)]
        self.begin = max(self.begin, position)

    def tear(self, chance: random.Random) -> None:
        """The writer crashes."""
        kept = chance.randint(self.durable, self.end)
        self.cut(kept)
        if kept > self.durable and chance.random() < 0.5:
            self.data[chance.randrange(self.durable, kept) - self.begin] ^= 1 << chance.randrange(8)


@dataclass
class Host:
    """A worker's process, and what survives it."""

    name: str
    number: int
    log: SimulatedLog = field(default_factory=SimulatedLog)
    pieces: dict[Piece, bytes] = field(default_factory=dict)
    machine: TransactionWorker | None = None
    life: int = 0
    """Counts its processes."""
    tick_ns: int | None = None
    """When it is told that time has passed."""


class SimulatedEntities:
    """A cluster of entities. `answered` hears of each answer of each client."""

    def __init__(
        self,
        workers: int,
        clients: int,
        seed: int,
        catalog: Catalog,
        answered: Callable[[str, Reply], None],
        climate: Climate | None = None,
        settings: Settings | None = None,
        parts: EntityParts | None = None,
    ) -> None:
        self.chance = random.Random(seed)
        self.now_ns = 1_000_000_000
        self._catalog = catalog
        self._answered = answered
        self._climate = climate or Climate()
        self._settings = settings or Settings()
        self._parts = parts or EntityParts()
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self._members = [f"w{number}" for number in range(1, workers + 1)]
        self.hosts = {name: Host(name, number) for number, name in enumerate(self._members, 1)}
        self.doors = {f"c{number}": Door(f"c{number}", catalog, self._members) for number in range(1, clients + 1)}
        self._door_ticks: dict[str, int] = {}
        self._manifest: Manifest | None = None
        self._coordinator: TransactionCoordinator | None = None
        self._coordinators = 0
        self.watch: Callable[[str, str, Any], None] = lambda sender, to, frame: None
        """Called for each frame that is sent: sender, receiver, frame."""
        self.replies: list[Reply] = []
        """Everything that was sent to a client."""
        self.is_calm = False
        """Nothing crashes any more."""
        self.crashes = 0
        self.torn = 0
        self.snapshots = 0
        self._start_coordinator()
        for name in self._members:
            self._start(name)

    # Virtual time.

    def after(self, delay_ns: int, act: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._queue, (self.now_ns + delay_ns, self._number, act))

    def run_until(self, steps_max: int, until: Callable[[], bool]) -> bool:
        """Run until the condition holds. Returns whether it does, within so many steps."""
        for _ in range(steps_max):
            if until():
                return True
            if not self._queue:
                return False
            self.now_ns, _, act = heapq.heappop(self._queue)
            act()
        return until()

    def _time(self, bounds: tuple[int, int]) -> int:
        return self.chance.randint(*bounds)

    # Clients.

    def call(self, client: str, made: MadeCall) -> int:
        door = self.doors[client]
        number, effects = door.call(made, self.now_ns)
        self._carry_out_client(client, effects)
        return number

    def _carry_out_client(self, client: str, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                self._answered(client, effect.reply)
            else:
                self._transmit(client, effect.to, effect.frame)
        due_ns = self.doors[client].next_deadline()
        if due_ns is not None and self._door_ticks.get(client, due_ns + 1) > due_ns:
            self._door_ticks[client] = due_ns
            self.after(max(0, due_ns - self.now_ns), lambda: self._tick_client(client, due_ns))

    def _tick_client(self, client: str, due_ns: int) -> None:
        if self._door_ticks.get(client) == due_ns:
            del self._door_ticks[client]
            self._carry_out_client(client, self.doors[client].handle(Ticked(), self.now_ns))

    # The network.

    def _transmit(self, sender: str, to: str, frame: Any) -> None:
        if isinstance(frame, Reply):
            self.replies.append(frame)
        packed = _PACK(frame)  # As on a connection: what arrives shares nothing with what was sent.
        delay_ns = self._time(self._climate.delay_ns)
        if self.chance.random() < self._climate.slow:
            delay_ns *= 20
        life, its_life = self._life(sender), self._life(to)
        self.after(delay_ns, lambda: self._arrive(sender, life, to, its_life, packed))
        if self.chance.random() < self._climate.repeated:
            again_ns = delay_ns + self.chance.choice((3, 30, 300)) * self._time(self._climate.delay_ns)
            self.after(again_ns, lambda: self._arrive(sender, life, to, its_life, packed))
        self.watch(sender, to, frame)

    def _life(self, name: str) -> int:
        return self.hosts[name].life if name in self.hosts else 0

    def _arrive(self, sender: str, life: int, to: str, its_life: int, packed: bytes) -> None:
        if life != self._life(sender) and self.chance.random() < 0.5:
            return
        if sender == COORDINATOR and its_life != self._life(to):
            return  # It knows processes, and does not order the next one what was for this one.
        event = FrameArrived(sender, _UNPACK(packed))
        if to in self.doors:
            self._carry_out_client(to, self.doors[to].handle(event, self.now_ns))
        elif to == COORDINATOR:
            self._tell_coordinator(event)
        else:
            self._tell(self.hosts[to], event)

    # Workers.

    def _start(self, name: str) -> None:
        host = self.hosts[name]
        host.machine = self._parts.worker(host.number, self._catalog, self._settings, self._parts.within)
        self._tell_coordinator(WorkerUp(name))

    def crash(self, name: str) -> None:
        """The process of a worker ends, and another one starts later."""
        host = self.hosts[name]
        if host.machine is None or self.is_calm:
            return
        self.crashes += 1
        self.torn += host.log.end > host.log.durable
        host.log.tear(self.chance)
        host.machine = None
        host.life += 1
        self.after(self._time(self._climate.delay_ns), lambda: self._report_down(name))
        self.after(self._time(self._climate.restart_ns), lambda: self._start(name))

    def _report_down(self, name: str) -> None:
        if self.hosts[name].machine is None:  # Otherwise its next process has reported already.
            self._tell_coordinator(WorkerDown(name))

    def _tell(self, host: Host, event: Any) -> None:
        if host.machine is None:
            return
        life = host.life
        for effect in host.machine.handle(event, self.now_ns):
            self._carry_out(host, effect)
            if host.life != life:
                return  # It crashed in the midst of it.
        due_ns = host.machine.next_deadline()
        if due_ns is not None and (host.tick_ns is None or due_ns < host.tick_ns):
            host.tick_ns = due_ns
            self.after(max(0, due_ns - self.now_ns), lambda: self._tick(host, due_ns))

    def _tick(self, host: Host, due_ns: int) -> None:
        if host.tick_ns == due_ns:
            host.tick_ns = None
            self._tell(host, Ticked())

    def _later(self, host: Host, delay_ns: int, event: Any) -> None:
        """Tell a worker of something, unless its process has ended by then."""
        life = host.life

        def tell() -> None:
            if host.life == life:
                self._tell(host, event)

        self.after(delay_ns, tell)

    def _carry_out(self, host: Host, effect: Any) -> None:
        match effect:
            case Send(to, frame):
                self._transmit(host.name, to, frame)
            case AppendLog(attempt, data, end):
                self._append(host, attempt, data, end)
            case StorePiece(piece, data):
                self._store(host, piece, data)
            case OpenState(attempt, pieces):
                self._later(host, self._time(self._climate.write_ns), self._opened(host, attempt, pieces))
            case CutLog(end):
                host.log.cut(end)
            case TrimLog(position):
                host.log.trim(position)
            case DropPieces(before):
                host.pieces = {piece: data for piece, data in host.pieces.items() if piece >= before}
            case Refuse():
                pass

    def _opened(self, host: Host, attempt: int, pieces: list[Piece]) -> StateOpened:
        host.log.durable = host.log.end
        read = [host.pieces[piece] for piece in pieces]
        return StateOpened(attempt, read, bytes(host.log.data), host.log.begin)

    def _append(self, host: Host, attempt: int, data: bytes, end: int) -> None:
        host.log.data += data
        life = host.life

        def written() -> None:
            if host.life == life:
                host.log.durable = max(host.log.durable, end)
                self._tell(host, LogWritten(attempt, end))

        self.after(self._time(self._climate.write_ns), written)

    def _store(self, host: Host, piece: Piece, data: bytes) -> None:
        life = host.life

        def stored() -> None:
            if host.life == life or self.chance.random() < 0.5:
                host.pieces[piece] = data
            if host.life == life:
                self._tell(host, PieceStored(piece))

        self.after(5 * self._time(self._climate.write_ns), stored)

    # The coordinator.

    def _start_coordinator(self) -> None:
        self._coordinators += 1
        first = self._coordinators * ATTEMPTS_MAX
        self._coordinator = self._parts.coordinator(self._members, first, self._manifest)
        for name, host in self.hosts.items():
            if host.machine is not None:
                self._tell_coordinator(WorkerUp(name))

    def crash_coordinator(self) -> None:
        if self._coordinator is None or self.is_calm:
            return
        self.crashes += 1
        self._coordinator = None
        self.after(self._time(self._climate.restart_ns), self._start_coordinator)

    def _tell_coordinator(self, event: Any) -> None:
        if self._coordinator is None:
            return
        for effect in self._coordinator.handle(event):
            if isinstance(effect, Send):
                self._transmit(COORDINATOR, effect.to, effect.frame)
            elif isinstance(effect, WriteManifest):
                self._write_manifest(self._coordinator, effect.manifest)

    def _write_manifest(self, coordinator: TransactionCoordinator, manifest: Manifest) -> None:
        def written() -> None:
            is_newer = self._manifest is None or manifest.epoch > self._manifest.epoch
            if is_newer and (self._coordinator is coordinator or self.chance.random() < 0.5):
                self._manifest = manifest
                self.snapshots += 1
            if self._coordinator is coordinator:
                self._tell_coordinator(ManifestWritten(manifest))

        self.after(self._time(self._climate.write_ns), written)

    # For the checks.

    def has_finished(self, epoch: int) -> bool:
        """Returns whether all workers are there, and have finished this epoch."""
        return all(host.machine is not None and host.machine.finished >= epoch for host in self.hosts.values())

    @property
    def is_idle(self) -> bool:
        """Returns whether no worker has anything to do, now or later."""
        return all(
            host.machine is not None and host.machine.finished >= 0 and host.machine.is_idle
            for host in self.hosts.values()
        )

    def state(self) -> dict[EntityName, bytes]:
        """Returns the fields of all entities."""
        found: dict[EntityName, bytes] = {}
        for host in self.hosts.values():
            if host.machine is not None:
                found.update(host.machine.state)
        return found
