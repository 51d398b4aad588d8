"""Variants of elastic executors with one bug each. The checkers must catch every one, or they check nothing."""

from __future__ import annotations

from msgspec.structs import replace
from pyarrow import RecordBatch

from stretto.actors.executor import HELD, Executor, Routed
from stretto.actors.gate import LessorGate
from stretto.actors.seat import Seat
from stretto.actors.tasks import GiveShards, Route, TakeShards, TaskBarrier, give, take
from stretto.actors.work import Outcome, Work
from stretto.protocol.elastic import Following, Give, GiveMore, Given
from stretto.protocol.leasing import SyncRequest
from stretto.simulator.checking.mutations import mutation_name, worker_with
from stretto.worker.elastic.activation import Activation
from stretto.worker.elastic.homes import Homes
from stretto.worker.elastic.owners import Owners
from stretto.worker.elastic.routing import Routing
from stretto.worker.leasing.lessees import Lessees
from stretto.worker.leasing.rules import Rules
from stretto.worker.machine import WorkerParts
from stretto.worker.snapshots import Snapshots


class RouteBeforeLabel(Homes):
    """Rows go to the new owner of a shard as soon as it begins to move."""

    def go_on(self, seat: Seat) -> None:
        super().go_on(seat)
        executor = seat.executor
        if executor is not None and executor.move is not None:
            executor.routes[list(executor.move.shards)] = executor.place_of(executor.move.target)


class HeldLost(Routing):
    """Rows that waited at the home for a shard are lost."""

    def release(self, seat: Seat, executor: Executor) -> None:
        for routed, _ in executor.held:
            self._done(routed)
        executor.held = []


class HeldLast(Routing):
    """Rows that waited at the home for a shard run after those that came later."""

    def release(self, seat: Seat, executor: Executor) -> None:
        executor.held.reverse()
        super().release(seat, executor)


class StaleRoutes(Routing):
    """A message that was being divided when a move began goes by the former routes."""

    def _routed(self, seat: Seat, errand: Route, outcome: Outcome) -> None:
        if seat.executor is not None and all(place != HELD for place, _ in outcome.parts):
            errand.version = seat.executor.version
        super()._routed(seat, errand, outcome)


class QueuedForgotten(Routing):
    """Rows of a moving shard that wait for credits go to its old owner after the label."""

    def recall(self, seat: Seat, executor: Executor, source: str) -> None:
        pass


class OwnRowsUnsettled(Routing):
    """A part that runs at the home counts as done before it has run, so that a barrier does not wait for it."""

    def _go(self, seat: Seat, executor: Executor, routed: Routed, place: int, batch: RecordBatch) -> None:
        super()._go(seat, executor, routed, place, batch)
        if place == 0:
            self._done(routed)

    def _done(self, routed: Routed) -> None:
        if routed.left > 0:
            super()._done(routed)


class GiveEarly(Rules):
    """The state of a shard leaves before all its rows have run."""

    def may_give(self, seat: Seat, frame: Give) -> bool:
        return True


class MoveDuringBarrier(Rules):
    """Shards move while a barrier is due or under way."""

    def may_move(self, seat: Seat, gate: LessorGate) -> bool:
        assert seat.executor is not None
        return seat.executor.move is None

    def has_arrived(self, seat: Seat) -> bool:
        return True


class BarrierDuringMove(Rules):
    """A barrier begins while the state of a shard is under way."""

    def has_arrived(self, seat: Seat) -> bool:
        return True


class Overtaking(Rules):
    """What the new owner of a shard sends may run before what the old one sent."""

    def may_follow(self, message: object) -> bool:
        return True


class NothingFollowed(Owners):
    """The old owner of a shard does not say how far it has sent downstream."""

    def following(self, seat: Seat) -> list[Following]:
        return []


class NobodyAsked(Activation):
    """An actor gets its first task while critical messages that it has sent wait downstream."""

    def ask(self, home: Seat, gate: LessorGate) -> None:
        pass


class TwoOwners(Owners):
    """The old owner of a shard keeps its state as well."""

    def _gave(self, seat: Seat, errand: GiveShards, outcome: Outcome) -> None:
        super()._gave(seat, errand, outcome)
        assert outcome.states is not None
        take(seat.instance, TakeShards(errand.move, outcome.states), self._host.now_ns)


class StateLost(Owners):
    """The new owner of a shard starts with empty state."""

    def _on_given(self, sender: str, frame: Given) -> None:
        seat = self._host.seat_of(frame.actor) or self._hosting.lessee(frame.actor)
        if seat is not None:
            nothing = give(seat.instance, GiveShards(frame.move, (), ""), self._host.now_ns).states
            super()._on_given(sender, replace(frame, piece=0, pieces=1, states=nothing or b""))


class WrongPiece(Owners):
    """Asked for the next piece of a state, the old owner of a shard sends the one before it again."""

    def _on_give_more(self, sender: str, frame: GiveMore) -> None:
        leaving = self._leaving[frame.actor, frame.move]
        again = leaving.given(frame.actor, frame.move, frame.piece - 1)
        self._host.send(leaving.target, again)


class RestUnasked(Owners):
    """The new owner of a shard does not ask for what follows the first piece of its state."""

    def _on_given(self, sender: str, frame: Given) -> None:
        if not frame.piece and frame.pieces > 1:
            self._arriving[frame.actor, frame.move] = [frame.states]
            return
        super()._on_given(sender, frame)


class TaskSkipsBarrier(Lessees):
    """A task does not run critical messages on its own shards."""

    def _on_sync_request(self, sender: str, frame: SyncRequest) -> None:
        super()._on_sync_request(sender, replace(frame, steps=()))


class PartNotStored(Snapshots):
    """The part of a task is not in the checkpoint."""

    def _passed(self, seat: Seat, work: Work, outcome: Outcome) -> None:
        gate = seat.gate
        members = list(gate.members) if isinstance(gate, LessorGate) else []
        if isinstance(gate, LessorGate):
            gate.members = []
        super()._passed(seat, work, outcome)  # type: ignore[arg-type]
        if isinstance(gate, LessorGate):
            gate.members = members

    def _task_passed(self, seat: Seat, work: TaskBarrier, outcome: Outcome) -> None:
        pass


_NEEDS_FAULTS = (PartNotStored,)
"""Bugs that only show when an app resumes from a checkpoint."""

_ALL = (
    RouteBeforeLabel,
    HeldLost,
    HeldLast,
    StaleRoutes,
    QueuedForgotten,
    OwnRowsUnsettled,
    GiveEarly,
    MoveDuringBarrier,
    BarrierDuringMove,
    Overtaking,
    NothingFollowed,
    NobodyAsked,
    TwoOwners,
    StateLost,
    WrongPiece,
    RestUnasked,
    TaskSkipsBarrier,
)

ELASTIC_MUTATIONS: dict[str, WorkerParts] = {mutation_name(each): worker_with(each) for each in _ALL}
ELASTIC_FAULT_MUTATIONS: dict[str, WorkerParts] = {mutation_name(each): worker_with(each) for each in _NEEDS_FAULTS}
