"""Observations over a longer time than that between two reports."""

from __future__ import annotations

from stretto.actors.metrics import FunctionMetrics
from stretto.actors.shape import FunctionShape
from stretto.observation.longer import observed_since
from stretto.observation.model import ActorObserved, FunctionObserved, JobObserved, Observation, WorkerObserved
from stretto.protocol.membership import Member, MemberRole

SECOND = 1_000_000_000


def observation(seconds: int, rows: int, busy_s: float, attempt: str = "job", member: str = "w0~1") -> Observation:
    """So many rows and so much busy time in all; the last quarter of a second had nothing."""
    totals = FunctionMetrics(messages_in=rows, rows_in=rows, busy_ns=int(busy_s * SECOND))
    actor = ActorObserved(0, member, totals, totals, SECOND // 4)
    job = JobObserved("job", "running", attempt, (), {}, {"f": FunctionObserved(FunctionShape("f", 1), (actor,))})
    worker = WorkerObserved(Member("w0~1", "", "", "host", 1, MemberRole.WORKER), False, 0.0, 0, 0)
    return Observation(seconds * SECOND, {"job": job}, {"w0~1": worker})


def test_rates_and_busy_shares_are_those_of_the_whole_time() -> None:
    since = observed_since(observation(20, 1_500, 8.0), observation(10, 500, 3.0))
    assert since.jobs["job"].functions["f"].input_rate == 100.0
    assert since.workers["w0~1"].busy_share == 0.5


def test_all_that_a_new_instance_has_done_is_of_the_interval() -> None:
    since = observed_since(observation(20, 1_500, 8.0, member="w1~1"), observation(10, 500, 3.0))
    assert since.jobs["job"].functions["f"].input_rate == 150.0


def test_another_attempt_is_as_it_was_observed() -> None:
    earlier, later = observation(10, 500, 3.0), observation(20, 1_500, 8.0, attempt="job~2")
    assert observed_since(later, earlier).jobs["job"].functions["f"].input_rate == 0.0
    assert observed_since(earlier, earlier) is earlier
