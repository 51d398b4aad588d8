"""The instances here whose batches go to transient workers while a burst lasts: the router and the merge operator of
sponge.txt 4.1 in one place, in front of what runs.

A batch that was sent away is settled when its results are here, and they are sent on as if it had run here: no actor
downstream hears of it. What is not a batch waits until all batches are back and the twins' states are merged, so it
sees what it would have seen without the burst. When a transient worker vanishes, its batches run here.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa
from pyarrow import RecordBatch

from stretto.actors.address import Address
from stretto.actors.away import Away, Lane, Slot
from stretto.actors.batches import packed_batch, unpacked_batch
from stretto.actors.bursting import Burst, in_burst
from stretto.actors.channel import Message
from stretto.actors.critical import Watermark
from stretto.actors.keyed_away import KeyedAway
from stretto.actors.reading import Conclude, Read, Steps
from stretto.actors.seat import Phase, Seat
from stretto.actors.twins import Redo, RunHere, TakeBack
from stretto.actors.work import Errand, Outcome, Poll, Work
from stretto.protocol.bursts import STEPS, AskBack, GivenBack, Redirect, Redirected, Returned, To
from stretto.worker.bursts.by_key import ByKey
from stretto.worker.bursts.twins import report_broken
from stretto.worker.local_job import LocalJob
from stretto.worker.part import AfterRun, FrameHandlers, Host, Part

KEPT_BYTES_MAX = 64 * 1024 * 1024
"""Of the batches that a twin's state was built from, so much is kept here at most; then the state is asked back."""


class RedirectingHost(Host, Protocol):
    """The machine, which hears of runs elsewhere."""

    def ran_elsewhere(self, seat: Seat, work: Work, outcome: Outcome, cost_ns: int) -> None: ...


class Tracking(Protocol):
    """Whoever follows messages while they wait."""

    def untrack(self, message: Message) -> None: ...


class Redirecting(Part):
    """What instances here have on transient workers."""

    def __init__(self, host: RedirectingHost, tracking: Tracking, by_key: ByKey) -> None:
        self._host = host
        self._tracking = tracking
        self._by_key = by_key

    def frames(self) -> FrameHandlers:
        return {Redirect: self._on_redirect, Returned: self._on_returned, GivenBack: self._on_given_back}

    def errands(self) -> dict[type[Errand], AfterRun]:
        return {
            RunHere: AfterRun(completes=self._ran_here),
            Read: AfterRun(settles=self._read),
        }

    # Orders.

    def _on_redirect(self, sender: str, frame: Redirect) -> None:
        job = self._host.jobs.get(frame.job)
        if job is None:
            self._host.stale += 1
            return
        for address, seat in job.seats.items():
            self._set(seat, frame.functions.get(address.function))

    def _set(self, seat: Seat, to: To | None) -> None:
        can = in_burst(seat.spec, seat.instance.is_source)
        if to is None or seat.phase is Phase.FINISHED or not can.redirects:
            if isinstance(seat.away, KeyedAway):
                self._by_key.order(seat, seat.away, None)
            elif seat.away is not None:
                seat.away.members, seat.away.share = (), 0.0
                self._look(seat, seat.away)
            return
        away = seat.away = seat.away or _away(seat)
        if isinstance(away, KeyedAway):
            self._by_key.order(seat, away, to)
        else:
            away.members, away.share = _from_own(seat, to.members), to.share

    # What runs next.

    def next_work(self, seat: Seat, away: Away) -> Work | None:
        """What comes before all that waits for the instance: batches of lost twins, states to be merged, and work that
        has waited for them."""
        if isinstance(away, KeyedAway):
            return self._by_key.next_work(seat, away)
        if away.redone:
            redone, away.redone = away.redone, []
            return Redo(redone)
        if away.again:
            return RunHere(away.again.popleft())
        if away.parts:
            parts, away.parts = away.parts, []
            return TakeBack(parts)
        if away.concludes:
            return RunHere(away.slots[0])
        if away.held is not None and away.is_back:
            held, away.held = away.held, None
            self._end(seat, away)
            return held
        return None

    def own(self, away: Away) -> Work | None:
        """What a keyed instance runs itself, when nothing else waits."""
        return self._by_key.own(away) if isinstance(away, KeyedAway) else None

    def instead(self, seat: Seat, away: Away, work: Work) -> Work | None:
        """Returns what runs here for a piece of work; None if it was sent away, or waits for what was."""
        if isinstance(away, KeyedAway):
            return self._by_key.instead(seat, away, work)
        if type(work) is RunHere:
            return work if work.slot.concludes else self._placed(seat, away, work.slot)
        if type(work) is Steps or (type(work) is Message and type(work.payload) is RecordBatch):
            return self._placed(seat, away, Slot(work))
        if type(work) is Poll and not away.waits:
            return Read()
        if away.is_back or isinstance(work, Redo | TakeBack | Read):
            return work
        if type(work) is Message:
            if seat.instance.needs_no_barrier(work.channel, work.payload):
                return work
            if type(work.payload) is Watermark and not away.merged:
                away.slots.append(Slot(work, concludes=True))
                self._host.offer(seat)
                return None
        away.held = work
        self._ask_back(seat, away)
        return None

    def _placed(self, seat: Seat, away: Away, slot: Slot) -> Work | None:
        """Sends a batch away, or returns what runs here for it."""
        assert not isinstance(slot.work, Conclude)
        member = self._place(away, slot.work)
        if away.ordered and (member is not None or away.slots) and not slot.queued:
            slot.queued = True
            away.slots.append(slot)
        if member is None:
            return RunHere(slot) if slot.queued else slot.work
        self._send(seat, away, member, slot, slot.work)
        self._host.offer(seat)
        return None

    def _place(self, away: Away, work: Message | Steps) -> str | None:
        """Returns the transient worker that a batch goes to; None if it stays, as one does whose state a barrier waits
        for: the twins were asked for theirs already."""
        if not away.members or (away.merged and away.held is not None):
            return None
        away.due = min(away.due + away.share, 1.0 + away.share)
        if away.due < 1.0:
            return None
        lanes = away.lanes
        member = min(away.members, key=lambda name: len(lanes[name].out) if name in lanes else 0)
        if member in lanes and (lanes[member].is_full or lanes[member].asked):
            return None
        away.due -= 1.0
        return member

    def _send(self, seat: Seat, away: Away, member: str, slot: Slot, work: Message | Steps) -> None:
        lane = away.lanes.setdefault(member, Lane())
        if not away.numbered:
            seat.metrics.away_ns = self._host.now_ns
        away.numbered += 1
        lane.out[away.numbered] = slot
        name = STEPS
        if type(work) is Message:
            self._tracking.untrack(work)
            name = work.channel.input
        batch = batch_of(work)
        schema = None if name in lane.inputs else batch.schema.serialize().to_pybytes()
        lane.inputs.add(name)
        self._host.send(
            member,
            Redirected(
                seat.address,
                away.numbered,
                name,
                packed_batch(batch),
                schema,
                work.arrived_ns,
                work.progress_us,
                work.deadline_ns,
                seat.instance.watermark_us,
            ),
        )

    def _read(self, seat: Seat, errand: Read, outcome: Outcome) -> None:
        """A source has read: its steps are the next that runs, here or elsewhere, and what follows them has its place
        behind them. The end waits until all is back."""
        away = seat.away = seat.away or _away(seat)  # The burst may have ended during the read.
        if errand.steps is not None:
            errand.steps.deadline_ns = outcome.arrived_ns + seat.latency_ns
            slot = Slot(errand.steps)
            slot.queued = True
            away.slots.append(slot)
            away.again.append(slot)
        if errand.conclusion is not None:
            self._conclude(away, errand.conclusion)

    def _conclude(self, away: Away, conclusion: Conclude) -> None:
        if conclusion.done:
            away.held = conclusion
        else:
            away.slots.append(Slot(conclusion, concludes=True))

    def _ran_here(self, seat: Seat, errand: RunHere, outcome: Outcome) -> None:
        errand.slot.cost_ns = int(seat.cost_ns)
        if seat.away is not None:
            self._release(seat, seat.away)
            self._look(seat, seat.away)

    def _release(self, seat: Seat, away: Away) -> None:
        """Send on what batches gave, in their order, as far as they have run."""
        while away.slots and (outcome := away.slots[0].outcome) is not None:
            slot = away.slots.popleft()
            self._host.ran_elsewhere(seat, slot.work, outcome, slot.cost_ns)

    # What comes back.

    def _on_returned(self, sender: str, frame: Returned) -> None:
        seat, lane = self._lane(sender, frame.actor)
        if seat is not None and isinstance(seat.away, KeyedAway):
            self._host.stale += not self._by_key.returned(seat, seat.away, sender, frame)
            return
        slot = lane.out.pop(frame.number, None) if lane is not None else None
        if seat is None or lane is None or slot is None or seat.away is None:
            self._host.stale += 1
            return
        away, work = seat.away, slot.work
        outcome = Outcome(work.arrived_ns, work.progress_us, rows_in=frame.rows_in)
        try:
            for index, rows in frame.outputs:
                outcome.sends.append((seat.outs[index], unpacked_batch(rows, seat.outs[index].schema)))
        except (IndexError, pa.ArrowException, OSError) as error:
            report_broken(self._host, frame.actor.job, sender, error)
            return
        counts = seat.instance.ctx.counts
        for name, count in frame.counts.items():
            counts[name] = counts.get(name, 0) + count
        if away.merged and type(work) is Message:
            lane.kept.append(work)
            lane.kept_bytes += work.payload.nbytes
        seat.metrics.messages_forwarded += 1
        seat.metrics.rows_away += frame.rows_in
        slot.outcome, slot.cost_ns = outcome, frame.cost_ns
        lane.cost_ns = frame.cost_ns
        if away.ordered:
            self._release(seat, away)
        else:
            self._host.ran_elsewhere(seat, work, outcome, frame.cost_ns)
        if seat.away is not None:
            self._look(seat, seat.away)

    def _ask_back(self, seat: Seat, away: Away) -> None:
        """Have twins give back what they have built, behind the batches that they have."""
        if away.merged:
            away.rounds += 1
            for member, lane in away.lanes.items():
                self._ask(seat, away, member, lane)

    def _ask(self, seat: Seat, away: Away, member: str, lane: Lane) -> None:
        if (lane.out or lane.kept) and not lane.asked:
            lane.asked = True
            self._host.send(member, AskBack(seat.address, away.rounds))

    def _on_given_back(self, sender: str, frame: GivenBack) -> None:
        seat, lane = self._lane(sender, frame.actor)
        if seat is not None and isinstance(seat.away, KeyedAway):
            self._host.stale += not self._by_key.given_back(seat, seat.away, sender, frame)
            return
        if seat is None or lane is None or not lane.asked or seat.away is None:
            self._host.stale += 1
            return
        lane.asked = False
        lane.kept, lane.kept_bytes = [], 0
        if frame.states is not None:
            seat.away.parts.append(frame.states)
        self._look(seat, seat.away)

    def _look(self, seat: Seat, away: Away) -> None:
        """Something has changed: perhaps work that has waited can run, or too much is kept."""
        for member, lane in away.lanes.items():
            if lane.kept_bytes > KEPT_BYTES_MAX:
                self._ask(seat, away, member, lane)
        if away.held is None:
            self._end(seat, away)
        self._host.offer(seat)

    def _end(self, seat: Seat, away: Away) -> None:
        if not away.members and away.is_back:
            seat.away = None

    # What is lost.

    def lost(self, member: str) -> None:
        """A transient worker has vanished: what it had runs here."""
        for job in self._host.jobs.values():
            for seat in job.seats.values():
                if isinstance(seat.away, KeyedAway):
                    self._by_key.lose(seat, seat.away, member)
                elif seat.away is not None:
                    self._lose(seat, seat.away, member)

    def _lose(self, seat: Seat, away: Away, member: str) -> None:
        away.members = tuple(name for name in away.members if name != member)
        lane = away.lanes.pop(member, None)
        if lane is not None:
            away.again.extend(lane.out.values())
            away.redone += lane.kept
        self._look(seat, away)

    def dropped(self, job: LocalJob) -> None:
        for seat in job.seats.values():
            seat.away = None

    def _lane(self, sender: str, actor: Address) -> tuple[Seat | None, Lane | None]:
        seat = self._host.seat_of(actor)
        return seat, seat.away.lanes.get(sender) if seat is not None and seat.away is not None else None


def batch_of(work: Message | Steps) -> RecordBatch:
    """Returns the rows of a batch."""
    return work.batch if isinstance(work, Steps) else work.payload


def _from_own(seat: Seat, members: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the transient workers in the order in which an instance uses them. Each begins at another one: if all of
    them began with the first, its queue would be long while others have nothing."""
    first = seat.address.partition * len(members) // seat.spec.parallelism
    return members[first:] + members[:first]


def _away(seat: Seat) -> Away:
    """Returns the record of an instance whose batches begin to go elsewhere."""
    can = in_burst(seat.spec, seat.instance.is_source)
    return KeyedAway() if can.kind is Burst.KEYS else Away(can.kind is Burst.MERGED, can.ordered)
