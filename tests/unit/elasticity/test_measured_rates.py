"""The topology of running jobs: what functions could process, and what they would be sent, behind back pressure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stretto.actors.metrics import FunctionMetrics
from stretto.actors.shape import Feed, FunctionShape
from stretto.api.slo import SLO
from stretto.elasticity.measured_rates import slack, topology_of
from stretto.elasticity.scaling_strategies import next_to_grow
from stretto.observation.model import ActorObserved, FunctionObserved, JobObserved, WorkerObserved
from stretto.protocol.membership import Member, MemberRole

SECOND = 1_000_000_000


def function(
    name: str, parent: str | None, rows: int, child: str | None, busy: dict[str, float], queued: int = 0
) -> FunctionObserved:
    """A function that has the same rows on each worker, and keeps them busy."""
    actors = tuple(
        ActorObserved(
            partition,
            worker,
            FunctionMetrics(
                messages_in=1 if parent else 0,
                executed_from={parent: rows} if parent else {},
                sent_to={child: rows} if child else {},
                busy_ns=int(share * SECOND),
                queued=queued,
            ),
            FunctionMetrics(),
            SECOND,
        )
        for partition, (worker, share) in enumerate(busy.items())
    )
    feeds = (Feed(parent, "in", False),) if parent else ()
    return FunctionObserved(FunctionShape(name, len(busy), feeds=feeds), actors)


def observed(queued: int, slow_busy: float) -> tuple[JobObserved, dict[str, WorkerObserved]]:
    functions = {
        "source": function("source", None, 100, "slow", {"w0~1": 0.19}),
        "slow": function("slow", "source", 50, "sink", {"w1~1": slow_busy, "w2~1": slow_busy}, queued),
        "sink": function("sink", "slow", 100, None, {"w0~1": 0.1}),
    }
    job = JobObserved("job", "running", "job", (), {}, functions, SLO(priority=3.0))
    busy = {"w0~1": 0.29, "w1~1": slow_busy, "w2~1": slow_busy}
    workers = {
        name: WorkerObserved(Member(name, "", "", "host", 1, MemberRole.WORKER), False, share, 0, 0)
        for name, share in busy.items()
    }
    return job, workers


def test_a_saturated_function_is_congested_though_senders_wait_for_it() -> None:
    job, workers = observed(queued=30, slow_busy=0.97)
    topology, placement = topology_of([job], workers)
    slow, sink = topology.operators["job/slow"], topology.operators["job/sink"]
    assert (slow.input_rate, slow.processing_rate, slow.capacity) == (200.0, 100.0, 100.0)
    assert topology.congested == {"job/slow"}
    # The sink's worker has 0.95 - 0.29 left beside the 0.1 that it takes.
    assert sink.capacity == pytest.approx(100 * (1 + 0.66 / 0.1))
    assert (sink.weight, sink.input_rate) == (3.0, 100.0)
    assert placement["job/slow"] == ("w1~1", "w2~1")
    assert next_to_grow(topology)[0] == "job/slow"


def test_without_a_queue_nobody_would_send_more() -> None:
    job, workers = observed(queued=0, slow_busy=0.97)
    topology, _ = topology_of([job], workers)
    assert topology.operators["job/slow"].input_rate == 100.0
    assert not topology.congested


def test_a_function_with_idle_time_is_not_congested_though_messages_wait() -> None:
    job, workers = observed(queued=30, slow_busy=0.5)
    topology, _ = topology_of([job], workers)
    assert topology.operators["job/slow"].capacity == pytest.approx(190.0)
    assert not topology.congested


def test_instances_on_one_worker_share_what_is_idle_there() -> None:
    job, workers = observed(queued=0, slow_busy=0.25)
    both = job.functions["slow"].actors
    together = replace(job.functions["slow"], actors=(both[0], replace(both[1], member="w1~1")))
    workers["w1~1"] = replace(workers["w1~1"], busy_share=0.5)
    found = slack(together, workers)
    assert found == pytest.approx(1 + 0.45 / 0.5)
