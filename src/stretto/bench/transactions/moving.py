"""A place that moves while transactions run: in one process, so that the processor time that calls wait is counted.

The place has many entities, most of which nobody calls. It moves again and again, at full load, and between two
moves and during each one transactions run. `waited_ms` is the processor time from the turn in which the place is handed
over to the end of that in which its next process has it: whatever calls wait for besides is the disk and the network.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from stretto.bench.transactions.in_process import CLIENT, InProcess, Process, packed, unpacked
from stretto.bench.transactions.workload import Run, Workload
from stretto.protocol.transactions import Call, Copied, Copy, CopyOut, EntityName, Switch, TakenOver, Takeover
from stretto.runtime.garbage import calm_garbage_collector
from stretto.transactions.attempt import Settings
from stretto.transactions.catalog import Catalog
from stretto.transactions.entity import Entity
from stretto.transactions.machine import COORDINATOR, OTHER_PROCESS, TransactionWorker

ATTEMPT = 1
CALLS_BETWEEN = 500


class Ballast(Entity):
    """An entity that nobody calls."""

    text: str = ""


@dataclass(frozen=True)
class Moves:
    """What moves have cost."""

    workload: str
    match: bool
    problems: list[str]
    entities: int
    transactions: int
    moves: int
    parts: int
    """Of the copies, altogether."""
    waited_ms: list[float]
    """By move."""
    waited_ms_max: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class PassesOn(TransactionWorker):
    """A process that keeps the calls which come when its place has moved: on a cluster they are passed on."""

    def __init__(self, *args: Any) -> None:
        self.passed: list[Call] = []
        super().__init__(*args)

    def _on_call(self, sender: str, frame: Call) -> None:
        if self._own is None:
            self.passed.append(frame)
        else:
            super()._on_call(sender, frame)


class OnTheMove(InProcess):
    """The entities of one place, which moves between two processes."""

    def __init__(self, entities: Iterable[type[Entity]], ballast: int) -> None:
        self._kinds = kinds = [*entities, Ballast]
        self._next: Process | None = None
        self._handed_over_ns = 0
        self.moves = self.parts = 0
        self.waited_ms: list[float] = []
        super().__init__(kinds, 1, worker=PassesOn)
        one = Catalog(kinds).kind("Ballast")
        instance: Any = one.instance("", None)
        instance.text = "ballast"
        encoded = one.encode(instance, None)
        assert encoded is not None
        self._place.machine.state.update((EntityName("Ballast", f"b{n}"), encoded) for n in range(ballast))

    @property
    def _place(self) -> Process:
        return self._hosts["w1"]

    @property
    def is_moving(self) -> bool:
        return self._next is not None

    def begin_move(self) -> None:
        self._next = Process("w1", PassesOn(1, Catalog(self._kinds), Settings()), packed)
        self._place.frames.append((COORDINATOR, packed(CopyOut(ATTEMPT))))

    def _workers_turn(self) -> None:
        before_ns = self._place.cpu_ns
        super()._workers_turn()
        if self._next is None:
            return
        if self._next.frames and self._handed_over_ns == -1:
            self._handed_over_ns = self._place.cpu_ns - before_ns
        began_ns = self._next.cpu_ns
        self._next.turn(self._now_ns)
        took_ns = self._next.cpu_ns - began_ns
        for to, frames in self._next.take_sent():
            if to == OTHER_PROCESS:
                self._place.frames.append((OTHER_PROCESS, frames))
            elif to == COORDINATOR and isinstance(unpacked(frames), TakenOver):
                self.waited_ms.append((self._handed_over_ns + took_ns) / 1e6)
                self.moves += 1
                passed = self._place.machine.passed if isinstance(self._place.machine, PassesOn) else []
                self._next.frames += [(CLIENT, packed(call)) for call in passed]
                self._next.frames += self._place.frames
                self._hosts["w1"], self._next = self._next, None
                self._handed_over_ns = 0
                break
            else:
                super()._deliver("w1", [(to, frames)])

    def _deliver(self, sender: str, sent: Iterable[tuple[str, list[bytes]]]) -> None:
        for to, frames in sent:
            if to == OTHER_PROCESS:
                assert self._next is not None
                frame = unpacked(frames)
                self.parts += isinstance(frame, Copy)
                self._handed_over_ns = -1 if isinstance(frame, Takeover) else 0
                self._next.frames.append((OTHER_PROCESS, frames))
            elif to == COORDINATOR and isinstance(unpacked(frames), Copied):
                self._place.frames.append((COORDINATOR, packed(Switch(ATTEMPT))))
            else:
                super()._deliver(sender, [(to, frames)])


def moved(workload: Workload, entities: int, moves: int, seed: int = 1) -> Moves:
    """Have a place with so many entities move so often, under load."""
    service = OnTheMove(workload.entities, entities)
    run = Run(service, workload, seed)
    with calm_garbage_collector():
        while service.moves < moves:
            run.more(CALLS_BETWEEN)
            service.begin_move()
            while service.is_moving:
                run.more(CALLS_BETWEEN)
    problems = run.problems()
    return Moves(
        workload.name,
        not problems,
        problems,
        entities,
        len(run.done),
        service.moves,
        service.parts,
        [round(each, 1) for each in service.waited_ms],
        round(max(service.waited_ms), 1),
    )
