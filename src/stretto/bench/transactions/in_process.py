"""The machines of transactions in one process: no Spark, no sockets, no files; the processor time of each is counted.

Frames are encoded and decoded as on a connection. A **turn** of a machine is everything that has come for it; what it
appended to its log in a turn is durable before its next one, as by one group commit. Time is virtual, so that a run
depends on its calls alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from time import process_time_ns
from typing import Any

import msgspec

from stretto.bench.transactions.service import Fields
from stretto.errors import InvariantError
from stretto.protocol.machines import FrameArrived, Send, Ticked
from stretto.protocol.transactions import Reply, TransactionFrame
from stretto.transactions.activation import MadeCall
from stretto.transactions.attempt import Settings, WorkerParts
from stretto.transactions.catalog import Catalog
from stretto.transactions.coordinating import TransactionCoordinator
from stretto.transactions.door import Door
from stretto.transactions.entity import Entity
from stretto.transactions.events import (
    Answer,
    AppendLog,
    LogWritten,
    ManifestWritten,
    OpenState,
    PieceStored,
    StateOpened,
    StorePiece,
    WorkerUp,
    WriteManifest,
)
from stretto.transactions.machine import COORDINATOR, TransactionWorker

_PACK = msgspec.msgpack.Encoder().encode
_UNPACK = msgspec.msgpack.Decoder(TransactionFrame).decode
CLIENT = "client"
TURN_NS = 100_000
"""By how much the time goes on when all machines have had a turn."""
NEVER_NS = 1 << 60
IDLE_TURNS_MAX = 100_000
"""So many turns without an answer are a run that does not end."""


def packed(frame: Any) -> list[bytes]:
    """Returns a frame as it is sent: whole."""
    return [_PACK(frame)]


def unpacked(frames: list[bytes]) -> Any:
    """Returns what was sent in these frames."""
    if len(frames) == 1:
        return _UNPACK(frames[0])
    whole = _UNPACK(frames[0])
    for each in frames[1:]:
        part = _UNPACK(each).body
        for name in ("calls", "returns", "shares"):
            getattr(whole.body, name).extend(getattr(part, name))
    return whole


@dataclass
class Process:
    """A worker, what has come for it, and what it has used."""

    name: str
    machine: TransactionWorker
    pack: Callable[[Any], list[bytes]]
    frames: list[tuple[str, list[bytes]]] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    """Of its log and snapshots."""
    sent: list[tuple[str, list[bytes]]] = field(default_factory=list)
    log_bytes: int = 0
    cpu_ns: int = 0
    frames_sent: int = 0

    def turn(self, now_ns: int) -> None:
        due_ns = self.machine.next_deadline()
        if not self.frames and not self.events and (due_ns is None or due_ns > now_ns):
            return
        began_ns = process_time_ns()
        frames, self.frames = self.frames, []
        events, self.events = self.events, []
        handle = self.machine.handle
        effects: list[Any] = []
        for event in events:
            effects += handle(event, now_ns)
        for sender, sent in frames:
            effects += handle(FrameArrived(sender, unpacked(sent)), now_ns)
        due_ns = self.machine.next_deadline()
        if due_ns is not None and due_ns <= now_ns:
            effects += handle(Ticked(), now_ns)
        self._carry_out(effects)
        self.cpu_ns += process_time_ns() - began_ns

    def _carry_out(self, effects: list[Any]) -> None:
        appended: AppendLog | None = None
        for effect in effects:
            if isinstance(effect, Send):
                frames = self.pack(effect.frame)
                self.sent.append((effect.to, frames))
                self.frames_sent += len(frames)
            elif isinstance(effect, AppendLog):
                appended = effect
                self.log_bytes += len(effect.data)
            elif isinstance(effect, StorePiece):
                self.events.append(PieceStored(effect.piece))
            elif isinstance(effect, OpenState):
                self.events.append(StateOpened(effect.attempt, [], b"", 0))
        if appended is not None:
            self.events.append(LogWritten(appended.attempt, appended.end))

    def take_sent(self) -> list[tuple[str, list[bytes]]]:
        sent, self.sent = self.sent, []
        return sent


class InProcess:
    """Entities on some workers in this process. `open_max` calls are open at once."""

    def __init__(
        self,
        entities: Iterable[type[Entity]],
        workers: int,
        settings: Settings | None = None,
        parts: WorkerParts | None = None,
        open_max: int = 400,
        worker: type[TransactionWorker] = TransactionWorker,
        pack: Callable[[Any], list[bytes]] = packed,
    ) -> None:
        self._catalog = Catalog(entities)
        names = [f"w{number}" for number in range(1, workers + 1)]
        self._hosts = {
            name: Process(name, worker(number, self._catalog, settings or Settings(), parts), pack)
            for number, name in enumerate(names, 1)
        }
        self._coordinator = TransactionCoordinator(names, 0, None)
        self._door = Door(CLIENT, self._catalog, names, NEVER_NS)
        self._open_max = open_max
        self._now_ns = 1_000_000_000
        self._to_client: list[list[bytes]] = []
        self._answers: dict[int, Reply] = {}
        self._sent_ns: dict[int, int] = {}
        self.waits_ns: list[int] = []
        """How long each call has waited for its reply, in virtual time."""
        self.client_cpu_ns = 0
        for name in names:
            self._tell_coordinator(WorkerUp(name))
        while any(host.machine.finished < 0 for host in self._hosts.values()):
            self._workers_turn()

    # The service.

    def map(self, calls: Sequence[MadeCall]) -> list[Reply]:
        """Run these calls, up to `open_max` of them at once."""
        numbers: list[int] = []
        waiting = iter(calls)
        began = len(self._answers)
        idle = 0
        while len(self._answers) - began < len(calls):
            before = len(self._answers)
            self._client_turn(islice(waiting, self._open_max - (len(numbers) - (before - began))), numbers)
            self._workers_turn()
            idle = 0 if len(self._answers) > before else idle + 1
            if idle > IDLE_TURNS_MAX:
                raise InvariantError("calls are not answered", f"{len(calls) - len(self._answers) + began} are open")
        return [self._answers.pop(number) for number in numbers]

    def rows(self, kind: type[Entity]) -> dict[str, Fields]:
        return {
            name.key: msgspec.msgpack.decode(state)
            for host in self._hosts.values()
            for name, state in host.machine.state.items()
            if name.kind == kind.__name__
        }

    # What was used.

    @property
    def workers_cpu_s(self) -> float:
        """The processor time of all workers so far."""
        return sum(host.cpu_ns for host in self._hosts.values()) / 1e9

    @property
    def frames_sent(self) -> int:
        """How many frames the workers have sent so far, replies included."""
        return sum(host.frames_sent for host in self._hosts.values())

    # Turns.

    def _client_turn(self, calls: Iterable[MadeCall], numbers: list[int]) -> None:
        began_ns = process_time_ns()
        arrived, self._to_client = self._to_client, []
        for frames in arrived:
            for effect in self._door.handle(FrameArrived("", unpacked(frames)), self._now_ns):
                if isinstance(effect, Answer):
                    self._answers[effect.reply.number] = effect.reply
                    self.waits_ns.append(self._now_ns - self._sent_ns.pop(effect.reply.number))
        for made in calls:
            number, effects = self._door.call(made, self._now_ns)
            numbers.append(number)
            self._sent_ns[number] = self._now_ns
            for send in effects:
                self._hosts[send.to].frames.append((CLIENT, packed(send.frame)))
        self.client_cpu_ns += process_time_ns() - began_ns

    def _workers_turn(self) -> None:
        for host in self._hosts.values():
            host.turn(self._now_ns)
        for host in self._hosts.values():
            self._deliver(host.name, host.take_sent())
        self._now_ns += TURN_NS

    def _deliver(self, sender: str, sent: Iterable[tuple[str, list[bytes]]]) -> None:
        for to, frames in sent:
            if to == CLIENT:
                self._to_client.append(frames)
            elif to == COORDINATOR:
                self._tell_coordinator(FrameArrived(sender, unpacked(frames)))
            else:
                self._hosts[to].frames.append((sender, frames))

    def _tell_coordinator(self, event: Any) -> None:
        for effect in self._coordinator.handle(event):
            if isinstance(effect, Send):
                self._hosts[effect.to].frames.append((COORDINATOR, packed(effect.frame)))
            elif isinstance(effect, WriteManifest):
                self._tell_coordinator(ManifestWritten(effect.manifest))
