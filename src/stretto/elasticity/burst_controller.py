"""The controller `bursts`: sends bursts to transient workers and brings them back (sponge.txt 4.3).

Ordinary workers are to be busy between 60 and 80 percent. When what arrives would take more, and ordinary workers have
no room that a strategy or an elastic executor can use, so much goes to transient workers that the ordinary ones are at
70 percent and what has piled up is processed by the deadline. When all of it fits on ordinary workers again, it comes
back. A burst that has cost more than ordinary workers would have is none: they are added, and take over.

Where it differs from the paper, and why:

- **It looks at every observation**, four times a second: what piles up until a burst is noticed is what is late.
- **What arrives counts, not how busy workers are**: how many cores it takes is known from the cost of rows, before the
  workers have been full for a second. One look is enough if all of their time would not do, or if they are full.
- **Sources that read as fast as they may have no burst.** Their job would take any number of workers.
- **It goes at once and comes back after two seconds**, so that a wave does not send it to and fro. It comes back when
  the ordinary workers can take what arrives and, by the deadline, what has piled up: they need not be idle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from stretto.elasticity.burst_cold import ColdWorkers
from stretto.elasticity.burst_memory import Remembered
from stretto.elasticity.burst_plan import BurstPlan, missing_cores, plan_burst
from stretto.elasticity.burst_prices import Prices, Spending, break_even_share
from stretto.elasticity.burst_returning import Returning
from stretto.elasticity.burst_view import JobLoad, load_of
from stretto.elasticity.controller import Controller
from stretto.elasticity.decisions import (
    AddWorkers,
    Decision,
    DrainWorker,
    EndBurst,
    GiveCapacity,
    RedirectBurst,
)
from stretto.elasticity.effects import burst_values
from stretto.elasticity.offloading import target_throughput
from stretto.elasticity.records import Candidate, DecisionRecord, Trigger
from stretto.elasticity.subjects import Subject
from stretto.elasticity.view import ElasticView

SECOND_NS = 1_000_000_000
STAYS = "it stays where it is"


@dataclass(frozen=True, slots=True)
class BurstSettings:
    """Ordinary workers are to be busy between `low` and `high`, and `target` is what is aimed at. A burst begins after
    `looks` looks, and it ends, or takes less, after `calm_looks`. A share that differs by less than `alike` is left.
    Ordinary workers are asked for again after `ask_again_ns`."""

    low: float = 0.6
    high: float = 0.8
    target: float = 0.7
    looks: int = 4
    calm_looks: int = 8
    alike: float = 0.1
    ask_again_ns: int = 60 * SECOND_NS
    prices: Prices = field(default_factory=Prices)
    warm: int = 0
    """So many transient workers wait all the time ..."""
    transient_max: int = 0
    """... and so many there may be in a burst."""


class _Followed:
    """A job: what is remembered of it, for how many looks something was so, and what its bursts have cost."""

    def __init__(self, attempt: str, began_ns: int, prices: Prices) -> None:
        self.attempt = attempt
        self.began_ns = began_ns
        """When this attempt was first seen."""
        self.known = Remembered()
        self.over_looks = 0
        self.calm_looks = 0
        self.less_looks = 0
        self.spending = Spending(prices)
        self.asked_ns: int | None = None
        self.workers_then: frozenset[str] = frozenset()
        """The ordinary workers when more were asked for."""


class BurstController(Controller):
    """Bursts of all jobs that have functions whose batches may run on transient workers."""

    name = "bursts"
    every_ns = SECOND_NS // 4
    effect_ns = 2 * SECOND_NS
    looks_at = Subject.REDIRECTABLE_FUNCTIONS

    def __init__(self, settings: BurstSettings | None = None) -> None:
        self._settings = settings or BurstSettings()
        self._jobs: dict[str, _Followed] = {}
        self._looked_ns = 0
        self._cold = ColdWorkers(self._settings.warm, self._settings.transient_max)
        level = (self._settings.target + self._settings.high) / 2  # Well below what begins the next burst.
        self._returning = Returning(int(self._settings.prices.kept_s * SECOND_NS), level)

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        if view.time_ns == self._looked_ns:
            return []
        since_ns, self._looked_ns = self._looked_ns, view.time_ns
        loads = {name: load_of(view, name) for name in sorted(view.jobs)}
        self._jobs = {name: each for name, each in self._jobs.items() if name in loads}
        taken = {name: set(load.away) for name, load in loads.items()}
        found: list[DecisionRecord] = []
        for name, load in loads.items():
            if not any(each.redirects for each in load.functions.values()):
                continue
            job = self._followed(load, view.time_ns)
            job.known.look(load, view.time_ns)
            if load.away:
                job.spending.add(len(load.away), since_ns, view.time_ns)
            others = {member for other, members in taken.items() if other != name for member in members}
            free = [member for member in load.warm if member not in others]
            records = self._about(view, load, job, free, now_ns)
            for record in records:
                if isinstance(record.decision, RedirectBurst):
                    taken[name] = {member for each in record.decision.redirections for member in each.members}
            found += records
        return [*found, *self._given_back(view, loads, now_ns), *self._cold_leave(view, loads, now_ns)]

    def _followed(self, load: JobLoad, now_ns: int) -> _Followed:
        job = self._jobs.get(load.name)
        if job is None or job.attempt != load.attempt:
            known = None if job is None else job.known
            job = self._jobs[load.name] = _Followed(load.attempt, now_ns, self._settings.prices)
            if known is not None:
                job.known.inherit(known)
        return job

    def _about(
        self, view: ElasticView, load: JobLoad, job: _Followed, free: list[str], now_ns: int
    ) -> list[DecisionRecord]:
        """Returns what is to be done about one job."""
        if load.redirected:
            return self._follow(view, load, job, free, now_ns)
        if view.time_ns - job.began_ns < SECOND_NS:
            return []  # What was seen in a part of a second does not say where its work is.
        missing = missing_cores(load, job.known, job.known.arriving, self._settings.high, view.workers)
        job.calm_looks = job.less_looks = 0
        if not job.known.is_paced or missing <= 0:
            job.over_looks = 0
            return self._left(view, load, job, now_ns)
        job.over_looks += 1
        is_sure = load.busiest > self._settings.high or job.over_looks >= self._settings.looks
        surely = min(job.known.arriving, job.known.usual)
        if not is_sure and missing_cores(load, job.known, surely, 1.0, view.workers) <= 0:
            return []
        return self._begin(view, load, job, free, now_ns)

    def _left(self, view: ElasticView, load: JobLoad, job: _Followed, now_ns: int) -> list[DecisionRecord]:
        """Says so if others absorb a burst."""
        known = job.known
        alone = missing_cores(load, known, known.arriving, self._settings.high, view.workers, fluid=False)
        if not known.is_paced or alone <= 0:
            return []
        because = "a strategy or an elastic executor can use the room of other ordinary workers"
        return [self._record(view, load, job, now_ns, Trigger.BURST, because)]

    def _begin(
        self, view: ElasticView, load: JobLoad, job: _Followed, free: list[str], now_ns: int
    ) -> list[DecisionRecord]:
        plan = plan_burst(load, job.known, self._settings.target, view.workers, free)
        more = self._cold_come(view, load, plan, now_ns)
        if plan.redirections:
            because = "what arrives takes more than the ordinary workers have"
            decision = RedirectBurst(load.name, plan.redirections)
            return [*more, self._record(view, load, job, now_ns, Trigger.BURST, because, decision, plan)]
        if not load.warm:
            because = "there is a burst, and no transient worker has loaded the job"
        elif not free:
            because = "there is a burst, and all transient workers are used by other jobs"
        else:
            because = "there is a burst, and what is busy cannot run on transient workers"
        return [*more, self._record(view, load, job, now_ns, Trigger.BURST, because, None, plan)]

    # While batches go to transient workers.

    def _follow(
        self, view: ElasticView, load: JobLoad, job: _Followed, free: list[str], now_ns: int
    ) -> list[DecisionRecord]:
        settings, known = self._settings, job.known
        is_late = known.queued > 0
        rate = target_throughput(known.usual, known.queued, load.deadline_s)
        fits = missing_cores(load, known, rate, settings.high, view.workers) <= 0
        job.calm_looks = job.calm_looks + 1 if fits else 0
        if job.calm_looks >= settings.calm_looks:
            job.calm_looks = job.over_looks = 0
            because = "what arrives fits on the ordinary workers again"
            return [self._record(view, load, job, now_ns, Trigger.BURST_OVER, because, EndBurst(load.name))]
        found = self._lasting(view, load, job, now_ns)
        if job.calm_looks or (not is_late and settings.low <= load.busiest <= settings.high):
            job.less_looks = 0
            return found
        plan = plan_burst(load, known, settings.target, view.workers, free)
        found += self._cold_come(view, load, plan, now_ns)
        if not plan.redirections or not self._is_due(load, plan, job):
            return found
        job.less_looks = 0
        because = "another share of what arrives fits on the ordinary workers"
        decision = RedirectBurst(load.name, plan.redirections)
        return [*found, self._record(view, load, job, now_ns, Trigger.BURST, because, decision, plan)]

    def _is_due(self, load: JobLoad, plan: BurstPlan, job: _Followed) -> bool:
        """Whether what goes to transient workers is to be changed: more at once, less after a while."""
        now = {function: to.share for function, to in load.redirected.items()}
        functions = plan.shares.keys() | now.keys()
        change = max(plan.shares.get(each, 0.0) - now.get(each, 0.0) for each in functions)
        if len(plan.members) > len(load.away) or change > self._settings.alike:
            return True
        fall = max(now.get(each, 0.0) - plan.shares.get(each, 0.0) for each in functions)
        is_less = len(plan.members) < len(load.away) or fall > self._settings.alike
        job.less_looks = job.less_looks + 1 if is_less else 0
        return job.less_looks >= self._settings.calm_looks

    def _lasting(self, view: ElasticView, load: JobLoad, job: _Followed, now_ns: int) -> list[DecisionRecord]:
        """Asks for ordinary workers once transient ones have cost more, and has them take over when they are there."""
        settings, known = self._settings, job.known
        if job.asked_ns is not None:
            come = view.workers.keys() - job.workers_then
            if come:
                job.asked_ns = None
                job.spending.forget()
                taken = self._taken_over(view, load, job, len(come), now_ns)
                given = [each.decision for each in taken if isinstance(each.decision, GiveCapacity)]
                self._returning.came(sorted(come), given, now_ns)
                return taken
            if now_ns - job.asked_ns < settings.ask_again_ns:
                return []
        missing = missing_cores(load, known, known.arriving, settings.target, view.workers)
        count = math.ceil(missing / settings.target - 1e-9)
        if count < 1 or not job.spending.is_dearer(count):
            return []
        job.asked_ns, job.workers_then = now_ns, frozenset(view.workers)
        spending = job.spending
        seen = {
            "transient_cost": spending.transient(count),
            "ordinary_cost": spending.ordinary(count),
            "break_even_share": break_even_share(settings.prices, len(load.away), count),
        }
        because = f"the burst of job '{load.name}' lasts: ordinary workers would have cost less"
        stay = Candidate(STAYS, {"cost": spending.transient(count)}, "it costs more than ordinary workers")
        add = Candidate(str(AddWorkers(count)), {"cost": spending.ordinary(count)})
        return [self.cluster_record(now_ns, because, AddWorkers(count), Trigger.LASTING, seen, (add, stay))]

    def _taken_over(
        self, view: ElasticView, load: JobLoad, job: _Followed, count: int, now_ns: int
    ) -> list[DecisionRecord]:
        """Has functions use the ordinary workers that have come; those that are spread or elastic do so by
        themselves."""
        because = "the burst lasts, and ordinary workers have come for it"
        return [
            self._record(
                view, load, job, now_ns, Trigger.LASTING, because, GiveCapacity(load.name, name, count), function=name
            )
            for name in sorted(load.redirected)
            if not load.functions[name].fluid
        ]

    def _cold_come(self, view: ElasticView, load: JobLoad, plan: BurstPlan, now_ns: int) -> list[DecisionRecord]:
        """Asks for transient workers beyond those that wait."""
        decision = self._cold.more(plan.cores - len(plan.members), len(view.observed.transient), now_ns)
        if decision is None:
            return []
        because = f"the burst of job '{load.name}' takes more transient workers than there are"
        seen = {"transient_cores_wanted": float(plan.cores), "transient_workers": float(len(plan.members))}
        chosen = Candidate(str(decision), {"transient_workers": float(len(plan.members) + decision.count)})
        stay = Candidate("use those that there are", seen, "events would wait for longer")
        return [self.cluster_record(now_ns, because, decision, Trigger.BURST, seen, (chosen, stay))]

    def _cold_leave(self, view: ElasticView, loads: Mapping[str, JobLoad], now_ns: int) -> list[DecisionRecord]:
        """Has those leave that came for a burst which is over."""
        is_burst = any(load.redirected for load in loads.values())
        there = view.observed.transient
        because = "the burst for which transient workers came is over"
        seen = {"transient_workers": float(len(there)), "warm": float(self._settings.warm)}
        return [
            self.cluster_record(now_ns, because, decision, Trigger.BURST_OVER, seen, (Candidate(str(decision)),))
            for decision in self._cold.fewer(there, is_burst, now_ns)
        ]

    def _given_back(self, view: ElasticView, loads: Mapping[str, JobLoad], now_ns: int) -> list[DecisionRecord]:
        """Gives back one by one what came for bursts that have lasted."""
        if self._returning.is_empty:
            return []
        is_burst = any(load.redirected for load in loads.values())
        decision = self._returning.next(view.workers, view.jobs, is_burst, now_ns)
        if decision is None:
            return []
        because = "the burst for which ordinary workers came is over, and the others have room for everything"
        busy = sum(each.busy_share for each in view.workers.values())
        seen = {"busy_workers": busy, "workers": float(len(view.workers))}
        stay = Candidate(STAYS, {"workers": float(len(view.workers))}, "it costs as much, and is not needed")
        if isinstance(decision, DrainWorker):
            chosen = Candidate(str(decision), {"workers": len(view.workers) - 1.0})
            return [self.cluster_record(now_ns, because, decision, Trigger.BURST_OVER, seen, (chosen, stay))]
        chosen = Candidate(str(decision))
        return [
            DecisionRecord(
                *(now_ns, self.name, decision.job, decision.function, None, Trigger.BURST_OVER, because, seen),
                *((chosen, stay), decision, now_ns + self.effect_ns),
            )
        ]

    # Records.

    def _record(
        self,
        view: ElasticView,
        load: JobLoad,
        job: _Followed,
        now_ns: int,
        trigger: Trigger,
        because: str,
        decision: Decision | None = None,
        plan: BurstPlan | None = None,
        function: str = "",
    ) -> DecisionRecord:
        """Returns a record about a job, or one of its functions."""
        seen = {**burst_values(view, load.name), **self._seen(view, load, job)}
        measure_ns = None if decision is None else now_ns + self.effect_ns
        candidates = () if plan is None or decision is None else self._candidates(load, job, plan, decision)
        return DecisionRecord(
            now_ns, self.name, load.name, function, None, trigger, because, seen, candidates, decision, measure_ns
        )

    def _seen(self, view: ElasticView, load: JobLoad, job: _Followed) -> Mapping[str, float]:
        known = job.known
        return {
            "arriving_per_s": known.arriving,
            "processed_per_s": known.processed,
            "queued_rows": known.queued,
            "deadline_s": load.deadline_s,
            "cores_missing": missing_cores(load, known, known.arriving, self._settings.target, view.workers),
            "rho": known.rho,
        }

    def _candidates(self, load: JobLoad, job: _Followed, plan: BurstPlan, decision: Decision) -> tuple[Candidate, ...]:
        known = job.known
        late_s = known.queued / known.arriving if known.arriving else 0.0
        growth = max(0.0, 1.0 - known.processed / known.arriving) if known.arriving else 0.0
        chosen = {"transient_workers": float(len(plan.members)), "throughput": plan.throughput}
        stay = {"behind_s": late_s + growth * load.deadline_s}
        lost: list[Candidate] = [Candidate(STAYS, stay, "events would wait for longer")]
        if plan.cores > len(plan.members):
            wanted = {"transient_workers": float(plan.cores), "throughput": plan.throughput}
            lost.append(Candidate(f"use {plan.cores} transient workers", wanted, "there are not as many"))
        ordinary = math.ceil(plan.missing / self._settings.target)
        lost.append(Candidate(str(AddWorkers(ordinary)), {}, "they come later, and a burst may be over soon"))
        return (Candidate(str(decision), chosen), *lost)
