"""What controllers see of an observation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stretto.actors.address import Address
from stretto.actors.metrics import FunctionMetrics
from stretto.actors.shape import Feed, FunctionShape
from stretto.actors.shards import ShardMap
from stretto.api.slo import SLO
from stretto.elasticity import ElasticView, JobView, WorkerView
from stretto.observation.model import ActorObserved, FunctionObserved, JobObserved, Observation, WorkerObserved
from stretto.observation.shards import ElasticObserved, ShardsObserved
from stretto.protocol.membership import Member, MemberRole

EVEN = ShardMap.even(2)
SHARDS = ShardsObserved((4, 5, 6), ("a~1", "b~1", "a~1"), (200_000_000, 300_000_000, 100_000_000), (10, 20, 30))
ELASTIC = ElasticObserved(
    1,
    "a~1",
    ("a~1", "b~1"),
    8,
    SHARDS,
    rows_per_s=100.0,
    batches_per_s=10.0,
    service_ns=6e7,
    bytes_in_per_s=3.0,
    bytes_out_per_s=4.0,
    waiting=2,
    routing_ns=5,
    changing=True,
)


def observation(status: str = "running", shards: ShardMap | None = EVEN) -> Observation:
    source = FunctionShape("source", 1)
    keyed = FunctionShape("Jumps", 2, feeds=(Feed("source", "in", False),), shards=shards)
    second_ns = 1_000_000_000
    read = ActorObserved(0, "a~1", FunctionMetrics(rows_out=500, busy_ns=second_ns // 4), FunctionMetrics(), second_ns)
    jumped = ActorObserved(1, "a~1", FunctionMetrics(busy_ns=second_ns // 2), FunctionMetrics(), second_ns)
    functions = {
        "source": FunctionObserved(source, (read,)),
        "Jumps": FunctionObserved(keyed, (jumped,), elastic=(ELASTIC,)),
    }
    job = JobObserved("q8~2", status, "q8~2", ("a~1", "b~1"), {}, functions, SLO(latency_ms=50.0))

    def worker(name: str, host: str, role: MemberRole = MemberRole.WORKER, parked: bool = False) -> WorkerObserved:
        return WorkerObserved(Member(name, "", "", host, 1, role), parked, 0.6, 0, 0)

    workers = {
        "b~1": worker("b~1", "host2"),
        "a~1": worker("a~1", "host1"),
        "parked~1": worker("parked~1", "host1", parked=True),
        "driver": worker("driver", "host1", MemberRole.DRIVER),
    }
    return Observation(7, {"q8~2": job}, workers)


def test_running_jobs_and_workers_that_are_not_parked() -> None:
    view = ElasticView.of(observation())
    assert view.time_ns == 7
    # The source and the routing are other work than rows of elastic actors.
    expected = WorkerView("a~1", "host1", 1.0, 0.6, 0.25 + 5e-9), WorkerView("b~1", "host2", 1.0, 0.6)
    assert view.workers == {worker.name: worker for worker in expected}
    assert view.left_on("a~1") == pytest.approx(1.0 - 0.25 - 0.3)
    assert view.jobs == {"q8~2": JobView("q8~2", 50e6, 99.0, 1.0, 500.0)}
    (actor,) = view.actors
    assert actor.address == Address("q8~2", "Jumps", 1)
    assert (actor.home, actor.workers, actor.workers_max, actor.parallelism) == ("a~1", ("a~1", "b~1"), 8, 2)
    assert (actor.bytes_per_s, actor.waiting, actor.routing_ns, actor.may_change) == (7.0, 2, 5, False)
    assert actor.load == pytest.approx(0.6)
    assert (actor.load_on("a~1"), actor.load_on("b~1"), actor.load_on("c~1")) == (0.3, 0.3, 0.0)
    assert (actor.greatest_on("a~1"), actor.greatest_on("c~1")) == (0.2, 0.0)
    assert actor.state_bytes == 60
    assert view.elastic_load == {"a~1": 0.3, "b~1": 0.3}
    assert view.guest_load == {"a~1": 0.0, "b~1": 0.3}


@pytest.mark.parametrize("status", ["deploying", "recovering", "stopping", "finished"])
def test_a_job_that_does_not_run_is_left_alone(status: str) -> None:
    view = ElasticView.of(observation(status))
    assert view.actors == ()
    assert view.jobs == {}


def test_only_keyed_functions_are_seen() -> None:
    assert ElasticView.of(observation(shards=None)).actors == ()


def test_what_a_strategy_spreads_counts_as_even_over_the_workers() -> None:
    """It goes where there is room: where it was in the last second says nothing."""
    seen = observation()
    job = seen.jobs["q8~2"]
    busy_ns = {"a~1": 100_000_000, "b~1": 500_000_000}
    instances = tuple(
        ActorObserved(0, name, FunctionMetrics(busy_ns=busy), FunctionMetrics(), 1_000_000_000)
        for name, busy in busy_ns.items()
    )
    spread = FunctionObserved(FunctionShape("score", 1), instances)
    job = replace(job, functions={**job.functions, "score": spread}, members=(*job.members, "driver"))
    view = ElasticView.of(replace(seen, jobs={"q8~2": job}))
    assert view.workers["a~1"].other_share == pytest.approx(0.25 + 0.3)
    assert view.workers["b~1"].other_share == pytest.approx(0.3)


def test_held_actors_may_not_be_changed() -> None:
    view = ElasticView.of(observation())
    assert view.holding(set()) is view
    (held,) = view.holding({Address("q8~2", "Jumps", 1)}).actors
    assert not held.may_change
    assert not held.may_be_allotted


def test_while_shards_move_workers_may_be_allotted() -> None:
    view = ElasticView.of(observation())
    (moving,) = view.actors
    assert (moving.may_change, moving.may_be_allotted) == (False, True)
    (allotted,) = view.allotted({moving.address: ("a~1", "c~1")}).actors
    assert (allotted.workers, allotted.may_be_allotted) == (("a~1", "c~1"), False)
    assert view.allotted({}) is view


def test_the_columns_of_shards_have_one_length() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        ShardsObserved((1, 2), ("a", "b"), (1,), (1, 1))
