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
from stretto.actors.away import WINDOW, Away, Lane
from stretto.actors.batches import packed_batch, unpacked_batch
from stretto.actors.channel import Message
from stretto.actors.seat import Phase, Seat
from stretto.actors.twins import Redo, TakeBack
from stretto.actors.work import Outcome, Work
from stretto.protocol.bursts import AskBack, GivenBack, Redirect, Redirected, Returned, To
from stretto.worker.bursts.twins import report_broken
from stretto.worker.local_job import LocalJob
from stretto.worker.part import FrameHandlers, Host, Part

KEPT_BYTES_MAX = 64 * 1024 * 1024
"""Of the batches that a twin's state was built from, so much is kept here at most; then the state is asked back."""


class RedirectingHost(Host, Protocol):
    """The machine, which hears of runs elsewhere."""

    def ran_elsewhere(self, seat: Seat, message: Message, outcome: Outcome, cost_ns: int) -> None: ...


class Tracking(Protocol):
    """Whoever follows messages while they wait."""

    def untrack(self, message: Message) -> None: ...


class Redirecting(Part):
    """What instances here have on transient workers."""

    def __init__(self, host: RedirectingHost, tracking: Tracking) -> None:
        self._host = host
        self._tracking = tracking

    def frames(self) -> FrameHandlers:
        return {Redirect: self._on_redirect, Returned: self._on_returned, GivenBack: self._on_given_back}

    # Orders.

    def _on_redirect(self, sender: str, frame: Redirect) -> None:
        job = self._host.jobs.get(frame.job)
        if job is None:
            self._host.stale += 1
            return
        for address, seat in job.seats.items():
            self._set(seat, frame.functions.get(address.function))

    def _set(self, seat: Seat, to: To | None) -> None:
        if to is None or seat.phase is Phase.FINISHED or not can_redirect(seat):
            if seat.away is not None:
                seat.away.members, seat.away.share = (), 0.0
                self._look(seat, seat.away)
            return
        away = seat.away = seat.away or Away()
        away.members, away.share = to.members, to.share

    # What runs next.

    def next_work(self, seat: Seat, away: Away) -> Work | None:
        """What comes before all that waits for the instance: batches of lost twins, states to be merged, and work that
        has waited for them."""
        if away.redone:
            redone, away.redone = away.redone, []
            return Redo(redone)
        if away.again:
            return away.again.popleft()
        if away.parts:
            parts, away.parts = away.parts, []
            return TakeBack(parts)
        if away.held is not None and away.is_back:
            held, away.held = away.held, None
            self._end(seat, away)
            return held
        return None

    def taken(self, seat: Seat, away: Away, work: Work) -> bool:
        """Whether work does not run here now: a batch that was sent away, or work that must wait for such batches."""
        if type(work) is Message and type(work.payload) is RecordBatch:
            member = self._place(away, work)
            if member is None:
                return False
            self._send(seat, away, member, work)
            self._host.offer(seat)
            return True
        if away.is_back or isinstance(work, Redo | TakeBack):
            return False
        away.held = work
        self._ask_back(seat, away)
        return True

    def _place(self, away: Away, message: Message) -> str | None:
        """Returns the transient worker that a batch goes to; None if it stays, as one does that a barrier waits for."""
        if message.routed is not None or away.waits or not away.members:
            return None
        away.due = min(away.due + away.share, 1.0 + away.share)
        if away.due < 1.0:
            return None
        lanes = away.lanes
        member = min(away.members, key=lambda name: len(lanes[name].out) if name in lanes else 0)
        if member in lanes and (len(lanes[member].out) >= WINDOW or lanes[member].asked):
            return None
        away.due -= 1.0
        return member

    def _send(self, seat: Seat, away: Away, member: str, message: Message) -> None:
        self._tracking.untrack(message)
        lane = away.lanes.setdefault(member, Lane())
        away.numbered += 1
        lane.out[away.numbered] = message
        batch, name = message.payload, message.channel.input
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
                message.arrived_ns,
                message.progress_us,
                message.deadline_ns,
                seat.instance.watermark_us,
            ),
        )

    # What comes back.

    def _on_returned(self, sender: str, frame: Returned) -> None:
        seat, lane = self._lane(sender, frame.actor)
        message = lane.out.pop(frame.number, None) if lane is not None else None
        if seat is None or lane is None or message is None:
            self._host.stale += 1
            return
        outcome = Outcome(message.arrived_ns, message.progress_us, rows_in=frame.rows_in)
        try:
            for index, rows in frame.outputs:
                outcome.sends.append((seat.outs[index], unpacked_batch(rows, seat.outs[index].schema)))
        except (IndexError, pa.ArrowException, OSError) as error:
            report_broken(self._host, frame.actor.job, sender, error)
            return
        counts = seat.instance.ctx.counts
        for name, count in frame.counts.items():
            counts[name] = counts.get(name, 0) + count
        if has_state(seat):
            lane.kept.append(message)
            lane.kept_bytes += message.payload.nbytes
        seat.metrics.messages_forwarded += 1
        seat.metrics.rows_away += frame.rows_in
        self._host.ran_elsewhere(seat, message, outcome, frame.cost_ns)
        if seat.away is not None:
            self._look(seat, seat.away)

    def _ask_back(self, seat: Seat, away: Away) -> None:
        """Have twins give back what they have built, behind the batches that they have."""
        if has_state(seat):
            away.rounds += 1
            for member, lane in away.lanes.items():
                self._ask(seat, away, member, lane)

    def _ask(self, seat: Seat, away: Away, member: str, lane: Lane) -> None:
        if (lane.out or lane.kept) and not lane.asked:
            lane.asked = True
            self._host.send(member, AskBack(seat.address, away.rounds))

    def _on_given_back(self, sender: str, frame: GivenBack) -> None:
        seat, lane = self._lane(sender, frame.actor)
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
                if seat.away is not None:
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


def can_redirect(seat: Seat) -> bool:
    """Whether the batches of an instance may run on transient workers."""
    return seat.spec.redirects and not seat.instance.is_source


def has_state(seat: Seat) -> bool:
    """Whether its twins build state, which is merged here."""
    return bool(seat.instance.function.states())
