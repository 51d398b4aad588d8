"""Planted bugs in published tables and in questions: each must be caught by `questions.py`."""

from __future__ import annotations

from typing import Any

from stretto.operators.publishing import Live, PublishCheckpointed, PublishedRows
from stretto.protocol.queries import Ask, LivePart, Part, Piece, Waits
from stretto.queries.broker import Asking, Broker, Known, Sent
from stretto.queries.shelf import Shelf, Task, Waiting
from stretto.simulator.checking.mutations import mutation_name
from stretto.simulator.engine.asking import AskingParts


class SealedForgotten(PublishedRows):
    """Rows that are sealed and not published yet are in no answer."""

    def after(self, version: int) -> Live | None:
        sealed, self._sealed = self._sealed, {}
        try:
            return super().after(version)
        finally:
            self._sealed = sealed


class VersionIgnored(PublishedRows):
    """What was published since the broker heard of it is in no answer."""

    def after(self, version: int) -> Live | None:
        return super().after(self.version)


class UnreadIgnored(PublishCheckpointed):
    """A partition that has resumed answers before it has published what its checkpoint has."""

    def check_part(self, part: Any) -> None:
        self._files.check_part(part)


class AskedFromTheStart(Broker):
    """Partitions are asked for all that they have, also for what is in pieces."""

    def _send(self, asking: Asking, known: Known, sent: Sent, now_ns: int) -> None:
        sent.live = [LivePart(each.partition, each.job, 0) for each in sent.live]
        super()._send(asking, known, sent, now_ns)


class LossNotSeen(Broker):
    """Who waits for a lost worker waits for ever."""

    def _lost(self, asking: Asking, number: int, reason: str, now_ns: int) -> None:
        pass


class BothCount(Broker):
    """A slow worker and those that were asked in its place count."""

    def _drop_instead_of(self, asking: Asking, slow: int) -> None:
        pass

    def _in_place(self, asking: Asking, slow: int) -> None:
        pass


class StorageNotRead(Broker):
    """A piece of which nobody has a copy is left out."""

    def _placed(self, known: Known, pieces: Any, without: frozenset[str]) -> dict[str, list[Piece]] | None:
        held = [piece for piece in pieces if known.holders.get(piece.name)]
        return super()._placed(known, held, without)


class LowerBoundOfSegments(Broker):
    """Pieces are asked for only if they begin within the times of the question."""

    def _send(self, asking: Asking, known: Known, sent: Sent, now_ns: int) -> None:
        sent.pieces = [piece for piece in sent.pieces if piece.start_us >= asking.question.first_us]
        super()._send(asking, known, sent, now_ns)


class NeverWaits(Shelf):
    """A question does not wait until a partition is as far as it wants, and nobody looks whether it is."""

    def _must_wait(self, ask: Ask) -> bool:
        return False

    def _gather(self, task: Task) -> None:
        super()._gather(task)
        task.live = [type(each)(each.partition, 2**62) for each in task.live]


class WaitsUnsaid(Broker):
    """What a worker waits for is not told to whoever asks."""

    def waits(self, sender: str, frame: Waits) -> None:
        pass


class WaitsSaidOnce(Shelf):
    """A worker says how far a partition is when a question comes, and not how far it has come since."""

    def _say(self, waiting: Waiting, now_ns: int) -> None:
        if not waiting.has_said:
            super()._say(waiting, now_ns)


class PartlyLoaded(Shelf):
    """A question is answered when the first of its pieces was loaded."""

    def _deliver(self, task: Task, name: str, rows: Any, reason: str | None) -> None:
        task.awaited &= {name}
        super()._deliver(task, name, rows, reason)


class FirstPartOnly(Broker):
    """An answer is complete when one worker has answered."""

    def answered(self, sender: str, part: Part, now_ns: int) -> None:
        asking = self._by_number.get(part.number)
        if asking is not None and part.number in asking.sent and part.part is not None:
            asking.sent = {part.number: asking.sent[part.number]}
        super().answered(sender, part, now_ns)


def _parts(mutation: type[Any]) -> AskingParts:
    if issubclass(mutation, Broker):
        return AskingParts(broker=mutation)
    if issubclass(mutation, Shelf):
        return AskingParts(shelf=mutation)
    return AskingParts(rows=mutation) if issubclass(mutation, PublishedRows) else AskingParts(writer=mutation)


QUESTION_MUTATIONS: dict[str, AskingParts] = {
    mutation_name(mutation): _parts(mutation)
    for base in (PublishedRows, PublishCheckpointed, Broker, Shelf)
    for mutation in base.__subclasses__()
    if mutation.__module__ == __name__
}
