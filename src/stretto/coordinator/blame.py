"""Which job is to blame when workers die, and how it is kept away from the others.

A part of the coordinator machine. A worker that dies takes every job on it down, so a function that ends its process
would keep all jobs from making progress. The worker leaves a note of what it ran last, but the note can be wrong: a
thread or a signal may end the process while another job runs. So a first death only makes a job **suspect**: of those
on the dead worker the one that was present at the most deaths, where the note counts as another one. A suspect resumes
in **quarantine**, on a worker that no other job shares. A death there is a **strike**; with enough strikes in a row the
job fails, and the others have lost one worker. A suspect that survives is acquitted after a while.

Half of the workers, rounded down, are places for quarantine. Further suspects wait for one; whoever has survived there
for some time then makes room. On a cluster of one worker there is no place: the suspect is held back for a while, a
death after its return is a strike, and a death in its absence acquits it.

A death that may come from outside (`DeathCause.ANY`) counts only against jobs that have completed no checkpoint since
they resumed: a job that makes progress is not the cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stretto.actors.address import job_of
from stretto.coordinator.events import AnnounceMisbehaviour, Death, DeathCause
from stretto.coordinator.interfaces import Workers
from stretto.coordinator.part import Host, Part
from stretto.coordinator.records import Job, JobStatus
from stretto.protocol.jobs import Failure
from stretto.protocol.reports import Misbehaved

STRIKES_MAX = 3
"""The number of deaths in a row, on a worker of its own, after which a job fails."""
UNNOTED_PER_STRIKE = 2
"""A death that may come from outside, and while nothing of the job ran, is half a strike."""
BACKOFF_NS = 1_000_000_000
"""How long a job waits after its first strike; twice as long after each further one."""
ABSENCE_NS = 5_000_000_000
"""How long a suspect is held back first, where there is no place for quarantine; twice as long each further time."""
TRIAL_NS = 15_000_000_000
"""How long a suspect keeps its place while others wait for one, if it survives."""
ACQUITTED_AFTER_NS = 60_000_000_000
"""Deaths that are further apart than this have nothing to do with each other."""


@dataclass
class Suspicion:
    """What speaks against a job."""

    deaths: int = 0
    """The number of deaths at which it was present."""
    noted: int = 0
    """How often it was in the note: twice for a run that was under way, once for the last one."""
    strikes: float = 0.0
    quarantined_ns: int | None = None
    """Since when it is to have a worker of its own."""
    held_back: bool = False
    """Whether it has resumed later than the others, so that a death since then is its own."""
    roomless: bool = False
    """Whether there was no worker for its quarantine."""
    in_last_note: bool = False
    """Whether a run of it was under way at the last death."""
    function: str | None = None
    """The function in the last note of a run of it that was under way."""
    last_ns: int = 0
    resumes_ns: int = 0


class JobsHere(Protocol):
    """What the blame needs of the jobs."""

    def fail(self, job: Job, failure: Failure) -> None: ...


class Recoveries(Protocol):
    """Who gives a job another attempt."""

    def begin(self, job: Job) -> None: ...


class Blame(Part):
    """The suspicions against all jobs."""

    def __init__(self, host: Host, hosts: Workers) -> None:
        self._host = host
        self._hosts = hosts
        self._suspicions: dict[str, Suspicion] = {}
        self._workers_max = 0

    def connect(self, jobs: JobsHere, recoveries: Recoveries) -> None:
        self._jobs = jobs
        self._recoveries = recoveries

    # Deaths.

    def judge(self, member: str, death: Death) -> None:
        """Finds out who is to blame for the death of a worker. The jobs are still placed as they were when it died."""
        self._refresh()
        present = [job for job in self._unended() if member in job.members]
        noted = self._noted(death)
        if noted is not None and death.interrupted is not None and (noted.durability is None or noted not in present):
            return  # Nobody else is to blame. It fails with its worker, or was given up there when another one died.
        if death.cause is DeathCause.ANY:
            self._credit_progress(present)
        suspects = [job for job in self._suspects(death, present, noted) if job.status is not JobStatus.STOPPING]
        for job in suspects:
            self._note(job, death, is_noted=job is noted)
        culprit = self._culprit(present, suspects, noted)
        if suspects:
            self._compare_absent(present)
        if culprit is not None:
            self._strike(culprit, member, death, is_noted=culprit is noted)
        elif suspects:
            self._suspect(suspects, member, death)

    def _credit_progress(self, present: list[Job]) -> None:
        """Strikes count in a row: whoever has completed a checkpoint since the last one begins again."""
        for job in present:
            if job.name in self._suspicions and job.has_progressed:
                self._suspicions[job.name].strikes = 0.0

    def _noted(self, death: Death) -> Job | None:
        name = job_of(death.last_run.job) if death.last_run is not None else None
        return next((job for job in self._unended() if job.name == name), None)

    def _suspects(self, death: Death, present: list[Job], noted: Job | None) -> list[Job]:
        durable = [job for job in present if job.durability is not None]
        if death.cause is DeathCause.OWN:
            return durable
        if noted is not None and death.interrupted is not None:
            return [noted]
        return [job for job in durable if not job.has_progressed]

    def _note(self, job: Job, death: Death, is_noted: bool) -> None:
        suspicion = self._suspicions.setdefault(job.name, Suspicion())
        suspicion.last_ns = self._host.now_ns
        suspicion.deaths += 1
        suspicion.in_last_note = is_noted and death.interrupted is not None
        suspicion.noted += is_noted + suspicion.in_last_note
        if is_noted and death.interrupted is not None:
            suspicion.function = death.interrupted.function or suspicion.function

    def _culprit(self, present: list[Job], suspects: list[Job], noted: Job | None) -> Job | None:
        """Returns the job that alone can have caused a death; None if it may have been another."""
        if len(present) == 1:
            return suspects[0] if suspects else None
        placeless = [job for job in suspects if not self._has_place(self._suspicions[job.name])]
        late = [job for job in placeless if self._suspicions[job.name].held_back]
        if len(late) == 1:
            return late[0]
        return noted if noted in placeless else None

    def _strike(self, job: Job, member: str, death: Death, is_noted: bool) -> None:
        suspicion = self._suspicions[job.name]
        if death.cause is DeathCause.ANY and job.has_progressed:
            return
        is_certain = death.cause is DeathCause.OWN or is_noted
        suspicion.strikes += 1 if is_certain else 1 / UNNOTED_PER_STRIKE
        if suspicion.strikes >= STRIKES_MAX:
            self._convict(job, member, death)
            return
        first_ns = BACKOFF_NS if self._has_place(suspicion) else ABSENCE_NS
        self._hold_back(suspicion, first_ns << max(0, int(suspicion.strikes) - 1))
        self._announce(job, member, death, f"it resumes in {(suspicion.resumes_ns - self._host.now_ns) / 1e9:g} s")

    def _convict(self, job: Job, member: str, death: Death) -> None:
        suspicion = self._suspicions[job.name]
        who = f"function '{suspicion.function}' of job '{job.name}'" if suspicion.function else f"job '{job.name}'"
        fact = f"{who} ends the process of its workers"
        detail = f"{suspicion.deaths} workers have died with it, the last one, {member}: its process {death.how}"
        fix = "Correct the function, and submit the app again: it resumes from its last checkpoint."
        # The others were suspect because of this one; those in quarantine finish their trial.
        self._suspicions = {name: each for name, each in self._suspicions.items() if each.quarantined_ns is not None}
        self._jobs.fail(job, Failure("FunctionError", fact, detail, fix, suspicion.function, death.stack))

    def _compare_absent(self, present: list[Job]) -> None:
        """Acquits whoever was held back while another worker died; those who were present are not late any more."""
        names = {job.name for job in present}
        for name, suspicion in list(self._suspicions.items()):
            if name in names:
                suspicion.held_back = False
            elif suspicion.held_back and suspicion.resumes_ns > self._host.now_ns and not self._has_place(suspicion):
                del self._suspicions[name]

    def _suspect(self, suspects: list[Job], member: str, death: Death) -> None:
        """Keeps the most suspect job away from the others."""
        worst = max(suspects, key=self._weight)
        suspicion = self._suspicions[worst.name]
        if self._has_place(suspicion):
            suspicion.quarantined_ns = self._host.now_ns
            self._announce(worst, member, death, "it resumes on a worker of its own")
        else:
            self._hold_back(suspicion, ABSENCE_NS << suspicion.deaths - 1)
            self._announce(worst, member, death, "it resumes later than the others")

    def _weight(self, job: Job) -> tuple[int, bool, int, str]:
        """Orders suspects. A note counts as much as one death, so that one who is never noted is found out too."""
        suspicion = self._suspicions[job.name]
        return suspicion.deaths + suspicion.in_last_note, suspicion.in_last_note, suspicion.noted, job.name

    def _hold_back(self, suspicion: Suspicion, for_ns: int) -> None:
        suspicion.held_back = True
        suspicion.resumes_ns = self._host.now_ns + for_ns

    def _announce(self, job: Job, member: str, death: Death, what_follows: str) -> None:
        function = self._suspicions[job.name].function
        text = f"worker {member} died (its process {death.how}), and the job is suspected: {what_follows}"
        said = Misbehaved(job.attempt, function, text, death.stack or "")
        self._host.effects.append(AnnounceMisbehaviour(job.name, member, said))

    # Where jobs may run, and when.

    def resumes_ns(self, job: Job) -> int:
        """Returns when a job may resume at the earliest."""
        suspicion = self._suspicions.get(job.name)
        return suspicion.resumes_ns if suspicion is not None else 0

    def waits_for_place(self, job: Job) -> bool:
        """Whether a suspect has to wait because others have the places for quarantine."""
        return job in self._quarantined()[self._places() :]

    def tick(self) -> None:
        """Lets suspects that have survived make room for those that wait."""
        quarantined = self._quarantined()
        for job in quarantined[: len(quarantined) - self._places()]:
            survived_ns = self._host.now_ns - self._suspicions[job.name].last_ns
            if job.status is JobStatus.RUNNING and survived_ns >= TRIAL_NS:
                del self._suspicions[job.name]
                self._recoveries.begin(job)  # It leaves the worker that it had alone.

    def deadline_ns(self) -> int | None:
        quarantined = self._quarantined()
        trials = quarantined[: len(quarantined) - self._places()]
        return min((self._suspicions[job.name].last_ns + TRIAL_NS for job in trials), default=None)

    def workers_for(self, job: Job) -> list[str]:
        """Returns the workers that a job may be placed on now; none if it is to wait for one."""
        self._refresh()
        workers = self._hosts.workers()
        others = [other for other in self._unended() if other is not job]
        if not others:
            return workers
        taken = {member for other in others for member in other.members}
        if self.is_quarantined(job):
            return [worker for worker in workers if worker not in taken][:1]
        inside = [other for other in self._quarantined()[: self._places()] if other is not job]
        kept_off = {member for other in inside for member in other.members}
        free = [worker for worker in workers if worker not in kept_off]
        # Each suspect without a worker gets one that is to come, or else one that is empty.
        waiting = sum(not other.placement for other in inside) - (self._workers_max - len(workers))
        empty = [worker for worker in free if worker not in taken]
        reserved = set(empty[-waiting:]) if 0 < waiting < len(free) else set()
        return [worker for worker in free if worker not in reserved]

    def workers_wanted(self, job: Job, usual: int) -> int:
        """Returns how many workers a job is to wait for, if it usually has this many."""
        inside = self._quarantined()[: self._places()]
        if job in inside and len(self._unended()) > 1:
            return 1
        return max(1, usual - len(inside))

    def give_up_quarantine(self, job: Job) -> None:
        """There was no worker for a suspect's quarantine; it resumes among the others."""
        suspicion = self._suspicions.get(job.name)
        if suspicion is not None and suspicion.quarantined_ns is not None:
            suspicion.quarantined_ns, suspicion.roomless = None, True

    def is_quarantined(self, job: Job) -> bool:
        """Whether it is to have a worker of its own."""
        return job in self._quarantined()

    def _quarantined(self) -> list[Job]:
        """Returns the jobs that are to have a worker of their own, in the order in which they get one."""
        since = {
            name: each.quarantined_ns for name, each in self._suspicions.items() if each.quarantined_ns is not None
        }
        return sorted(
            (job for job in self._unended() if job.name in since), key=lambda job: (since[job.name], job.name)
        )

    def _has_place(self, suspicion: Suspicion) -> bool:
        """Whether a job can have a worker of its own, now or later."""
        return self._places() > 0 and not suspicion.roomless

    def _places(self) -> int:
        """Returns how many jobs can have a worker of their own at a time."""
        return self._workers_max // 2

    def _refresh(self) -> None:
        """Counts the workers, and acquits jobs that have run for a while, or have ended."""
        present = len(self._hosts.workers())
        self._workers_max = max(present, min(self._workers_max, self._hosts.wanted))
        names = {job.name for job in self._unended()}
        self._suspicions = {
            name: suspicion
            for name, suspicion in self._suspicions.items()
            if name in names and self._host.now_ns - suspicion.last_ns < ACQUITTED_AFTER_NS
        }

    def _unended(self) -> list[Job]:
        return [job for job in self._host.jobs.values() if not job.status.ended]


def failure_of_loss(job: Job, member: str, reason: str, death: Death | None) -> Failure:
    """Returns why a job without checkpoints fails with its worker."""
    last = death.interrupted if death is not None and death.cause is DeathCause.OWN else None
    if death is not None and last is not None and job_of(last.job) == job.name:
        what = f"function '{last.function}'" if last.function else "the code"
        fact = f"{what} of job '{job.name}' ended the process of its worker"
        fix = "Correct the function, and submit the app again."
        return Failure("FunctionError", fact, f"{member}: its process {death.how}", fix, last.function, death.stack)
    fact = f"worker {member} was lost while it ran job '{job.name}'"
    return Failure("ClusterError", fact, reason, "Submit the job again; the other jobs keep running.")
