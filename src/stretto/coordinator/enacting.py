"""The enactor: it asks the controllers, carries out one decision per actor at a time, and keeps the record of each.

Controllers only suggest (`elasticity/`). A decision that conflicts with one under way is refused. What a lever reports
becomes the outcome of the decision, and some seconds later its effect is measured. One that made it worse is taken back
by the opposite decision (`elasticity/reverting.py`). Users read the records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from stretto.coordinator.carrying_out import CarryingOut, Kept
from stretto.coordinator.events import AnnounceDecision, AnnounceMisbehaviour
from stretto.coordinator.interfaces import Observers
from stretto.coordinator.part import Host, Part
from stretto.coordinator.records import Job, JobStatus
from stretto.elasticity.effects import measured_effect
from stretto.elasticity.records import DecisionRecord, Outcome
from stretto.elasticity.reverting import Reverting
from stretto.elasticity.team import Team
from stretto.elasticity.view import ElasticView
from stretto.protocol.elastic import ShardsMoved
from stretto.protocol.membership import COORDINATOR
from stretto.protocol.reports import Misbehaved
from stretto.rendering import error_text, traceback_of

RECORDS_MAX = 1_000
"""The number of records that are kept to measure their effects."""


class Enactor(Part):
    """The decisions of all controllers."""

    def __init__(self, host: Host, team: Team, execution: CarryingOut) -> None:
        self._host = host
        self._team = team
        self._execution = execution
        self._numbers = 0
        self._unmeasured: deque[Kept] = deque(maxlen=RECORDS_MAX)
        self._reverting = Reverting()
        self._judged: dict[int, Kept] = {}
        """The last decisions by their numbers, of which some may be taken back."""
        self._reported: set[str] = set()
        """Controllers that were given up, and of which the jobs were told."""

    def connect(self, observers: Observers) -> None:
        self._observers = observers

    # Deciding.

    def tick(self) -> None:
        now_ns = self._host.now_ns
        present = self._team.subjects_in(self._running())
        due_ns = self._team.next_ns(present)
        if due_ns is not None and now_ns >= due_ns:
            view = ElasticView.of(self._observers.last)
            self._enact_all(self._team.decide(view, now_ns, present))
            self._report_given_up()
        self._look()
        self._measure(now_ns)
        self._revert(now_ns)

    def _report_given_up(self) -> None:
        """Reports controllers that raised, once, to all jobs that have what they look at."""
        for controller in self._team.controllers:
            name, error = controller.name, self._team.given_up.get(controller.name)
            if error is None or name in self._reported:
                continue
            self._reported.add(name)
            what = f"controller '{name}' raised {error_text(error)} and is given up; the others decide on"
            for job in self._host.jobs.values():
                if controller.looks_at.is_in(job):
                    said = Misbehaved(job.attempt, None, what, traceback_of(error))
                    self._host.effects.append(AnnounceMisbehaviour(job.name, COORDINATOR, said))

    def deadline_ns(self) -> int | None:
        """Returns when a controller is due, or an effect is to be measured."""
        due = [kept.record.measure_at_ns for kept in self._unmeasured if kept.record.measure_at_ns is not None]
        next_ns = self._team.next_ns(self._team.subjects_in(self._running()))
        due += [each for each in (next_ns, self._reverting.next_ns()) if each is not None]
        return min(due, default=None)

    def _running(self) -> Iterator[Job]:
        return (job for job in self._host.jobs.values() if job.status is JobStatus.RUNNING)

    def enact(self, record: DecisionRecord, token: str = "") -> None:
        """Carries a decision out, if it can be, and announces its record."""
        self._enact_all([record], token)

    def _enact_all(self, records: Sequence[DecisionRecord], token: str = "") -> None:
        """Carries out what was decided at once; some of it together, by one order."""
        for places in self._execution.together([record.decision for record in records]):
            group = [self._kept(records[place], token) for place in places]
            self._begin([kept for kept in group if kept.record.decision is not None])
            for kept in group:
                self._announce(kept)
                if kept.record.reverts is not None and kept.record.outcome is Outcome.DONE:
                    self._reverted(kept.record.reverts)

    def _kept(self, record: DecisionRecord, token: str) -> Kept:
        self._numbers += 1
        return Kept(self._numbers, replace(record, number=self._numbers), token)

    def refuse(self, record: DecisionRecord, reason: str, token: str = "") -> None:
        """Announces a decision that is not carried out."""
        self._numbers += 1
        self._announce(Kept(self._numbers, record.finished(Outcome.REFUSED, reason), token))

    def _begin(self, group: Sequence[Kept]) -> None:
        now_ns = self._host.now_ns
        going = []
        for kept in group:
            repeated = self._reverting.refused(kept.record, now_ns)
            if repeated is not None:
                kept.record = kept.record.finished(Outcome.REFUSED, repeated)
            else:
                going.append(kept)
        if going:
            self._execution.begin_together(going)
        for kept in going:
            if kept.record.measure_at_ns is not None and kept.record.outcome is not Outcome.REFUSED:
                self._watch(kept)

    def _watch(self, kept: Kept) -> None:
        """Has the effect of a decision measured and judged."""
        self._unmeasured.append(kept)
        self._reverting.began(kept.number, kept.record, ElasticView.of(self._observers.last))
        self._judged[kept.number] = kept
        if len(self._judged) > RECORDS_MAX:
            del self._judged[next(iter(self._judged))]

    # What became of decisions.

    def finished(self, order: str, spent: Mapping[str, float]) -> None:
        """Workers have joined, or one has left."""
        kept = self._execution.ended(order)
        if kept is not None:
            kept.record = kept.record.finished(Outcome.DONE, spent=spent)
            self._announce(kept)

    def done(self, order: int, moved: ShardsMoved) -> None:
        """A lever reports."""
        if moved.refused is not None:
            self.failed(order, moved.refused)
            return
        kept = self._execution.ended(order)
        if kept is not None:
            waited_ms = moved.waited_ns / 1e6 / moved.moved if moved.moved else 0.0
            spent = {"shards": float(moved.moved), "bytes": float(moved.bytes), "wait_ms": waited_ms}
            kept.record = kept.record.finished(Outcome.DONE, spent=spent)
            self._announce(kept)
            if kept.record.reverts is not None:
                self._reverted(kept.record.reverts)

    def handed_over(self, order: int, spent: Mapping[str, float]) -> None:
        """The next attempt of a job runs."""
        for kept in self._ended_by(order):
            kept.record = kept.record.finished(Outcome.DONE, spent=dict(spent))
            self._announce(kept)

    def failed(self, order: int | str, reason: str) -> None:
        """A lever reports that nothing was changed, or that the attempt has ended."""
        for kept in self._ended_by(order):
            kept.record = kept.record.finished(Outcome.FAILED, reason)
            self._reverting.forget(kept.number)
            self._announce(kept)

    def _ended_by(self, order: int | str) -> tuple[Kept, ...]:
        """Returns the decisions that an order was for."""
        kept = self._execution.ended(order)
        return () if kept is None else (kept, *kept.together)

    def _look(self) -> None:
        """Remembers what is observed after decisions were carried out: their effects are measured from there on."""
        observed = self._observers.last
        for kept in self._unmeasured:
            job = self._host.jobs.get(kept.record.job)
            seen = observed.jobs.get(kept.record.job)
            if kept.since is None and kept.record.outcome is Outcome.DONE and job is not None and seen is not None:
                # What is observed may be of the attempt before.
                kept.since = observed if seen.attempt == job.attempt else None

    def _measure(self, now_ns: int) -> None:
        """Measures the effects of decisions whose time has come."""
        due = [kept for kept in self._unmeasured if (kept.record.measure_at_ns or 0) <= now_ns]
        if not due:
            return
        view = ElasticView.of(self._observers.last)
        for kept in due:
            self._unmeasured.remove(kept)
            effect = measured_effect(view, kept.record, kept.since)
            if effect is not None:
                kept.record = kept.record.measured(effect)
                self._announce(kept)
            kept.since = None  # It is large.
            self._reverting.measured(kept.number, view, now_ns)

    def _revert(self, now_ns: int) -> None:
        """Takes decisions back that have made it worse."""
        again_ns = self._reverting.next_ns()
        if again_ns is not None and again_ns <= now_ns:
            for record in self._reverting.due(ElasticView.of(self._observers.last), now_ns):
                self.enact(record)

    def _reverted(self, number: int) -> None:
        """A decision has been taken back: its record says so."""
        kept = self._judged.get(number)
        if kept is not None:
            kept.record = replace(kept.record, reverted_ns=self._host.now_ns)
            self._announce(kept)

    def _announce(self, kept: Kept) -> None:
        self._host.effects.append(AnnounceDecision(kept.number, kept.record, kept.token))
