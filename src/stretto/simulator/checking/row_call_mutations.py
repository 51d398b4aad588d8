"""Planted bugs in the calls of rows: each must be caught by `row_calls.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stretto.actors.calling import EntityAnswer, EntityCall
from stretto.actors.context import Context
from stretto.actors.seat import Phase, Seat
from stretto.coordinator.checkpointing import Checkpointing
from stretto.coordinator.machine import CoordinatorParts
from stretto.coordinator.records import Job
from stretto.operators.calling import EntityCalls, _Rows
from stretto.protocol.checkpointing import Publish
from stretto.protocol.entities import CallsSent
from stretto.protocol.machines import Send
from stretto.simulator.checking.mutations import mutation_name
from stretto.simulator.checking.row_calls import RowCallParts
from stretto.simulator.engine.durable import Parts
from stretto.transactions.outbox import Name, Outbox
from stretto.worker.calling import Calling
from stretto.worker.entities import Entities
from stretto.worker.machine import WorkerParts
from stretto.worker.snapshots import Snapshots


class CalledAtOnce(EntityCalls):
    """Rows are called when they come, although a failure may lead to other rows with the same numbers."""

    def _may_be_called(self, rows: _Rows) -> bool:
        return True

    def publish(self, checkpoint: int) -> None:
        self._published = checkpoint
        super().publish(checkpoint)


class SealIgnored(EntityCalls):
    """A complete checkpoint lets all rows be called, also those that came after its mark."""

    def publish(self, checkpoint: int) -> None:
        for rows in self._rows():
            if rows.sealed > checkpoint:
                rows.sealed = checkpoint
        super().publish(checkpoint)


class SettledTooSoon(EntityCalls):
    """Replies are forgotten when their rows have gone on, and not when a checkpoint is complete that is behind them."""

    def publish(self, checkpoint: int) -> None:
        self._at_marks[checkpoint] = self._gone_on()
        super().publish(checkpoint)

    def answer(self, answers: list[EntityAnswer]) -> None:
        super().answer(answers)
        self._settled, self._unsettled = {client: number - 1 for client, number in self._clients.items()}, True
        for rows, place in self._open.values():
            last = rows.first + place - 1
            self._settled[rows.client] = min(self._settled[rows.client], last)


class NeverSettled(EntityCalls):
    """Replies are kept for ever."""

    def take_settled(self) -> dict[str, int]:
        return {}


class NamedAgain(EntityCalls):
    """After a failure, the rows that wait get other names."""

    def _recalled(self, each: Any) -> Iterator[_Rows | int]:
        for found in super()._recalled(each):
            if isinstance(found, _Rows):
                found.client += "+"
                self._clients.setdefault(found.client, found.first)
                self._clients[found.client] = max(self._clients[found.client], found.first + found.batch.num_rows)
            yield found


class NumbersBeginAgain(EntityCalls):
    """After a failure, rows get numbers that others had."""

    def recall(self, remembered: Any) -> None:
        super().recall(remembered)
        self._clients[self._client] = 0
        self._become(self._client)


class WaitingForgotten(EntityCalls):
    """The rows that wait are not in the checkpoint."""

    def remember(self) -> Any:
        found = list(super().remember())
        found[-1] = []
        return found


class WatermarksOvertake(EntityCalls):
    """Watermarks do not wait for the rows before them."""

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        super().on_watermark(watermark_us, ctx)
        if self._queue and self._queue[-1] == watermark_us:
            self._queue.appendleft(self._queue.pop())


class EndsBeforeReplies(EntityCalls):
    """The end does not wait for the rows before it."""

    @property
    def is_done(self) -> bool:
        return True


class OutOfTurn(EntityCalls):
    """Rows get the replies in the order in which those come."""

    def answer(self, answers: list[EntityAnswer]) -> None:
        waiting = [name for name in self._open if any(name == (each.client, each.number) for each in answers)]
        super().answer([each._replace(client=name[0], number=name[1]) for each, name in zip(answers[::-1], waiting)])  # noqa: B905


class NotCalledAgain(EntityCalls):
    """After a failure or a handover, only new rows are called."""

    def call_again(self) -> None:
        for rows in self._rows():
            rows.sealed = 0


class NotSentAgain(Outbox):
    """A call is sent once, wherever the entities go."""

    def again(self, now_ns: int) -> list[Send]:
        super().again(now_ns)
        return []

    def move(self, members: list[str], now_ns: int) -> list[Send]:
        return super().move(members, now_ns) if self._placement is None else []


class OtherOutbox(Calling):
    outbox = NotSentAgain


class OwnersMixed(Outbox):
    """A call belongs to whoever has called it first."""

    def call(self, owner: Any, name: Name, request: Any, only_reads: bool, now_ns: int) -> list[Send]:
        known = self._open.get(name)
        return super().call(owner if known is None else known.owner, name, request, only_reads, now_ns)

    def forget(self, owner: Any) -> None:
        return


class MixedOutbox(Calling):
    outbox = OwnersMixed


class CallersStay(Entities):
    """Replies go to where a client was at first."""

    def _on_calls(self, sender: str, frame: CallsSent) -> None:
        hosted = self._place(frame.job, frame.place)
        if hosted is not None and not isinstance(hosted.callers, _FirstCounts):
            hosted.callers = _FirstCounts()
        super()._on_calls(sender, frame)


class _FirstCounts(dict[str, str]):
    def update(self, found: Any) -> None:  # type: ignore[override]
        super().update({client: member for client, member in found.items() if client not in self})


class NoMarkAtTheEnd(Snapshots):
    """When the sources have ended, no marks begin at functions that have calls to make."""

    def _sends_marks(self, seat: Seat) -> bool:
        return seat.instance.is_source and seat.phase is Phase.OPEN


class CallersUntold(Checkpointing):
    """Only workers with sinks hear of a complete checkpoint."""

    def publish(self, job: Job) -> None:
        assert job.durability is not None
        if job.durability.manifests:
            job.durability.unpublished = set(job.sinks)
            for member in sorted({job.placement[function][partition] for function, partition in job.sinks}):
                self._host.send(member, Publish(job.attempt, job.durability.manifests[-1].checkpoint))


class CallsRepeated(EntityCalls):
    """A call that waits for long is made under a new name."""

    def take_calls(self) -> list[EntityCall]:
        made = super().take_calls()
        return [*made, *(each._replace(client=f"{each.client}+") for each in made[:1])]


_CALLS = (
    CalledAtOnce,
    SealIgnored,
    SettledTooSoon,
    NeverSettled,
    NamedAgain,
    NumbersBeginAgain,
    WaitingForgotten,
    WatermarksOvertake,
    EndsBeforeReplies,
    OutOfTurn,
    NotCalledAgain,
    CallsRepeated,
)

ROW_CALL_MUTATIONS: dict[str, RowCallParts] = {
    **{mutation_name(each): RowCallParts(calls=each) for each in _CALLS},
    "not-sent-again": RowCallParts(cluster=Parts(worker=WorkerParts(calling=OtherOutbox))),
    "owners-mixed": RowCallParts(cluster=Parts(worker=WorkerParts(calling=MixedOutbox))),
    "callers-stay": RowCallParts(cluster=Parts(worker=WorkerParts(entities=CallersStay))),
    "no-mark-at-the-end": RowCallParts(cluster=Parts(worker=WorkerParts(snapshots=NoMarkAtTheEnd))),
    "callers-untold": RowCallParts(cluster=Parts(coordinator=CoordinatorParts(checkpointing=CallersUntold))),
}
