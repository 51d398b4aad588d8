"""Henge's state machine: resources go to the jobs whose objectives they serve (thesis 3.2).

It goes step by step: plan one, have it carried out, let the cluster converge, measure, go on. There are three kinds.

- Reconfiguration: jobs that miss their objectives get units, in proportion to how full their functions are. Those that
  are farthest from their objectives come first, and all take turns, so nobody takes everything.
- Reduction: where there are no units left, some are taken from jobs that miss them least, but rarely, and only where
  the predicted total (or least) utility rises.
- Reversion: if utility fell after a step, the best configuration that was seen under a like load is restored.

A job whose utility did not improve by two steps in a row rests for a while: it gets nothing, and others do. What was
measured counts for more than what is predicted: a configuration that was no better is not tried again under a like
load, and reductions that bring nothing become rarer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from stretto.elasticity.decisions import GiveCapacity, TakeCapacity
from stretto.elasticity.intents import IntentView, JobStanding, Units
from stretto.elasticity.records import Candidate, DecisionRecord, Trigger
from stretto.elasticity.transfers import Goal, achieved, best_transfer, next_wanted, wanted_units

SECOND_NS = 1_000_000_000
TRIED_MAX = 64
"""The number of configurations whose achievement is remembered."""


class Step(Enum):
    """What the machine did last."""

    NONE = "nothing"
    RECONFIGURATION = "reconfiguration"
    REDUCTION = "reduction"
    REVERSION = "reversion"


@dataclass(frozen=True, slots=True)
class IntentSettings:
    """`settle_ns` is how long the cluster converges after a step, and `carry_ns` how long it may take until a step is
    carried out at most. A job misses its objective if it lacks more than
    `margin` of its utility. `target` is the load that functions get units for. Utility fell if it lost `fall` of what
    is possible, and a step helped a job if it gained `helped`. Reductions are `reduce_every_ns` apart at least, take
    `reduce_share` of all units at most, and must gain `least_gain` of what the job is worth; those that
    bring nothing are followed by a longer wait, up to `wait_ns_max`. After `futile_max` steps without help, a job rests
    for `rest_ns`. Loads are alike if they differ by less than `alike`."""

    settle_ns: int = 20 * SECOND_NS
    carry_ns: int = 60 * SECOND_NS
    margin: float = 0.02
    target: float = 0.7
    fall: float = 0.05
    helped: float = 0.01
    reduce_every_ns: int = 60 * SECOND_NS
    wait_ns_max: int = 3_600 * SECOND_NS
    reduce_share: float = 0.25
    least_gain: float = 0.05
    futile_max: int = 2
    rest_ns: int = 300 * SECOND_NS
    alike: float = 0.2


@dataclass(frozen=True)
class Seen:
    """A configuration that was tried: its units, what it achieved, and under which load."""

    units: Mapping[tuple[str, str], int]
    achieved: float
    rows_per_s: float


@dataclass
class Pending:
    """The step whose effect is not measured yet."""

    kind: Step
    before: IntentView
    began_ns: int = 0
    changed: frozenset[tuple[str, str]] = frozenset()
    """The functions whose units it changes."""
    helped: set[str] = field(default_factory=set)
    """The jobs that it gave units."""


class IntentMachine:
    """Views in, records of decisions out. Call `decide` every ten seconds or so."""

    def __init__(self, name: str = "henge", goal: Goal = Goal.TOTAL, settings: IntentSettings | None = None) -> None:
        self._name = name
        self._goal = goal
        self._settings = settings or IntentSettings()
        self._settled_ns = 0
        self._reducible_ns = 0
        self._pending: Pending | None = None
        self._best: list[Seen] = []
        self._tried: deque[Seen] = deque(maxlen=TRIED_MAX)
        self._wait_ns = self._settings.reduce_every_ns
        self._waits_for = 0.0
        """The load under which reductions last failed."""
        self._futile: dict[str, int] = {}
        self._rests_until_ns: dict[str, int] = {}
        self.last = Step.NONE

    def decide(self, view: IntentView, now_ns: int) -> list[DecisionRecord]:
        """Returns the next step, as decisions about functions; nothing while the last one settles, or if all is
        well."""
        if now_ns < self._settled_ns or not view.jobs or self._is_under_way(view, now_ns):
            return []
        self._forget(view)
        pending, self._pending = self._pending, None
        if pending is not None:
            self._tried.append(Seen(view.units, achieved(self._goal, view), view.rows_per_s))
            self._slow_down(pending, view, now_ns)
            if self._fell(pending, view):
                reverted = self._revert(view, now_ns)
                if reverted:
                    return reverted
            self._judge(pending, view, now_ns)
        self._remember(view)
        missing = self._missing(view, now_ns)
        if not missing:
            self.last = Step.NONE
            return []
        return self._reconfigure(view, missing, now_ns) or self._reduce(view, missing, now_ns)

    # What the last step has brought.

    def _is_under_way(self, view: IntentView, now_ns: int) -> bool:
        """Whether the last step is still being carried out: a function has the units that it had, or its job is in the
        middle of a handover. Its effect cannot be seen then, and others would be judged without that job. One that was
        refused never is, so that does not last for ever."""
        pending = self._pending
        if pending is None or now_ns >= pending.began_ns + self._settings.carry_ns:
            return False
        before, now = pending.before.units, view.units
        return any(place not in now or now[place] == before[place] for place in pending.changed)

    def _alike(self, one: float, other: float) -> bool:
        return abs(one - other) <= self._settings.alike * max(one, other)

    def _fell(self, pending: Pending, view: IntentView) -> bool:
        """Whether utility fell though the load did not rise much: then the step is to blame."""
        if pending.kind is Step.REVERSION or not self._alike(pending.before.rows_per_s, view.rows_per_s):
            return False
        return achieved(self._goal, view) < achieved(self._goal, pending.before) - self._settings.fall

    def _slow_down(self, pending: Pending, view: IntentView, now_ns: int) -> None:
        """Makes the next reduction wait twice as long if the last one has brought nothing: predictions are not to be
        trusted here. After a good one, and under another load, it is as before."""
        settings = self._settings
        if not self._alike(self._waits_for, view.rows_per_s):
            self._wait_ns, self._waits_for = settings.reduce_every_ns, view.rows_per_s
        if pending.kind is not Step.REDUCTION:
            return
        if achieved(self._goal, view) > achieved(self._goal, pending.before):
            self._wait_ns = settings.reduce_every_ns
        else:
            self._wait_ns = min(2 * self._wait_ns, settings.wait_ns_max)
            self._reducible_ns = now_ns + self._wait_ns

    def _was_no_better(self, after: IntentView, view: IntentView) -> bool:
        """Whether a configuration was tried under a like load, and was no better than this one."""
        return any(
            seen.units == after.units
            and self._alike(seen.rows_per_s, view.rows_per_s)
            and seen.achieved <= achieved(self._goal, view)
            for seen in self._tried
        )

    def _judge(self, pending: Pending, view: IntentView, now_ns: int) -> None:
        """Counts the steps that did not help a job; after some of them it rests."""
        for name in sorted(pending.helped & set(view.jobs)):
            before, after = pending.before.jobs.get(name), view.jobs[name]
            if before is None or not self._alike(before.rows_per_s, after.rows_per_s):
                continue
            if after.ratio >= before.ratio + self._settings.helped or not self._misses(after):
                self._futile.pop(name, None)
                continue
            self._futile[name] = self._futile.get(name, 0) + 1
            if self._futile[name] >= self._settings.futile_max:
                del self._futile[name]
                self._rests_until_ns[name] = now_ns + self._settings.rest_ns

    def _remember(self, view: IntentView) -> None:
        """Keeps the best configuration for each load: a better one replaces those of like loads."""
        here = Seen(view.units, achieved(self._goal, view), view.rows_per_s)
        alike = [seen for seen in self._best if self._alike(seen.rows_per_s, here.rows_per_s)]
        same = [seen for seen in alike if seen.units == here.units]
        if same or all(seen.achieved < here.achieved for seen in alike):
            # What is known of the same configuration is replaced by what it achieves now.
            gone = same if same else alike
            self._best = [*(seen for seen in self._best if seen not in gone), here]

    def _forget(self, view: IntentView) -> None:
        """Drops what is known of jobs that are gone, and configurations of other sets of functions."""
        places = set(view.units)
        self._best = [seen for seen in self._best if set(seen.units) == places]
        for known in (self._futile, self._rests_until_ns):
            for name in [name for name in known if name not in view.jobs]:
                del known[name]

    # Steps.

    def _misses(self, job: JobStanding) -> bool:
        return job.attained is not None and job.ratio < 1 - self._settings.margin

    def _missing(self, view: IntentView, now_ns: int) -> list[JobStanding]:
        """Returns the jobs that miss their objectives and do not rest, those that lack most first."""
        found = [
            job for name, job in view.jobs.items() if self._misses(job) and self._rests_until_ns.get(name, 0) <= now_ns
        ]
        if self._goal is Goal.FAIR:
            return sorted(found, key=lambda job: job.ratio)
        return sorted(found, key=lambda job: job.utility - job.slo.priority)

    def _reconfigure(self, view: IntentView, missing: list[JobStanding], now_ns: int) -> list[DecisionRecord]:
        """Gives spare units to all that miss their objectives, one each in turn, to their fullest functions."""
        now = view
        wants = {job.name: wanted_units(job, self._settings.target) for job in missing}
        turns = [job.name for job in missing]
        while turns and now.spare > 0:
            for name in list(turns):
                function = next_wanted(now.jobs[name], wants[name])
                if function is None:
                    turns.remove(name)
                elif now.spare > 0:
                    wants[name][function] -= 1
                    now = now.with_units({(name, function): now.units[name, function] + 1})
        changed = _changed(view.units, now.units)
        if not changed or self._was_no_better(now, view):
            return []
        return self._take_step(Step.RECONFIGURATION, view, now, changed, now_ns, "its job misses its objective")

    def _reduce(self, view: IntentView, missing: list[JobStanding], now_ns: int) -> list[DecisionRecord]:
        """Takes units from those that miss them least, for jobs that gain more by them, those that lack most first."""
        if now_ns < self._reducible_ns:
            return []
        settings = self._settings
        now, left = view, max(1, int(settings.reduce_share * sum(view.units.values())))
        for job in missing:
            standing = now.jobs[job.name]
            wants = wanted_units(standing, settings.target)
            least_gain = settings.least_gain * (job.slo.priority / view.total_max if self._goal is Goal.TOTAL else 1.0)
            found = best_transfer(now, job.name, wants, self._goal, least_gain, left) if left else None
            if found is not None and not self._was_no_better(found.after, view):
                left -= sum(max(0, units - now.units[place]) for place, units in found.units.items())
                now = found.after
        changed = _changed(view.units, now.units)
        if not changed:
            self.last = Step.NONE
            return []
        self._reducible_ns = now_ns + self._wait_ns
        because = "its job misses its objective, and others need their units less"
        return self._take_step(Step.REDUCTION, view, now, changed, now_ns, because)

    def _revert(self, view: IntentView, now_ns: int) -> list[DecisionRecord]:
        """Restores the best configuration that was seen under a like load, if it was better than this one."""
        alike = [seen for seen in self._best if self._alike(seen.rows_per_s, view.rows_per_s)]
        best = max(alike, key=lambda seen: seen.achieved, default=None)
        if best is None or best.achieved <= achieved(self._goal, view) or best.units == view.units:
            return []
        self._reducible_ns = now_ns + max(self._wait_ns, self._settings.rest_ns)
        changed = _changed(view.units, best.units)
        because = "utility fell after the last step, and was better before"
        return self._take_step(Step.REVERSION, view, view.with_units(changed), changed, now_ns, because)

    def _take_step(
        self, kind: Step, view: IntentView, after: IntentView, changed: Units, now_ns: int, because: str
    ) -> list[DecisionRecord]:
        self.last = kind
        self._settled_ns = now_ns + self._settings.settle_ns
        gets = {name for (name, function), units in changed.items() if units > view.units[name, function]}
        helped = gets if kind is not Step.REVERSION else set()
        self._pending = Pending(kind, view, now_ns, frozenset(changed), helped)
        return [
            self._record(kind, place, units - view.units[place], view, after, because, now_ns)
            for place, units in sorted(changed.items())
        ]

    def _record(
        self,
        kind: Step,
        place: tuple[str, str],
        units: int,
        view: IntentView,
        after: IntentView,
        because: str,
        now_ns: int,
    ) -> DecisionRecord:
        """Returns the record of one function: what was seen of its job, and what else could have been done."""
        name, function = place
        job, then = view.jobs[name], after.jobs[name]
        decision = GiveCapacity(*place, units) if units > 0 else TakeCapacity(*place, -units)
        trigger = Trigger.UTILITY_FELL if kind is Step.REVERSION else Trigger.OBJECTIVE if units > 0 else Trigger.ROBBED
        aim = "total" if self._goal is Goal.TOTAL else "least"
        predicted = {"utility": then.utility, aim: achieved(self._goal, after)}
        stay = {"utility": job.utility, aim: achieved(self._goal, view)}
        lost = "utility was better before" if kind is Step.REVERSION else "the objective would be missed"
        if units < 0 and kind is not Step.REVERSION:
            lost = "another job gains more by these units"
        others = self._others(view, name, function, units)
        candidates = (Candidate(str(decision), predicted), Candidate("stay", stay, lost), *others)
        return DecisionRecord(
            now_ns, self._name, name, function, None, trigger, because, view.values_of(*place), candidates, decision,
            now_ns + self._settings.settle_ns,
        )  # fmt: skip

    def _others(self, view: IntentView, name: str, function: str, units: int) -> tuple[Candidate, ...]:
        """Returns what other functions of the job could have got instead."""
        if units <= 0:
            return ()
        job = view.jobs[name]
        found = []
        for other, each in job.functions.items():
            if other != function and each.changes:
                then = job.with_units({other: each.units + units})
                found.append(Candidate(f"give {units} units to {other}", {"utility": then.utility}, "it is less full"))
        return tuple(found)


def _changed(before: Units, after: Units) -> dict[tuple[str, str], int]:
    return {place: units for place, units in after.items() if units != before[place]}
