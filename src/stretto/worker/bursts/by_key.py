"""Keyed instances here whose state does not combine: keys without state here go to transient workers in a burst, which
keep it until it is asked back (sponge.txt 4; the record is `actors/keyed_away.py`).

A survey finds the keys that have state here. Each message is divided by key: what belongs here runs here, the rest goes
to the twins, in order. At a barrier, twins run its steps on their own keys, and what they give is sent on before the
instance runs it. A mark, the end of the input and all else needs the states back.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
from pyarrow import RecordBatch

from stretto.actors.away import WINDOW
from stretto.actors.batches import packed_batch, unpacked_batch
from stretto.actors.channel import Message
from stretto.actors.critical import Mark
from stretto.actors.keyed_away import BUCKETS, FREE, HOME, Buckets, KeyedAway, KeyedLane, buckets_of
from stretto.actors.keyed_twins import ELSEWHERE, Divide, Entry, Rebuild, RunPart, Survey, TakeKeys, Whole
from stretto.actors.partitioning import divided
from stretto.actors.seat import Seat
from stretto.actors.tasks import Finish, Step, steps_of
from stretto.actors.work import Barrier, Errand, Outcome, Work
from stretto.protocol.bursts import AskBack, GivenBack, Redirected, Returned, StepsSent, To, TwinBegins
from stretto.worker.bursts.twins import report_broken
from stretto.worker.part import AfterRun, Host, Part

LOG_BYTES_MAX = 16 * 1024 * 1024
"""When the log of a twin is larger, and larger than its state, a copy of the state is asked for."""
SURVEY_COSTS = 20
"""After a survey has taken some time, so many times as long passes before the next one, unless it is needed."""

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""Bits of a bucket's number say nothing about its keys, but neighbours would go to the same twin."""


class KeyedHost(Host, Protocol):
    """The machine, which hears of runs elsewhere."""

    def ran_elsewhere(self, seat: Seat, work: Work, outcome: Outcome, cost_ns: int) -> None: ...


class Consuming(Protocol):
    """Whoever gives credits back for messages that have run, and counts their rows."""

    def give_back(self, message: Message) -> None: ...

    def count_rows(self, seat: Seat, message: Message, rows: int) -> None: ...


class Tracking(Protocol):
    """Whoever follows messages while they wait."""

    def untrack(self, message: Message) -> None: ...


class ClockTimers(Protocol):
    """Whoever wakes instances when timers on the clock are due."""

    def expect_timer(self, seat: Seat, timer_ns: int) -> None: ...


class ByKey(Part):
    """What keyed instances here have on transient workers."""

    log_bytes_max = LOG_BYTES_MAX
    survey_costs = SURVEY_COSTS

    def __init__(self, host: KeyedHost, channels: Consuming, tracking: Tracking, alarms: ClockTimers) -> None:
        self._host = host
        self._channels = channels
        self._tracking = tracking
        self._alarms = alarms

    def errands(self) -> dict[type[Errand], AfterRun]:
        return {
            Survey: AfterRun(settles=self._surveyed),
            Divide: AfterRun(settles=self._divided),
            RunPart: AfterRun(settles=self._ran_part),
            Rebuild: AfterRun(settles=self._rebuilt, completes=self._after),
            TakeKeys: AfterRun(completes=self._after),
        }

    def order(self, seat: Seat, away: KeyedAway, to: To | None) -> None:
        """From now on new keys go to these transient workers; those of others come home."""
        away.members, away.share = ((), 0.0) if to is None else (to.members, to.share)
        if away.places is None:
            self._want_survey(away)
        self.look(seat, away)

    # What runs next.

    def next_work(self, seat: Seat, away: KeyedAway) -> Work | None:
        """What comes before all that waits for the instance."""
        if away.rebuilds:
            away.rebuilding = True
            return away.rebuilds.popleft()
        if away.held is None and away.later:
            away.states.extend(away.later)
            away.later = []
        if away.states:
            return TakeKeys(away.states.popleft())
        if away.own:
            return self.own(away)
        if away.held is not None and away.is_back:
            return self._release(seat, away)
        if away.survey_due and away.held is None:
            away.surveyed_ns = self._host.now_ns
            return Survey(away.version)
        return None

    def _release(self, seat: Seat, away: KeyedAway) -> Work:
        """Returns the work that has waited, now that it may run."""
        held = away.release_held()
        self._look_around(away, away.recalls)
        away.recalls = False
        self.look(seat, away)
        return held

    def _look_around(self, away: KeyedAway, any_work: bool) -> None:
        """Work runs that is no batch. After a barrier, windows may have closed and their keys be new again; other work
        may bring state here that no survey has seen."""
        if any_work:
            away.places = None
        self._want_survey(away)

    def _want_survey(self, away: KeyedAway) -> None:
        """Have a survey made, if the last one is long enough ago for what it cost."""
        if away.members and self._host.now_ns >= away.surveyed_ns:
            away.survey_due = True

    def own(self, away: KeyedAway) -> Work | None:
        """What belongs here, when nothing is left to be divided."""
        part: RunPart | None = away.own.popleft() if away.own else None
        return part

    def instead(self, seat: Seat, away: KeyedAway, work: Work) -> Work | None:
        """Returns what runs here for a piece of work; None if it waits for what is elsewhere."""
        if work is away.released or isinstance(work, Survey | RunPart | Rebuild | TakeKeys):
            away.released = None
            return work
        if type(work) is Message:
            if type(work.payload) is RecordBatch:
                return self._row_work(away, work)
            if seat.instance.needs_no_barrier(work.channel, work.payload):
                return work
        steps = _steps(seat, work)
        if away.is_back and not away.keyed_lanes and not away.later:
            self._look_around(away, steps is None)
            return work
        away.held, away.recalls = work, steps is None
        for member, lane in away.keyed_lanes.items():
            if steps and not lane.asked and self._stays(away, member):
                lane.stepped = True
                lane.waiting.append(Entry(steps, None, seat.instance.watermark_us))
        self.look(seat, away)
        return None

    def _row_work(self, away: KeyedAway, message: Message) -> Work:
        if message.routed is not None or away.places is None:
            # Nothing is elsewhere. What runs here now has state here later, so there must be another survey.
            away.places = None
            if message.routed is None:
                self._want_survey(away)
            return message
        away.dividing = True
        self._tracking.untrack(message)
        return Divide(message)

    def _stays(self, away: KeyedAway, member: str) -> bool:
        return member in away.members

    # Surveys.

    def _surveyed(self, seat: Seat, errand: Survey, outcome: Outcome) -> None:
        away = _keyed(seat)
        if away is None or errand.version != away.version:
            return  # Keys have come home meanwhile: another one follows.
        away.survey_due = False
        places = np.full(BUCKETS, FREE, np.uint8)
        if away.places is not None:
            elsewhere = (away.places != FREE) & (away.places != HOME)
            places[elsewhere] = away.places[elsewhere]
        for hashes in errand.hashes:
            places[buckets_of(hashes)] = HOME
        away.places = places
        away.seed = outcome.states or b""
        took_ns = self._host.now_ns - away.surveyed_ns
        away.surveyed_ns = self._host.now_ns + self.survey_costs * took_ns

    # Rows.

    def _divided(self, seat: Seat, errand: Divide, outcome: Outcome) -> None:
        """A message is divided by the places of its keys."""
        away, message = _keyed(seat), errand.message
        assert away is not None
        assert away.places is not None
        away.dividing = False
        buckets = buckets_of(errand.hashes)
        places = away.places[buckets]
        if (places == FREE).any():
            self._assign(seat, away, np.unique(buckets[places == FREE]))
            places = away.places[buckets]
        parts = divided(message.payload, places)
        whole = Whole(message, len(parts))
        for place, rows in parts:
            part = Message(message.channel, message.seq, rows, message.arrived_ns)
            part.progress_us, part.deadline_ns = message.progress_us, message.deadline_ns
            if place == HOME:
                away.own.append(RunPart(part, whole))
            else:
                away.lane_at(place).waiting.append(Entry(part, whole, seat.instance.watermark_us))
        self.look(seat, away)

    def _assign(self, seat: Seat, away: KeyedAway, buckets: Buckets) -> None:
        """Gives free buckets a place: a share of them with the transient workers, the others here."""
        assert away.places is not None
        usable = [name for name in away.members if name not in away.keyed_lanes or not away.keyed_lanes[name].asked]
        away.places[buckets] = HOME
        if not usable:
            return
        spread = buckets.astype(np.uint64) * _SPREAD
        leave = (spread >> np.uint64(40)).astype(np.float64) < away.share * (1 << 24)
        turns = (spread >> np.uint64(8)) % np.uint64(len(usable))
        for turn, member in enumerate(usable):
            chosen = buckets[leave & (turns == turn)]
            if len(chosen):
                away.places[chosen] = self._lane_of(seat, away, member).place

    def _lane_of(self, seat: Seat, away: KeyedAway, member: str) -> KeyedLane:
        lane = away.keyed_lanes.get(member)
        if lane is None:
            lane = away.keyed_lanes[member] = KeyedLane(away.free_place(), away.seed)
            away.version += 1
            self._host.send(member, TwinBegins(seat.address, away.seed))
        return lane

    def _pump(self, seat: Seat, away: KeyedAway, member: str, lane: KeyedLane) -> None:
        """Send a twin what waits for it, as far as there is room."""
        while lane.waiting and len(lane.out) < WINDOW and not lane.asked:
            entry = lane.waiting.popleft()
            if not away.numbered:
                seat.metrics.away_ns = self._host.now_ns
            away.numbered += 1
            entry.number = away.numbered
            lane.out[entry.number] = entry
            lane.log.append(entry)
            self._send(seat, member, lane, entry)

    def _send(self, seat: Seat, member: str, lane: KeyedLane, entry: Entry) -> None:
        work = entry.work
        if not isinstance(work, Message):
            self._host.send(member, StepsSent(seat.address, entry.number, work))
            return
        batch, name = work.payload, work.channel.input
        lane.log_bytes += batch.nbytes
        schema = None if name in lane.inputs else batch.schema.serialize().to_pybytes()
        lane.inputs.add(name)
        frame = Redirected(
            seat.address,
            entry.number,
            name,
            packed_batch(batch),
            schema,
            work.arrived_ns,
            work.progress_us,
            work.deadline_ns,
            entry.watermark_us,
        )
        self._host.send(member, frame)

    def _ran_part(self, seat: Seat, errand: RunPart, outcome: Outcome) -> None:
        self._channels.count_rows(seat, errand.message, outcome.rows_in)
        self._settle(seat, errand.whole)

    def _settle(self, seat: Seat, whole: Whole) -> None:
        """Rows of a message have run; when all have, it is settled."""
        whole.left -= 1
        if not whole.left:
            message = whole.message
            seat.metrics.messages_in += 1
            message.channel.settle(message.seq)
            self._channels.give_back(message)

    # What comes back.

    def returned(self, seat: Seat, away: KeyedAway, sender: str, frame: Returned) -> bool:
        """A twin has run an entry; returns whether it was expected."""
        lane = away.keyed_lanes.get(sender)
        entry = lane.out.pop(frame.number, None) if lane is not None else None
        if entry is None:
            return False
        work = entry.work
        outcome = Outcome(self._host.now_ns, rows_in=frame.rows_in)
        if isinstance(work, Message):
            outcome.arrived_ns, outcome.progress_us = work.arrived_ns, work.progress_us
        try:
            for index, rows in frame.outputs:
                outcome.sends.append((seat.outs[index], unpacked_batch(rows, seat.outs[index].schema)))
        except (IndexError, pa.ArrowException, OSError) as error:
            report_broken(self._host, frame.actor.job, sender, error)
            return True
        entry.done = True
        for name, count in frame.counts.items():
            seat.instance.ctx.count(name, count)
        if frame.timer_ns is not None:
            self._alarms.expect_timer(seat, frame.timer_ns)
        self._sent_on(seat, entry, outcome, frame.cost_ns)
        self.look(seat, away)
        return True

    def _sent_on(self, seat: Seat, entry: Entry, outcome: Outcome, cost_ns: int) -> None:
        """Counts an entry as run, and sends on what it gave."""
        if isinstance(entry.work, Message) and entry.whole is not None:
            seat.metrics.messages_forwarded += 1
            seat.metrics.rows_away += outcome.rows_in
            self._channels.count_rows(seat, entry.work, outcome.rows_in)
            self._settle(seat, entry.whole)
        self._host.ran_elsewhere(seat, ELSEWHERE, outcome, cost_ns)

    def given_back(self, seat: Seat, away: KeyedAway, sender: str, frame: GivenBack) -> bool:
        """A twin has given its state back, or a copy of it; returns whether it was asked for."""
        lane = away.keyed_lanes.get(sender)
        if lane is None or frame.states is None or not (lane.asked if not frame.copy else lane.copying is not None):
            return False
        if frame.copy:
            lane.base = frame.states
            lane.log = [entry for entry in lane.log if entry.number > (lane.copying or 0)]
            lane.log_bytes = sum(entry.work.payload.nbytes for entry in lane.log if isinstance(entry.work, Message))
            lane.copying = None
        else:
            away.come_home(sender)
            away.states.append(frame.states)
            away.own.extend(_parts(lane))
        self.look(seat, away)
        return True

    def look(self, seat: Seat, away: KeyedAway) -> None:
        """Something has changed: perhaps more can be sent, states are to be asked for, or work that waits can run."""
        for member, lane in away.keyed_lanes.items():
            if not lane.asked and not lane.stepped and (away.recalls or not self._stays(away, member)):
                self._ask(seat, away, member, lane)
            self._pump(seat, away, member, lane)
            if lane.log_bytes > max(self.log_bytes_max, len(lane.base)) and lane.copying is None and not lane.asked:
                lane.copying = away.numbered
                self._host.send(member, AskBack(seat.address, away.rounds, copy=True))
        self._end(seat, away)
        self._host.offer(seat)

    def _ask(self, seat: Seat, away: KeyedAway, member: str, lane: KeyedLane) -> None:
        lane.asked = True
        away.rounds += 1
        self._host.send(member, AskBack(seat.address, away.rounds))

    def _end(self, seat: Seat, away: KeyedAway) -> None:
        if not away.members and away.is_over:
            seat.away = None

    # What is lost.

    def lose(self, seat: Seat, away: KeyedAway, member: str) -> None:
        """A transient worker has vanished: what it had is built again here."""
        away.members = tuple(name for name in away.members if name != member)
        if member in away.keyed_lanes:
            lane = away.come_home(member)
            entries = lane.log
            if lane.asked:
                away.own.extend(_parts(lane))
            else:
                entries = [*lane.log, *lane.waiting]
            away.rebuilds.append(Rebuild(lane.base, entries, lane.stepped))
        self.look(seat, away)

    def _rebuilt(self, seat: Seat, errand: Rebuild, outcome: Outcome) -> None:
        away = _keyed(seat)
        assert away is not None
        away.rebuilding = False
        assert outcome.states is not None
        (away.later if errand.stepped and away.held is not None else away.states).append(outcome.states)
        for entry in errand.entries:
            if not entry.done and isinstance(entry.work, Message) and entry.whole is not None:
                self._channels.count_rows(seat, entry.work, entry.work.payload.num_rows)
                self._settle(seat, entry.whole)

    def _after(self, seat: Seat, errand: Errand, outcome: Outcome) -> None:
        away = _keyed(seat)
        if away is not None:
            self.look(seat, away)


def _keyed(seat: Seat) -> KeyedAway | None:
    return seat.away if isinstance(seat.away, KeyedAway) else None


def _parts(lane: KeyedLane) -> list[RunPart]:
    """Returns the rows that wait for a twin and were not sent: they run here."""
    found = []
    for entry in lane.waiting:
        assert isinstance(entry.work, Message)
        assert entry.whole is not None
        found.append(RunPart(entry.work, entry.whole))
    return found


def _steps(seat: Seat, work: Work) -> tuple[Step, ...] | None:
    """Returns the steps of a barrier that twins can run on their own keys; None for work that needs all states here."""
    messages = work.messages if isinstance(work, Barrier) else [work] if isinstance(work, Message) else []
    if not messages or any(isinstance(message.payload, Mark) for message in messages):
        return None
    steps = steps_of(seat.instance, messages)
    return None if any(isinstance(step, Finish) for step in steps) else steps
