"""Takes decisions back that made it worse: the opposite decision, and no repetition for a while.

A decision is judged by the values of its record (`effects.py`) when its effect is measured, and once more as long
afterwards; it is taken back if both say so. It made it worse if

- more than twice as many messages wait as before, and at least `WAITING_MIN` more, or its load is less even by a
  quarter while one of its workers is full;
- neither its input nor its load rose by a tenth, which would explain that;
- an actor that was given more workers also gets fewer rows done: each task has a queue of its own, so that more
  messages wait while more are done;
- and taking it back is better by what is seen now: for moves of shards, the present costs of the shards and how full
  the workers are decide that. So a balancer is not blamed for keys that have become hot since.

What a user asked for, what empties a worker, and what takes a decision back is not judged. The rule knows no
controller, so it holds for all of them, at any timescale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stretto.elasticity.balancing import imbalance
from stretto.elasticity.decisions import Decision, MoveShards, Repartition, SetWorkers, ShardMove
from stretto.elasticity.effects import actual_imbalance, measured_effect
from stretto.elasticity.records import Candidate, DecisionRecord, Trigger
from stretto.elasticity.view import ActorView, ElasticView

NAME = "reverting"
Revertible = MoveShards | SetWorkers | Repartition
"""Asks for capacity and numbers of lessees are not: who decides about whole jobs goes back to whole configurations."""
REST_NS = 60_000_000_000
"""For so long a decision that was taken back is not repeated."""
WAITING_MIN = 16.0
NOISE = 0.1
UNEVEN = 1.25
FULL = 0.9
"""A worker that is busy for this share of the time has nothing left."""
UNJUDGED = (Trigger.ASKED, Trigger.LEAVING, Trigger.REVERTED)

QUEUE = "more messages wait than before it, and its input did not rise"
UNEVENNESS = "its load is less even than before it, and a worker is full"


@dataclass(frozen=True, slots=True)
class _Known:
    """A decision that was carried out, and its opposite."""

    record: DecisionRecord
    opposite: Revertible
    again_ns: int | None = None
    """When it is looked at again, once it has looked worse."""


class Reverting:
    """Remembers decisions by their numbers until they are judged, and for a while those that were taken back."""

    def __init__(self, rest_ns: int = REST_NS) -> None:
        self._rest_ns = rest_ns
        self._known: dict[int, _Known] = {}
        self._taken_back: list[tuple[int, DecisionRecord]] = []

    def refused(self, record: DecisionRecord, now_ns: int) -> str | None:
        """Returns why a decision is not to be carried out now: it repeats one that was taken back; None if it does
        not."""
        self._taken_back = [each for each in self._taken_back if now_ns - each[0] < self._rest_ns]
        if record.trigger in UNJUDGED:
            return None
        for at_ns, earlier in self._taken_back:
            if _repeats(record, earlier):
                return f"the same was taken back {(now_ns - at_ns) / 1e9:.0f} s ago, because it made it worse"
        return None

    def began(self, number: int, record: DecisionRecord, view: ElasticView) -> None:
        """A decision is carried out; `view` is what was seen before."""
        if record.decision is None or record.measure_at_ns is None or record.trigger in UNJUDGED:
            return
        opposite = _opposite(record.decision, view)
        if opposite is not None:
            self._known[number] = _Known(record, opposite)

    def measured(self, number: int, view: ElasticView, now_ns: int) -> None:
        """The effect of a decision was measured: it is suspected if it looks worse."""
        known = self._known.pop(number, None)
        if known is not None and self._is_worse(known, view) is not None:
            assert known.record.measure_at_ns is not None
            again_ns = now_ns + known.record.measure_at_ns - known.record.at_ns
            self._known[number] = _Known(known.record, known.opposite, again_ns)

    def next_ns(self) -> int | None:
        """Returns when a decision is to be looked at again."""
        return min((known.again_ns for known in self._known.values() if known.again_ns is not None), default=None)

    def due(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        """Returns the decisions that take others back now; `reverts` is the number of the one that it takes back."""
        found = []
        for number, known in list(self._known.items()):
            if known.again_ns is None or now_ns < known.again_ns:
                continue
            del self._known[number]
            because = self._is_worse(known, view)
            opposite = _applicable(known, view) if because is not None else None
            if because is not None and opposite is not None:
                self._taken_back.append((now_ns, known.record))
                found.append(_record(known.record, number, because, opposite, view, now_ns))
        return found

    def forget(self, number: int) -> None:
        """A decision was not carried out."""
        self._known.pop(number, None)

    def _is_worse(self, known: _Known, view: ElasticView) -> str | None:
        """Returns in what way it is worse than before a decision; None if it is not, or not for that reason."""
        before, after = known.record.seen, measured_effect(view, known.record)
        if after is None or any(_rose(before, after, name) for name in ("rows_per_s", "load")):
            return None
        waiting, decision = before.get("waiting", 0.0), known.record.decision
        is_queue = after["waiting"] > max(2 * waiting, waiting + WAITING_MIN)
        if not isinstance(decision, MoveShards):
            grew = after["workers"] > before.get("workers", 0.0) and not _fell(before, after, "rows_per_s")
            return QUEUE if is_queue and not grew else None
        actor = view.by_address.get(decision.address)
        if actor is None or not _undone_is_better(decision, actor, view):
            return None
        is_uneven = after["imbalance"] > UNEVEN * before.get("imbalance", after["imbalance"])
        return QUEUE if is_queue else UNEVENNESS if is_uneven and _full(set(actor.shards.owners), view) else None


def _rose(before: Mapping[str, float], after: Mapping[str, float], name: str) -> bool:
    return after[name] > before.get(name, after[name]) * (1 + NOISE)


def _fell(before: Mapping[str, float], after: Mapping[str, float], name: str) -> bool:
    return after[name] < before.get(name, after[name]) * (1 - NOISE)


def _full(workers: set[str], view: ElasticView) -> bool:
    return any(view.workers[name].busy_share >= FULL for name in workers if name in view.workers)


def _undone_is_better(decision: MoveShards, actor: ActorView, view: ElasticView) -> bool:
    """Returns whether the shards would be better where they were, by their present costs: the load would be more even,
    or they have come to full workers from ones that are not."""
    targets, sources = {move.target for move in decision.moves}, {move.source for move in decision.moves}
    if _full(targets, view) and not _full(sources, view):
        return True
    back = {move.shard: move.source for move in decision.moves}
    loads: dict[str, float] = dict.fromkeys((*actor.workers, *sources), 0.0)
    shards = actor.shards
    for shard, owner, cost_ns in zip(shards.numbers, shards.owners, shards.costs_ns, strict=True):
        place = back.get(shard, owner)
        loads[place] = loads.get(place, 0.0) + cost_ns / 1e9
    undone = imbalance(list(loads.values()), [float(name in actor.workers) for name in loads])
    return undone * (1 + NOISE / 2) < actual_imbalance(actor)


def _opposite(decision: Decision, view: ElasticView) -> Revertible | None:
    """Returns the decision that leads back to what is seen now; None if that is not known."""
    match decision:
        case MoveShards(job, function, partition, moves):
            back = tuple(ShardMove(move.shard, move.target, move.source) for move in moves if move.source)
            return MoveShards(job, function, partition, back) if back else None
        case SetWorkers(job, function, partition, _):
            actor = view.by_address.get(decision.address)
            return None if actor is None else SetWorkers(job, function, partition, actor.workers)
        case Repartition(job, function, _):
            actors = [actor for actor in view.actors if actor.address[:2] == (job, function)]
            return Repartition(job, function, actors[0].parallelism) if actors else None
        case _:
            return None


def _applicable(known: _Known, view: ElasticView) -> Revertible | None:
    """Returns what of the opposite still applies: nobody has changed it since, and the workers are still there."""
    decision, opposite = known.record.decision, known.opposite
    if isinstance(opposite, Repartition):
        return opposite
    actor = view.by_address.get(opposite.address)
    if actor is None:
        return None
    if isinstance(opposite, SetWorkers):
        assert isinstance(decision, SetWorkers)
        unchanged = set(actor.workers) == set(decision.workers)
        workers = tuple(name for name in opposite.workers if name in view.workers)
        there = unchanged and workers[:1] == (actor.home,)
        return SetWorkers(*opposite.address, workers) if there and set(workers) != set(actor.workers) else None
    owner_of = dict(zip(actor.shards.numbers, actor.shards.owners, strict=True))
    moves = tuple(
        move
        for move in opposite.moves
        if owner_of.get(move.shard) == move.source and move.target in actor.workers and move.target in view.workers
    )
    return MoveShards(*opposite.address, moves) if moves else None


def _repeats(record: DecisionRecord, earlier: DecisionRecord) -> bool:
    """Returns whether a decision is, in essence, one that was taken back: as many workers or partitions, or mostly the
    same shards to the same workers."""
    one, other = record.decision, earlier.decision
    if type(one) is not type(other) or (record.where != earlier.where):
        return False
    match one, other:
        case SetWorkers(workers=mine), SetWorkers(workers=theirs):
            return len(mine) == len(theirs)
        case MoveShards(moves=mine_moved), MoveShards(moves=their_moves):
            known = {(move.shard, move.target) for move in their_moves}
            same = sum((move.shard, move.target) in known for move in mine_moved)
            return 2 * same >= len(mine_moved)
        case Repartition(parallelism=mine_parts), Repartition(parallelism=their_parts):
            return mine_parts == their_parts and one.shards == other.shards
    return False


def _record(
    first: DecisionRecord, number: int, because: str, opposite: Decision, view: ElasticView, now_ns: int
) -> DecisionRecord:
    assert first.measure_at_ns is not None
    seen = measured_effect(view, first) or {}
    candidates = (
        Candidate("leave it", {name: seen[name] for name in ("imbalance", "waiting") if name in seen}, because),
        Candidate(str(opposite), {name: first.seen[name] for name in ("imbalance", "waiting") if name in first.seen}),
    )
    return DecisionRecord(
        now_ns,
        NAME,
        first.job,
        first.function,
        first.partition,
        Trigger.REVERTED,
        f"of a decision of {first.controller}: {because}",
        seen,
        candidates,
        opposite,
        now_ns + first.measure_at_ns - first.at_ns,
        reverts=number,
    )
