"""Planted bugs in how places move: each must be caught by `hosted_transactions.py`."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stretto.coordinator.entities import EntityJob, EntityJobs
from stretto.coordinator.entity_moves import MovePhase, PlaceMove, PlaceMoves
from stretto.coordinator.records import JobStatus
from stretto.protocol.entities import EntityOrder
from stretto.protocol.transactions import EntityName, Moved, Round, Switch, Takeover
from stretto.transactions.attempt import Attempt
from stretto.transactions.emitted import Name as RowName
from stretto.transactions.epoch import Settled
from stretto.transactions.machine import TransactionWorker
from stretto.transactions.moving import Departure, PartOfCopy, changed_rest


class ChangesNotCopied(Departure):
    """What changes after it was copied stays behind."""

    def takeover(self, recent: list[tuple[int, Round]], now_ns: int) -> Takeover:
        none = PartOfCopy([], [], [], [], [], [], [], [])
        return changed_rest(super().takeover(recent, now_ns), lambda rest: replace(rest, last=none))


class UnsavedForgotten(Departure):
    """The next snapshot lacks what had changed before the place moved."""

    def _part(
        self, entities: Sequence[EntityName], keys: Sequence[str], delayed: Sequence[str], rows: Sequence[RowName]
    ) -> PartOfCopy:
        return replace(super()._part(entities, keys, delayed, rows), changed=[])


class CallsLeftBehind(Departure):
    """Calls that are in the log and in no epoch are not in the new process."""

    def takeover(self, recent: list[tuple[int, Round]], now_ns: int) -> Takeover:
        return changed_rest(super().takeover(recent, now_ns), lambda rest: replace(rest, calls=[]))


class HandedOverUnwritten(Departure):
    """The place is handed over before its log is durable."""

    def may_hand_over(self) -> bool:
        return self.holds


class _Changed(TransactionWorker):
    departure = ChangesNotCopied


class _Unsaved(TransactionWorker):
    departure = UnsavedForgotten


class _Calls(TransactionWorker):
    departure = CallsLeftBehind


class _Unwritten(TransactionWorker):
    departure = HandedOverUnwritten


class RoundsNotRepeated(TransactionWorker):
    """What was sent to a process that is gone is not sent to its successor."""

    def _on_moved(self, sender: str, frame: Moved) -> None:
        return


class SwitchedTooSoon(PlaceMoves):
    """A place is told to switch while it is still being copied."""

    def hosted(self, job: str, sender: str, place: int) -> bool:
        is_for_move = super().hosted(job, sender, place)
        move = self._moves.get(job)
        if is_for_move and move is not None:
            move.phase = MovePhase.SWITCHING
            self._host.send(move.origin, EntityOrder(job, place, Switch(move.attempt)))
        return is_for_move


class MovesOutliveAttempts(PlaceMoves):
    """A move goes on as if no other attempt had begun."""

    def call_off(self, job: str, gone: str | None = None) -> PlaceMove | None:
        return None


class SwitchesSoon(EntityJobs):
    moves = SwitchedTooSoon


class NeverCallsOff(EntityJobs):
    moves = MovesOutliveAttempts


class MovedWhileResuming(EntityJobs):
    """A move may begin while places load what they had, and do not hear that they are to be copied."""

    def _is_movable(self, job: EntityJob) -> bool:
        return job.status is JobStatus.RUNNING


class LeavesWithPlaces(EntityJobs):
    """A worker that drains may leave with places."""

    def on(self, member: str) -> list[str]:
        return []


class DoorsNotTold(EntityJobs):
    """Who calls is not told that a place has moved, when the worker that had it may be gone."""

    def _announce_places(self, job: EntityJob, waited_ns: int | None = None) -> None:
        if waited_ns is None:
            super()._announce_places(job, waited_ns)


class ReplaysCounted(TransactionWorker):
    """Transactions that are replayed are counted again."""

    def _settle(self, own: Attempt, settled: Settled) -> None:
        if self.replays():
            self.counts.settled(settled, 0)
        super()._settle(own, settled)


class CountsBeginAgain(EntityJobs):
    """Figures of a place that has moved are taken for those of another worker."""

    def _moved(self, job: EntityJob, move: PlaceMove, waited_ns: int) -> None:
        job.series[move.place - 1].lost()
        super()._moved(job, move, waited_ns)


OF_MACHINES: dict[str, type[TransactionWorker]] = {
    "changes-not-copied": _Changed,
    "unsaved-forgotten": _Unsaved,
    "calls-left-behind": _Calls,
    "handed-over-unwritten": _Unwritten,
    "rounds-not-repeated": RoundsNotRepeated,
    "replays-counted": ReplaysCounted,
}
OF_JOBS: dict[str, type[EntityJobs]] = {
    "switched-too-soon": SwitchesSoon,
    "moves-outlive-attempts": NeverCallsOff,
    "moved-while-resuming": MovedWhileResuming,
    "leaves-with-places": LeavesWithPlaces,
    "doors-not-told": DoorsNotTold,
    "counts-begin-again": CountsBeginAgain,
}
