"""Bugs in redirecting bursts, planted to see that the simulation catches each of them."""

from __future__ import annotations

from pyarrow import RecordBatch

from stretto.actors.away import Away
from stretto.actors.channel import Message
from stretto.actors.keyed_away import KeyedAway, KeyedLane
from stretto.actors.keyed_twins import GiveKeys, RunTwinSteps, Survey
from stretto.actors.reading import Conclude, Steps
from stretto.actors.seat import Seat
from stretto.actors.twins import GiveBack, RunTwin
from stretto.actors.work import Barrier, Errand, Outcome, Work
from stretto.coordinator.draining import Draining
from stretto.coordinator.machine import CoordinatorParts
from stretto.coordinator.standing import Standing
from stretto.protocol.bursts import GivenBack, StepsSent, To
from stretto.simulator.checking.bursts import Impatient
from stretto.simulator.checking.mutations import mutation_name
from stretto.simulator.engine.durable import Parts
from stretto.worker.bursts.redirecting import Redirecting
from stretto.worker.bursts.twins import Twin, Twins
from stretto.worker.machine import WorkerParts


class CriticalOvertakes(Redirecting):
    """A critical message does not wait for batches that are elsewhere."""

    def instead(self, seat: Seat, away: Away, work: Work) -> Work | None:
        is_critical = isinstance(work, Barrier) or (type(work) is Message and type(work.payload) is not RecordBatch)
        return work if is_critical else super().instead(seat, away, work)


class StatesNotAsked(Redirecting):
    """Batches are awaited, and the states that were built from them are not."""

    def _ask_back(self, seat: Seat, away: Away) -> None:
        for lane in away.lanes.values():
            lane.kept = []


class LostBatchesDropped(Redirecting):
    """Batches that a vanished worker had not run do not run at all."""

    def _lose(self, seat: Seat, away: Away, member: str) -> None:
        if member in away.lanes:
            away.lanes[member].out = {}
        super()._lose(seat, away, member)


class LostStateDropped(Redirecting):
    """Of what a vanished worker had run, the state is not built again."""

    def _lose(self, seat: Seat, away: Away, member: str) -> None:
        if member in away.lanes:
            away.lanes[member].kept = []
        super()._lose(seat, away, member)


class MergedAndRedone(Redirecting):
    """Batches whose state was merged are still kept, and are redone when their worker vanishes."""

    def _on_given_back(self, sender: str, frame: GivenBack) -> None:
        _, lane = self._lane(sender, frame.actor)
        kept = list(lane.kept) if lane is not None else []
        super()._on_given_back(sender, frame)
        if lane is not None and frame.round % 2:
            lane.kept = kept


class LostWorkerUsed(Redirecting):
    """A worker that has vanished still gets batches."""

    def _lose(self, seat: Seat, away: Away, member: str) -> None:
        before = away.members
        super()._lose(seat, away, member)
        away.members = before


class SentAwayDuringABarrier(Redirecting):
    """Batches of a vanished worker go to another one, although a barrier has asked for all states already."""

    def _place(self, away: Away, work: Message | Steps) -> str | None:
        held, away.held = away.held, None
        place = super()._place(away, work)
        away.held = held
        return place


class OrderForgotten(Redirecting):
    """Results are sent on as they come, although their order matters downstream."""

    def _set(self, seat: Seat, to: To | None) -> None:
        super()._set(seat, to)
        if seat.away is not None and not seat.away.slots:
            seat.away.ordered = False


class WatermarkOvertakes(Redirecting):
    """A source sends its watermark before the batches are back that it has read before it."""

    def _conclude(self, away: Away, conclusion: Conclude) -> None:
        super()._conclude(away, conclusion)
        if away.slots and away.slots[-1].work is conclusion:
            away.slots.appendleft(away.slots.pop())


class TwinKeepsState(Twins):
    """A twin gives its state back, and has it still."""

    def _give_back(self, twin: Twin) -> None:
        if twin.asked is not None and not twin.unrun:
            function = twin.seat.instance.function
            states = {name: state.export() for name, state in function.states().items()}
            super()._give_back(twin)
            self._copies = {**getattr(self, "_copies", {}), twin.seat.address: states}

    def _given_back(self, seat: Seat, errand: GiveBack | GiveKeys, outcome: Outcome) -> None:
        super()._given_back(seat, errand, outcome)
        for name, content in self._copies.pop(seat.address, {}).items():
            seat.instance.function.states()[name].restore(content)


class GivenBackTooSoon(Twins):
    """A twin gives its state back before all batches that it has were run."""

    def _give_back(self, twin: Twin) -> None:
        unrun, twin.unrun = twin.unrun, 0
        super()._give_back(twin)
        twin.unrun = unrun


class ResultsForgotten(Twins):
    """A twin returns a batch without its results."""

    def _ran(self, seat: Seat, errand: RunTwin | RunTwinSteps, outcome: Outcome) -> None:
        errand.returns = []
        super()._ran(seat, errand, outcome)


class HomeKeysSent(Impatient):
    """A survey does not see the keys that have state here, and they go elsewhere."""

    def _surveyed(self, seat: Seat, errand: Survey, outcome: Outcome) -> None:
        errand.hashes = []
        super()._surveyed(seat, errand, outcome)


class SurveyOutdated(Impatient):
    """A survey counts although keys have come home since it began."""

    def _surveyed(self, seat: Seat, errand: Survey, outcome: Outcome) -> None:
        if isinstance(seat.away, KeyedAway):
            errand.version = seat.away.version
        super()._surveyed(seat, errand, outcome)


class KeysForgotten(Impatient):
    """What a twin gives back is not taken in."""

    def given_back(self, seat: Seat, away: KeyedAway, sender: str, frame: GivenBack) -> bool:
        known = len(away.states)
        found = super().given_back(seat, away, sender, frame)
        if found and len(away.states) > known:
            away.states.pop()
        return found


class RowsOvertakeKeys(Impatient):
    """Rows that waited for a twin run here before its state is."""

    def next_work(self, seat: Seat, away: KeyedAway) -> Work | None:
        return self.own(away) if away.own and away.states else super().next_work(seat, away)


class SentAfterAsked(Impatient):
    """A twin gets rows after it was asked for its state."""

    def _pump(self, seat: Seat, away: KeyedAway, member: str, lane: KeyedLane) -> None:
        asked, lane.asked = lane.asked, False
        super()._pump(seat, away, member, lane)
        lane.asked = asked


class LogForgotten(Impatient):
    """Of a lost twin, only what had not come back runs again."""

    def lose(self, seat: Seat, away: KeyedAway, member: str) -> None:
        lane = away.keyed_lanes.get(member)
        if lane is not None:
            lane.log = [entry for entry in lane.log if not entry.done]
        super().lose(seat, away, member)


class ResultsSentAgain(Impatient):
    """Of a lost twin, results are sent that had come back before."""

    def lose(self, seat: Seat, away: KeyedAway, member: str) -> None:
        lane = away.keyed_lanes.get(member)
        for entry in lane.log if lane is not None else ():
            if entry.done:
                entry.done, entry.whole = False, None
        super().lose(seat, away, member)


class SteppedTwice(Impatient):
    """Keys of a lost twin that has run the steps of a barrier are here when the instance runs it."""

    def lose(self, seat: Seat, away: KeyedAway, member: str) -> None:
        lane = away.keyed_lanes.get(member)
        super().lose(seat, away, member)
        if lane is not None:
            away.rebuilds[-1].stepped = False


class CopyForgetsWhatFollows(Impatient):
    """A copy of a state stands for what was sent after it was asked for, too."""

    def given_back(self, seat: Seat, away: KeyedAway, sender: str, frame: GivenBack) -> bool:
        lane = away.keyed_lanes.get(sender)
        if frame.copy and lane is not None and lane.copying is not None:
            lane.copying = away.numbered
        return super().given_back(seat, away, sender, frame)


class TwinSkipsSteps(Twins):
    """A twin does not run the steps of barriers."""

    def _on_steps(self, sender: str, frame: StepsSent) -> None:
        super()._on_steps(sender, StepsSent(frame.actor, frame.number, ()))


class TwinReorders(Twins):
    """A keyed twin runs batches in another order than that of their rows."""

    def _run(self, twin: Twin, errand: Errand) -> None:
        if isinstance(errand, RunTwin):
            twin.seat.mailbox.append(errand, -errand.number)
            self._host.offer(twin.seat)
        else:
            super()._run(twin, errand)


class LeaverStaysWarm(Draining):
    """Batches may still be sent to a transient worker that leaves."""

    def drain(self, member: str) -> None:
        if self._membership.standings.of(member) is Standing.TRANSIENT:
            self._since_ns[member] = self._host.now_ns
            self._membership.dismiss(member)
        else:
            super().drain(member)


_REDIRECTING = (
    CriticalOvertakes,
    StatesNotAsked,
    LostBatchesDropped,
    LostStateDropped,
    MergedAndRedone,
    LostWorkerUsed,
    SentAwayDuringABarrier,
    OrderForgotten,
    WatermarkOvertakes,
)
_TWINS = (
    TwinKeepsState,
    GivenBackTooSoon,
    ResultsForgotten,
    TwinSkipsSteps,
    TwinReorders,
)
_BY_KEY = (
    HomeKeysSent,
    SurveyOutdated,
    KeysForgotten,
    RowsOvertakeKeys,
    SentAfterAsked,
    LogForgotten,
    ResultsSentAgain,
    SteppedTwice,
    CopyForgetsWhatFollows,
)

BURST_MUTATIONS: dict[str, Parts] = {
    **{mutation_name(each): Parts(worker=WorkerParts(redirecting=each, by_key=Impatient)) for each in _REDIRECTING},
    **{mutation_name(each): Parts(worker=WorkerParts(twins=each, by_key=Impatient)) for each in _TWINS},
    **{mutation_name(each): Parts(worker=WorkerParts(by_key=each)) for each in _BY_KEY},
    mutation_name(LeaverStaysWarm): Parts(
        worker=WorkerParts(by_key=Impatient), coordinator=CoordinatorParts(draining=LeaverStaysWarm)
    ),
}
