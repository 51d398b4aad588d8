"""The homes of elastic executors: which shards move, when, and what came of it."""

from __future__ import annotations

from typing import Protocol

from stretto.actors.executor import TASKS_MAX, Executor, Move, Order
from stretto.actors.gate import Lessee, LessorGate
from stretto.actors.seat import Phase, Seat
from stretto.actors.shards import SHARDS
from stretto.protocol.elastic import Give, MoveShards, ShardsMoved, Taken
from stretto.protocol.machines import Send
from stretto.protocol.membership import COORDINATOR
from stretto.worker.interfaces import HostsOf
from stretto.worker.leasing.programs import Programs
from stretto.worker.leasing.rules import Rules
from stretto.worker.local_job import LocalJob
from stretto.worker.part import FrameHandlers, Host, Part

SHARDS_AT_ONCE = 8
"""So many shards with the same old and new owner move together; the rows of the others do not wait meanwhile."""


class MovingRows(Protocol):
    """Whoever has the rows of shards on the move."""

    def recall(self, seat: Seat, executor: Executor, source: str) -> None: ...

    def release(self, seat: Seat, executor: Executor) -> None: ...


class Leases(Protocol):
    """Whoever gives leases."""

    def grant_lease(self, seat: Seat, gate: LessorGate, member: str) -> Lessee: ...


class Hosting(HostsOf, Protocol):
    """Whoever knows where tasks may be, and gives gates."""

    def guard(self, seat: Seat) -> None: ...


class Activating(Protocol):
    """Whoever asks downstream before the first task."""

    def ask(self, home: Seat, gate: LessorGate) -> None: ...


class Homes(Part):
    """The elastic executors whose home is here."""

    def __init__(
        self,
        host: Host,
        routing: MovingRows,
        rules: Rules,
        programs: Programs,
        leases: Leases,
        hosting: Hosting,
        activation: Activating,
    ) -> None:
        self._host = host
        self._routing = routing
        self._rules = rules
        self._programs = programs
        self._leases = leases
        self._hosting = hosting
        self._activation = activation

    def frames(self) -> FrameHandlers:
        return {MoveShards: self._on_order, Taken: self._on_taken}

    # Orders.

    def _on_order(self, sender: str, frame: MoveShards) -> None:
        job = self._host.jobs.get(frame.actor.job)
        seat = job.seats.get(frame.actor) if job is not None else None
        if seat is None:
            self._host.stale += 1
            return
        refused = self._refused(seat, frame)
        if refused is not None:
            self._report(ShardsMoved(frame.actor, frame.order, 0, refused=refused))
            return
        self._add(seat, frame.order, dict(frame.moves))
        self.go_on(seat)

    def _refused(self, seat: Seat, frame: MoveShards) -> str | None:
        if not seat.spec.tasks_max:
            return "the function is not elastic"
        if seat.phase is not Phase.OPEN:
            return f"the actor is {seat.phase.value}"
        hosts = {self._host.member, *self._hosting.hosts(seat)}
        unknown = sorted({member for _, member in frame.moves} - hosts)
        if unknown:
            return f"{', '.join(unknown)} cannot have a task of it"
        if any(not 0 <= shard < SHARDS for shard, _ in frame.moves):
            return f"shards are numbered from 0 to {SHARDS - 1}"
        owners = [] if seat.executor is None else seat.executor.all_owners()
        for shard, member in frame.moves if owners else ():
            owners[shard] = member
        tasks = set(owners or (member for _, member in frame.moves))
        if len(tasks - {self._host.member}) > min(seat.spec.tasks_max, TASKS_MAX):
            return f"at most {seat.spec.tasks_max} workers besides its home may have tasks of it"
        return None

    def _add(self, seat: Seat, number: int, targets: dict[int, str]) -> None:
        """Queue the moves of an order, those with the same source and target together."""
        executor = seat.executor or self._activate(seat)
        queued = [*([executor.move] if executor.move is not None else []), *executor.moves]
        expected = {shard: move.target for move in queued for shard in move.shards}
        groups: dict[tuple[str, str], list[int]] = {}
        owners = executor.all_owners()
        for shard, target in sorted(targets.items()):
            source = expected.get(shard) or owners[shard]
            if source != target:
                groups.setdefault((source, target), []).append(shard)
        order = executor.orders[number] = Order(number, 0)
        for (source, target), shards in groups.items():
            for first in range(0, len(shards), SHARDS_AT_ONCE):
                executor.moves_made += 1
                chosen = tuple(shards[first : first + SHARDS_AT_ONCE])
                executor.moves.append(Move(executor.moves_made, number, chosen, source, target))
                order.left += 1
        self._finish_order(seat, executor, order)

    def _activate(self, seat: Seat) -> Executor:
        executor = seat.executor = Executor(self._host.member)
        metrics = seat.metrics
        executor.row_ns = metrics.busy_ns / metrics.rows_in if metrics.rows_in else 0.0
        self._hosting.guard(seat)
        assert isinstance(seat.gate, LessorGate)
        self._activation.ask(seat, seat.gate)
        return executor

    def evacuate(self, seat: Seat) -> None:
        """Let shards come home from workers that may not have tasks any more, also those that are on their way
        there."""
        executor = seat.executor
        if executor is None or seat.phase is not Phase.OPEN:
            return
        hosts = {self._host.member, *self._hosting.hosts(seat)}
        owners = self._queue_only(seat, executor, hosts)
        shards = [shard for shard, owner in owners.items() if owner not in hosts]
        if shards:
            self._add(seat, -1 - executor.moves_made, dict.fromkeys(shards, self._host.member))
            self.go_on(seat)

    def _queue_only(self, seat: Seat, executor: Executor, hosts: set[str]) -> dict[int, str]:
        """Drop queued moves to other workers than these, and from where those would have brought shards; returns who
        owns each shard when the rest is done."""
        owners = dict(enumerate(executor.all_owners()))
        if executor.move is not None:
            owners.update(dict.fromkeys(executor.move.shards, executor.move.target))
        queued = list(executor.moves)
        executor.moves.clear()
        for move in queued:
            shards = tuple(shard for shard in move.shards if owners[shard] == move.source)
            if shards and move.target in hosts:
                owners.update(dict.fromkeys(shards, move.target))
                executor.moves.append(Move(move.number, move.order, shards, move.source, move.target))
            else:
                self._moved(seat, executor, move, 0)
        return owners

    # Moves.

    def go_on(self, seat: Seat) -> None:
        """Begin the next move, if it may begin now."""
        executor, gate = seat.executor, seat.gate
        if executor is None or not isinstance(gate, LessorGate):
            return
        while executor.moves and self._rules.may_move(seat, gate):
            move = executor.moves.popleft()
            if executor.owner(move.shards[0]) != move.source:
                self._moved(seat, executor, move, 0)  # The move that was to bring them there was refused.
                continue
            if move.target != executor.home and move.target not in gate.lessees:
                self._leases.grant_lease(seat, gate, move.target)
            executor.begin(move)
            self._routing.recall(seat, executor, move.source)
            move.began_ns = self._host.now_ns
            last = () if move.source == executor.home else tuple(self._programs.forwarded(move.source, gate))
            give = Give(seat.address, move.number, move.shards, move.target, last, executor.generation)
            self._host.send(move.source, give)
        if executor.is_idle:
            seat.executor = None

    def _on_taken(self, sender: str, frame: Taken) -> None:
        seat = self._host.seat_of(frame.actor)
        executor = seat.executor if seat is not None else None
        if seat is None or executor is None or executor.move is None or executor.move.number != frame.move:
            self._host.stale += 1
            return
        move = executor.move
        executor.end(move)
        self._routing.release(seat, executor)
        self._moved(seat, executor, move, frame.bytes)
        self.go_on(seat)
        self._host.offer(seat)  # A barrier may have waited for the move.

    def _moved(self, seat: Seat, executor: Executor, move: Move, size: int) -> None:
        order = executor.orders.get(move.order)
        if order is None:
            return
        order.left -= 1
        if move.began_ns:
            order.moved += len(move.shards)
            order.bytes += size
            order.waited_ns += len(move.shards) * (self._host.now_ns - move.began_ns)
        self._finish_order(seat, executor, order)

    def _finish_order(self, seat: Seat, executor: Executor, order: Order) -> None:
        if not order.left:
            del executor.orders[order.number]
            if order.number >= 0:
                self._report(ShardsMoved(seat.address, order.number, order.moved, order.waited_ns, order.bytes))

    def _report(self, frame: ShardsMoved) -> None:
        self._host.effects.append(Send(COORDINATOR, frame))

    def finished(self, seat: Seat) -> None:
        """An actor whose input has ended moves no more shards."""
        executor = seat.executor
        if executor is not None:
            executor.moves.clear()
            for order in executor.orders.values():
                refused = "the input of the actor has ended"
                self._report(ShardsMoved(seat.address, order.number, order.moved, refused=refused))
            seat.executor = None

    def dropped(self, job: LocalJob) -> None:
        for seat in job.seats.values():
            seat.executor = None
