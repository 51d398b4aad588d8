"""Workers that die, event by event: who is suspected, where suspects resume, when a job fails for it."""

from __future__ import annotations

from typing import Any

import pytest

from stretto.actors.shape import FunctionShape
from stretto.checkpoints.manifest import ActorRecord, Manifest, Storage
from stretto.coordinator.blame import ACQUITTED_AFTER_NS, BACKOFF_NS, STRIKES_MAX, UNNOTED_PER_STRIKE
from stretto.coordinator.events import (
    AnnounceMisbehaviour,
    CheckpointPlan,
    Death,
    DeathCause,
    Effect,
    LastRun,
    ReplaceWorker,
    SubmitRequested,
    WorkerEnded,
    WorkerExpected,
)
from stretto.coordinator.machine import LOST_AFTER_NS, Coordinator
from stretto.coordinator.records import JobStatus
from stretto.coordinator.recovery import REPLACED_WITHIN_NS
from stretto.protocol.jobs import Deploy, Ready
from stretto.protocol.machines import FrameArrived, Send, Ticked
from stretto.protocol.membership import Heartbeat, Join, Member

SHAPES = {"source": FunctionShape("source", 2), "sink": FunctionShape("sink", 1, is_sink=True)}
PLAN = CheckpointPlan(Storage("memory", 1, "0123abcd"), None, 3)
SECOND_NS = 1_000_000_000


class Clusters:
    """A coordinator whose workers join, answer and are replaced at once. `die` ends one of them."""

    def __init__(self, workers: int, *jobs: str, durable: bool = True) -> None:
        self.machine = Coordinator()
        self.now_ns = SECOND_NS
        self.effects: list[Effect] = []
        self.replaces = True
        for number in range(workers):
            self._join(f"w{number}~1")
        for job in jobs:
            self.submit(job, durable)

    def submit(self, job: str, durable: bool = True) -> None:
        self.tell(SubmitRequested(job, "digest", SHAPES, checkpoints=PLAN if durable else None))

    def tell(self, event: Any) -> None:
        for effect in self.machine.handle(event, self.now_ns):
            self.effects.append(effect)
            if isinstance(effect, Send) and isinstance(effect.frame, Deploy):
                self.tell(FrameArrived(effect.to, Ready(effect.frame.job)))
            elif isinstance(effect, ReplaceWorker) and self.replaces:
                base, _, incarnation = effect.name.partition("~")
                self._join(f"{base}~{int(incarnation) + 1}")

    def _join(self, name: str) -> None:
        self.tell(WorkerExpected(name, name))
        self.tell(FrameArrived(name, Join(Member(name, f"tcp://{name}", name, "host", 1))))

    def wait(self, for_ns: int) -> None:
        """Lets time pass; the workers stay alive."""
        end_ns = self.now_ns + for_ns
        while self.now_ns < end_ns:
            self.now_ns = min(end_ns, self.now_ns + SECOND_NS // 4)
            for name in list(self.machine.members):
                self.tell(FrameArrived(name, Heartbeat()))
            self.tell(Ticked())

    def die(self, worker: str, death: Death | None) -> None:
        self.tell(WorkerEnded(worker, "its process died", death))

    def die_with(self, job: str, cause: DeathCause = DeathCause.OWN, noted: str | None = None) -> None:
        """A worker of this job dies while it runs it, or while the note says so of another one."""
        worker = sorted(self.homes(job))[0]
        last = LastRun(self.machine.jobs[noted or job].attempt, "deadly", underway=True)
        self.die(worker, Death("was killed by SIGSEGV", cause, last))

    def complete_checkpoint(self, job: str) -> None:
        durability = self.machine.jobs[job].durability
        assert durability is not None
        checkpoint = max([0, *(manifest.checkpoint for manifest in durability.manifests)]) + 1
        durability.manifests.append(
            Manifest(job, checkpoint, {name: [ActorRecord()] * shape.parallelism for name, shape in SHAPES.items()})
        )

    def homes(self, job: str) -> set[str]:
        return self.machine.jobs[job].homes

    def status(self, job: str) -> JobStatus:
        return self.machine.jobs[job].status

    def deaths_of(self, job: str) -> int:
        """Returns how many workers die with a job until it fails."""
        deaths = 0
        while self.status(job) is JobStatus.RUNNING:
            self.die_with(job)
            deaths += 1
            self.wait(REPLACED_WITHIN_NS)
        assert self.status(job) is JobStatus.FAILED
        return deaths


def test_a_job_that_ends_its_workers_fails_and_the_others_lose_one_worker() -> None:
    cluster = Clusters(2, "good", "bad", "fine")
    attempts = {job: cluster.machine.jobs[job].attempt for job in ("good", "fine")}
    assert cluster.deaths_of("bad") == 1 + STRIKES_MAX
    failure = cluster.machine.jobs["bad"].failure
    assert failure is not None
    assert failure.fact == "function 'deadly' of job 'bad' ends the process of its workers"
    assert failure.error == "FunctionError"
    assert "was killed by SIGSEGV" in (failure.detail or "")
    for job, attempt in attempts.items():
        assert cluster.status(job) is JobStatus.RUNNING
        assert cluster.machine.jobs[job].attempt == f"{attempt}~2"


def test_a_suspect_has_a_worker_of_its_own() -> None:
    cluster = Clusters(3, "good", "bad", "fine")
    cluster.die_with("bad")
    cluster.wait(SECOND_NS)
    (own,) = cluster.homes("bad")
    assert own not in cluster.homes("good") | cluster.homes("fine")
    assert len(cluster.homes("good")) == 2, "the others use all that is left"
    cluster.submit("late")
    assert own not in cluster.homes("late")


def test_the_others_do_not_wait_for_the_worker_of_a_suspect() -> None:
    cluster = Clusters(2, "good", "bad")
    cluster.replaces = False
    cluster.die_with("bad")
    assert cluster.status("good") is JobStatus.RUNNING
    assert cluster.status("bad") is JobStatus.RECOVERING


def test_a_suspect_without_a_worker_of_its_own_resumes_among_the_others_after_a_while() -> None:
    cluster = Clusters(2, "good", "bad")
    cluster.replaces = False
    cluster.die_with("bad")
    cluster.wait(REPLACED_WITHIN_NS)
    assert cluster.status("bad") is JobStatus.RUNNING
    assert cluster.homes("bad") == cluster.homes("good")


def test_a_suspect_that_is_alone_on_the_cluster_has_all_workers() -> None:
    cluster = Clusters(3, "bad")
    cluster.die_with("bad")
    cluster.wait(2 * BACKOFF_NS)
    assert len(cluster.homes("bad")) == 3


def test_a_strike_delays_the_next_attempt_twice_as_long_each_time() -> None:
    cluster = Clusters(2, "bad")
    for strike in range(1, STRIKES_MAX):
        cluster.die_with("bad")
        cluster.wait((BACKOFF_NS << strike - 1) - SECOND_NS // 2)
        assert cluster.status("bad") is JobStatus.RECOVERING
        cluster.wait(SECOND_NS)
        assert cluster.status("bad") is JobStatus.RUNNING
    cluster.die_with("bad")
    assert cluster.status("bad") is JobStatus.FAILED


def test_one_who_was_wrongly_noted_is_released_when_the_next_worker_dies_without_it() -> None:
    """A thread of 'bad' ends its worker while another job runs, so the note never names it."""
    jobs = ("fine", "good", "bad")
    cluster = Clusters(2, *jobs)
    for _ in range(len(jobs) + STRIKES_MAX):
        others = sorted(job for job in jobs if job != "bad" and cluster.homes(job) & cluster.homes("bad"))
        cluster.die_with("bad", noted=others[0] if others else "bad")
        cluster.wait(REPLACED_WITHIN_NS)
        if cluster.status("bad") is not JobStatus.RUNNING:
            break
    assert cluster.status("bad") is JobStatus.FAILED
    assert [cluster.status(job) for job in jobs if job != "bad"] == [JobStatus.RUNNING] * 2


def test_a_job_that_ends_two_workers_at_once_makes_nobody_else_suspect() -> None:
    cluster = Clusters(3, "bad", "good")
    attempt = cluster.machine.jobs["bad"].attempt
    for worker in sorted(cluster.homes("bad"))[:2]:
        last = LastRun(attempt, "deadly", underway=True)
        cluster.die(worker, Death("was killed by SIGSEGV", DeathCause.OWN, last))
    told = [each.job for each in cluster.effects if isinstance(each, AnnounceMisbehaviour)]
    assert told == ["bad"]
    cluster.wait(REPLACED_WITHIN_NS)
    assert not cluster.homes("bad") & cluster.homes("good")


def test_two_jobs_that_end_their_workers_both_fail() -> None:
    cluster = Clusters(2, "bad", "good", "worse")
    for _ in range(20):
        for job in ("bad", "worse"):
            if cluster.status(job) is JobStatus.RUNNING:
                cluster.die_with(job)
        cluster.wait(REPLACED_WITHIN_NS)
    assert [cluster.status(job) for job in ("bad", "worse")] == [JobStatus.FAILED] * 2
    assert cluster.status("good") is JobStatus.RUNNING


def test_on_one_worker_the_suspect_is_held_back_and_fails_in_the_end() -> None:
    cluster = Clusters(1, "good", "bad")
    cluster.die_with("bad")
    assert cluster.status("good") is JobStatus.RUNNING
    assert cluster.status("bad") is JobStatus.RECOVERING
    cluster.wait(REPLACED_WITHIN_NS)
    assert cluster.deaths_of("bad") == STRIKES_MAX - 1
    assert cluster.status("good") is JobStatus.RUNNING


def test_a_job_that_makes_progress_is_not_blamed_for_what_may_come_from_outside() -> None:
    cluster = Clusters(2, "job")
    for _ in range(5 * STRIKES_MAX):
        cluster.complete_checkpoint("job")
        cluster.die_with("job", DeathCause.ANY)
        cluster.wait(REPLACED_WITHIN_NS)
        assert cluster.status("job") is JobStatus.RUNNING


def test_a_job_that_is_killed_again_and_again_without_progress_fails() -> None:
    cluster = Clusters(2, "job")
    cluster.complete_checkpoint("job")
    for _ in range(STRIKES_MAX + 1):
        assert cluster.status("job") is JobStatus.RUNNING
        cluster.die_with("job", DeathCause.ANY)
        cluster.wait(REPLACED_WITHIN_NS)
    assert cluster.status("job") is JobStatus.FAILED


def test_strikes_from_outside_count_only_in_a_row() -> None:
    cluster = Clusters(2, "job")
    for number in range(5 * STRIKES_MAX):
        if number % STRIKES_MAX == STRIKES_MAX - 1:
            cluster.complete_checkpoint("job")
        cluster.die_with("job", DeathCause.ANY)
        cluster.wait(REPLACED_WITHIN_NS)
        assert cluster.status("job") is JobStatus.RUNNING


def test_workers_that_fall_silent_together_are_one_blow() -> None:
    """As when a switch fails: a healthy job must not fail for it, however many workers are lost."""
    cluster = Clusters(12, "job", "other")
    cluster.now_ns += LOST_AFTER_NS
    for name in sorted(cluster.machine.members)[:2]:
        cluster.tell(FrameArrived(name, Heartbeat()))
    cluster.machine._membership._ticked_ns = cluster.now_ns  # The coordinator itself was not delayed.
    cluster.tell(Ticked())
    assert len({effect.name for effect in cluster.effects if isinstance(effect, ReplaceWorker)}) == 10
    cluster.wait(2 * REPLACED_WITHIN_NS)
    assert [cluster.status(job) for job in ("job", "other")] == [JobStatus.RUNNING] * 2


def test_a_death_from_outside_while_nothing_ran_is_half_a_strike() -> None:
    cluster = Clusters(2, "job")
    for _ in range(UNNOTED_PER_STRIKE * STRIKES_MAX):
        assert cluster.status("job") is JobStatus.RUNNING
        cluster.die(sorted(cluster.homes("job"))[0], Death("was killed by SIGKILL", DeathCause.ANY))
        cluster.wait(REPLACED_WITHIN_NS)
    assert cluster.status("job") is JobStatus.FAILED


def test_deaths_that_are_far_apart_have_nothing_to_do_with_each_other() -> None:
    cluster = Clusters(2, "job")
    for _ in range(5 * STRIKES_MAX):
        cluster.die_with("job")
        cluster.wait(ACQUITTED_AFTER_NS)
        assert cluster.status("job") is JobStatus.RUNNING


def test_a_worker_that_is_lost_without_a_death_makes_nobody_suspect() -> None:
    cluster = Clusters(2, "good", "job")
    for _ in range(5 * STRIKES_MAX):
        cluster.die(sorted(cluster.homes("job"))[0], None)
        cluster.wait(SECOND_NS)
    assert len(cluster.homes("job")) == 2
    assert not [each for each in cluster.effects if isinstance(each, AnnounceMisbehaviour)]


def test_a_job_without_checkpoints_is_named_when_it_ends_its_worker() -> None:
    cluster = Clusters(2, "bad", durable=False)
    cluster.submit("good")
    cluster.die_with("bad")
    cluster.wait(REPLACED_WITHIN_NS)
    failure = cluster.machine.jobs["bad"].failure
    assert failure is not None
    assert (failure.error, failure.function) == ("FunctionError", "deadly")
    assert failure.fact == "function 'deadly' of job 'bad' ended the process of its worker"
    assert len(cluster.homes("good")) == 2, "nobody else is suspected"


def test_a_function_that_had_returned_is_not_named() -> None:
    """A thread of the job has ended the process, and may be of another function."""
    cluster = Clusters(2, "bad")
    for _ in range(STRIKES_MAX):
        last = LastRun(cluster.machine.jobs["bad"].attempt, "sink", underway=False)
        cluster.die(sorted(cluster.homes("bad"))[0], Death("exited with code 3", DeathCause.OWN, last))
        cluster.wait(REPLACED_WITHIN_NS)
    failure = cluster.machine.jobs["bad"].failure
    assert failure is not None
    assert failure.fact == "job 'bad' ends the process of its workers"
    assert failure.function is None


def test_the_owner_of_a_suspect_is_told() -> None:
    cluster = Clusters(2, "good", "bad")
    cluster.die_with("bad")
    (told,) = [each for each in cluster.effects if isinstance(each, AnnounceMisbehaviour)]
    assert told.job == "bad"
    assert told.said.function == "deadly"
    assert "was killed by SIGSEGV" in told.said.what
    assert "it resumes on a worker of its own" in told.said.what


@pytest.mark.parametrize("workers", range(1, 7))
def test_there_is_always_a_worker_for_the_others(workers: int) -> None:
    jobs = [f"job{number}" for number in range(5)]
    cluster = Clusters(workers, *jobs, "bad")
    cluster.die_with("bad")
    for job in jobs[:3]:
        if cluster.status(job) is JobStatus.RUNNING:
            cluster.die_with(job)
    cluster.wait(2 * REPLACED_WITHIN_NS)
    assert {cluster.status(job) for job in [*jobs, "bad"]} == {JobStatus.RUNNING}
