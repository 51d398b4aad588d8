"""The controllers one by one, on views made by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from stretto.actors.address import Address
from stretto.elasticity import (
    ActorView,
    DecisionRecord,
    ElasticView,
    JobView,
    MoveShards,
    Repartition,
    SetWorkers,
    Trigger,
    WorkerView,
    measured_effect,
)
from stretto.elasticity.demand import is_saturated
from stretto.elasticity.home_bottleneck import ONE_SHARD, TOO_MANY, HomeBottleneck
from stretto.elasticity.shard_balancer import ShardBalancer
from stretto.elasticity.skew import same_key_probability, zipf_factor
from stretto.elasticity.worker_allocator import NO_WORKERS, UNREACHABLE, NaiveAssignment, WorkerAllocator
from stretto.observation.shards import ShardsObserved

SECOND_NS = 1_000_000_000
MS_NS = 1_000_000


def shards(owners: str, cost_ms: int | list[int] = 10, state_bytes: int = 1000) -> ShardsObserved:
    """One letter per shard: `aab` is two shards on worker a and one on b."""
    costs = [cost_ms] * len(owners) if isinstance(cost_ms, int) else cost_ms
    count = len(owners)
    return ShardsObserved(
        tuple(range(count)), tuple(owners), tuple(cost * MS_NS for cost in costs), (state_bytes,) * count
    )


def actor(partition: int = 0, workers: str = "ab", **values: object) -> ActorView:
    made = ActorView(Address("q8", "Jumps", partition), workers[0], tuple(workers), shards("a" * 10))
    return replace(made, **values)  # type: ignore[arg-type]


def loaded(load: float, workers: str = "a", partition: int = 0, service_ms: float = 1.0, **values: object) -> ActorView:
    """An actor with a load spread evenly over its workers."""
    owners = (workers * 100)[:100]
    return actor(
        partition,
        workers,
        shards=shards(owners, round(load * 10)),
        service_ns=service_ms * MS_NS,
        batches_per_s=load * 1000 / service_ms,
        rows_per_s=load * 1000,
        **values,
    )


def view(
    *actors: ActorView, workers: str = "abcd", busy: dict[str, float] | None = None, nodes: str = ""
) -> ElasticView:
    """Workers by letters; each on its own node unless `nodes` has a letter for each. What is more in `busy` than the
    shards cost is other work."""
    used = dict.fromkeys(workers, 0.0)
    for each in actors:
        for name, cost_ns in each.shards.cost_of_worker.items():
            used[name] = used.get(name, 0.0) + cost_ns / 1e9
    other = {name: max(0.0, share - used[name]) for name, share in (busy or {}).items()}
    used.update(busy or {})
    on = dict(zip(workers, nodes or workers, strict=True))
    return ElasticView(
        0,
        actors,
        {name: WorkerView(name, on[name], 1.0, min(1.0, used[name]), other.get(name, 0.0)) for name in workers},
        {"q8": JobView("q8", rows_per_s=sum(each.rows_per_s for each in actors))},
    )


def with_objective(seen: ElasticView, ms: float) -> ElasticView:
    return replace(seen, jobs={"q8": replace(seen.jobs["q8"], objective_ns=ms * MS_NS)})


def moves(record: DecisionRecord) -> list[tuple[int, str, str]]:
    assert isinstance(record.decision, MoveShards)
    return [tuple(move) for move in record.decision.moves]


# Shards.


def test_shards_go_to_the_worker_that_has_none() -> None:
    seen = view(actor(shards=shards("aaaaaaaaaa", 50)))
    (record,) = ShardBalancer().decide(seen, SECOND_NS)
    assert moves(record) == [(0, "a", "b"), (1, "a", "b"), (2, "a", "b"), (3, "a", "b"), (4, "a", "b")]
    assert record.trigger is Trigger.IMBALANCE
    assert record.seen["imbalance"] == 2.0
    # Not just within theta, which four moves would do: the next second's rows would be out of it again.
    assert record.candidates[1].predicted["imbalance"] == pytest.approx(1.0)
    assert record.candidates[1].predicted["state_bytes"] == 5000
    assert record.measure_at_ns == 2 * SECOND_NS
    json.dumps(record.plain(), allow_nan=False)


def test_what_is_balanced_idle_alone_or_being_changed_is_left_alone() -> None:
    balancer = ShardBalancer()
    assert balancer.decide(view(actor(shards=shards("aaaaabbbbb", 50))), 0) == []
    assert balancer.decide(view(actor(shards=shards("aaaaaaaaaa", 5))), 0) == []
    assert balancer.decide(view(actor(workers="a", shards=shards("aaaaaaaaaa", 50))), 0) == []
    assert balancer.decide(view(actor(shards=shards("aaaaaaaaaa", 50), may_change=False)), 0) == []


def test_a_worker_that_is_not_allotted_any_more_is_emptied_however_idle() -> None:
    (record,) = ShardBalancer().decide(view(actor(workers="a", shards=shards("aaab", 0))), 0)
    assert moves(record) == [(3, "b", "a")]
    assert record.trigger is Trigger.LEAVING


def test_a_worker_that_is_busy_with_other_things_gets_less() -> None:
    seen = view(actor(shards=shards("aaaaaaaaaabbbbbbbbbb", 50)), busy={"b": 1.0})
    (record,) = ShardBalancer(theta=1.0).decide(seen, 0)
    # Worker b has half of itself left: a third of the shards.
    assert {target for _, _, target in moves(record)} == {"a"}
    assert len(moves(record)) == 3


def test_shards_that_have_just_moved_are_no_other_work_of_their_old_worker() -> None:
    """Worker a was busy with all ten for the whole of the last second, and has five of them now."""
    seen = view(actor(shards=shards("aaaaabbbbb", 90)))
    busy = {name: replace(worker, busy_share=0.9 * (name == "a")) for name, worker in seen.workers.items()}
    assert ShardBalancer().decide(replace(seen, workers=busy), 0) == []


def test_an_actor_that_cannot_keep_up_is_balanced_more_exactly() -> None:
    uneven = shards("a" * 10 + "b" * 8, 100)
    assert ShardBalancer().decide(view(actor(shards=uneven)), 0) == []
    (record,) = ShardBalancer().decide(view(actor(shards=uneven, waiting=50)), 0)
    assert moves(record) == [(0, "a", "b")]


def test_two_actors_do_not_go_to_the_same_idle_worker() -> None:
    first = actor(0, "abc", shards=shards("a" * 20, 45))
    second = actor(1, "abc", shards=shards("a" * 20, 45))
    records = ShardBalancer().decide(view(first, second), 0)
    load = {"a": 1.8, "b": 0.0, "c": 0.0}
    for record in records:
        for _, source, target in moves(record):
            load[source] -= 0.045
            load[target] += 0.045
    assert max(load.values()) <= 0.75


def test_a_shard_that_is_too_large_is_reported() -> None:
    (record,) = ShardBalancer().decide(view(actor(shards=shards("ab", [900, 10]))), 0)
    assert record.decision is None
    assert record.because == "no move of a shard helps"
    assert record.seen["greatest_shard"] == 0.9


# Workers.


def test_a_load_gets_the_papers_cores() -> None:
    (record,) = WorkerAllocator().decide(view(loaded(1.5), workers="abcdef"), 0)
    # ceil(1.5 * 1.1) + 1, the imbalance of the balancer included.
    assert record.decision == SetWorkers("q8", "Jumps", 0, ("a", "b", "c"))
    assert record.trigger is Trigger.LOAD
    assert [candidate.what for candidate in record.candidates] == ["stay with 1", "use 3", "use 4"]
    assert record.candidates[0].predicted["latency_ms"] == float("inf")
    assert record.candidates[1].lost_because is None
    json.dumps(record.plain(), allow_nan=False)


def test_a_light_load_stays_at_home() -> None:
    assert WorkerAllocator().decide(view(loaded(0.5)), 0) == []


def test_the_load_of_full_workers_counts_more_than_once_if_messages_wait() -> None:
    (record,) = WorkerAllocator().decide(view(loaded(1.0, waiting=64), workers="abcdefgh"), 0)
    assert isinstance(record.decision, SetWorkers)
    # 2.5 * 1.0 and 64 messages of 1 ms, times 1.1, and one to spare.
    assert len(record.decision.workers) == 4


def test_one_full_worker_among_others_is_the_balancers() -> None:
    """Workers a and b have 1.2 of 2.0 in all: more workers would not help, other moves do."""
    uneven = loaded(1.2, "ab", waiting=64)
    costs = [9] * 110 + [2] * 105
    uneven = replace(uneven, shards=shards("a" * 110 + "b" * 105, costs))
    assert not is_saturated(view(uneven), uneven)
    full = loaded(1.9, "ab", waiting=64)
    assert is_saturated(view(full), full)
    assert not is_saturated(view(replace(full, waiting=1)), replace(full, waiting=1))


def test_work_for_others_on_its_workers_saturates_an_actor_sooner() -> None:
    seen = loaded(1.2, "ab", waiting=64)
    assert not is_saturated(view(seen), seen)
    assert is_saturated(view(seen, busy={"b": 1.0, "a": 0.9}), seen)


def test_workers_are_allotted_while_shards_move() -> None:
    moving = loaded(1.5, may_change=False)
    (record,) = WorkerAllocator().decide(view(moving, workers="abcdef"), 0)
    assert isinstance(record.decision, SetWorkers)
    assert WorkerAllocator().decide(view(replace(moving, may_be_allotted=False), workers="abcdef"), 0) == []


def test_where_workers_are_too_few_those_of_one_job_are_divided_by_load() -> None:
    """Partition 0 cannot keep up and holds the job back: what partition 1 receives says what it needs."""
    short, rich = loaded(2.0, "ab", 0, waiting=64), loaded(1.2, "cdef", 1)
    records = WorkerAllocator().decide(view(short, rich, workers="abcdef"), 0)
    decided = {record.partition: len(record.decision.workers) for record in records if record.decision}  # type: ignore[union-attr]
    assert decided == {0: 4, 1: 2}
    other = replace(rich, address=Address("lax", "Count", 0))
    records = WorkerAllocator().decide(view(short, other, workers="abcdef"), 0)
    assert [record.because for record in records] == [NO_WORKERS], "of another job it is not known"


def test_an_objective_asks_for_more_than_the_load_does() -> None:
    seen = view(loaded(0.6, service_ms=10.0), workers="abcdef")
    assert WorkerAllocator().decide(seen, 0) == []
    (record,) = WorkerAllocator().decide(with_objective(seen, 100.0), 0)
    assert record.trigger is Trigger.OBJECTIVE
    assert record.decision == SetWorkers("q8", "Jumps", 0, ("a", "b"))


def test_an_objective_that_no_workers_can_meet_is_reported() -> None:
    records = WorkerAllocator().decide(with_objective(view(loaded(0.5, service_ms=10.0)), 10.0), 0)
    assert UNREACHABLE in [record.because for record in records if record.decision is None]


def test_workers_are_given_back_after_a_while_and_not_before() -> None:
    allocator = WorkerAllocator()
    seen = view(loaded(0.9, "abcdef"), workers="abcdef")
    for second in range(0, 20, 2):
        assert allocator.decide(seen, second * SECOND_NS) == []
    (record,) = allocator.decide(seen, 20 * SECOND_NS)
    assert record.trigger is Trigger.IDLE_WORKERS
    assert record.decision == SetWorkers("q8", "Jumps", 0, ("a", "b", "c"))


def test_a_load_that_returns_in_between_keeps_its_workers() -> None:
    allocator = WorkerAllocator()
    idle, busy = view(loaded(0.9, "abcdef"), workers="abcdef"), view(loaded(4.2, "abcdef"), workers="abcdef")
    for second in range(0, 120, 2):
        assert allocator.decide(busy if second % 16 == 0 else idle, second * SECOND_NS) == []


def test_too_few_workers_are_reported() -> None:
    seen = view(loaded(0.95, "a", 0, waiting=64), loaded(0.95, "b", 1, waiting=64), workers="ab")
    records = WorkerAllocator().decide(seen, 0)
    assert {record.because for record in records} == {NO_WORKERS}


def test_a_job_without_an_objective_yields_after_a_while() -> None:
    allocator = WorkerAllocator()
    greedy = replace(loaded(2.9, "bcd", 1, waiting=64), address=Address("lax", "Count", 0))
    seen = view(loaded(0.95, "a", waiting=64), greedy)
    seen = replace(seen, jobs={"q8": JobView("q8", 50 * MS_NS), "lax": JobView("lax")})
    decided = {}
    for second in range(0, 8, 2):
        for record in allocator.decide(seen, second * SECOND_NS):
            if isinstance(record.decision, SetWorkers):
                decided[second, record.job] = len(record.decision.workers)
    assert decided == {(6, "lax"): 1, (6, "q8"): 3}


def test_equals_keep_what_they_need() -> None:
    allocator = WorkerAllocator()
    seen = view(loaded(0.95, "a", 0, waiting=64), loaded(2.9, "bcd", 1, waiting=64))
    for second in range(0, 60, 2):
        assert all(record.decision is None for record in allocator.decide(seen, second * SECOND_NS))


def test_other_busy_workers_are_not_spare() -> None:
    (record,) = WorkerAllocator().decide(view(loaded(0.9, waiting=64), busy={"b": 0.7, "c": 0.4}), 0)
    assert record.decision == SetWorkers("q8", "Jumps", 0, ("a", "c", "d"))


def test_a_worker_that_gets_other_work_is_replaced_or_given_up() -> None:
    busy = {"b": 1.0, "c": 0.6}
    (record,) = WorkerAllocator().decide(view(loaded(0.3, "ab", waiting=9), workers="abcd", busy=busy), 0)
    assert record.decision == SetWorkers("q8", "Jumps", 0, ("a", "d"))
    seen = with_objective(view(loaded(0.3, "ab", waiting=9), workers="abc", busy=busy), 5000.0)
    (record,) = WorkerAllocator().decide(seen, 0)
    assert record.decision == SetWorkers("q8", "Jumps", 0, ("a",))
    # A little more of other work is tolerated where a task is, and not where one would have to come.
    assert WorkerAllocator().decide(view(loaded(0.3, "ab", waiting=9), workers="ab", busy={"b": 0.85}), 0) == []


def test_workers_of_its_own_node_come_first_and_data_intensive_actors_have_no_others() -> None:
    seen = view(loaded(1.5), workers="abcdef", nodes="xyyyxx")
    (record,) = WorkerAllocator().decide(seen, 0)
    assert record.decision == SetWorkers("q8", "Jumps", 0, ("a", "e", "f"))
    far = view(loaded(1.5, "abc", bytes_per_s=3e6), workers="abcdef", nodes="xyyyxx")
    allocator = WorkerAllocator()
    assert allocator.decide(far, 0) == []
    (record,) = allocator.decide(far, 20 * SECOND_NS)
    assert record.trigger is Trigger.LOCALITY
    assert record.decision == SetWorkers("q8", "Jumps", 0, ("a", "e", "f"))


def test_the_naive_one_takes_the_first_workers() -> None:
    seen = view(loaded(1.5, "d", bytes_per_s=3e6), workers="abcdef", nodes="xxyyyy")
    (record,) = NaiveAssignment().decide(seen, 0)
    assert record.decision == SetWorkers("q8", "Jumps", 0, ("d", "a", "b"))
    (record,) = WorkerAllocator().decide(seen, 0)
    assert isinstance(record.decision, SetWorkers)
    assert set(record.decision.workers) <= set("cdef")


def test_workers_max_holds() -> None:
    assert WorkerAllocator().decide(view(loaded(0.95, waiting=64, workers_max=1)), 0) == []


def test_a_lost_worker_is_replaced() -> None:
    (record,) = WorkerAllocator().decide(view(loaded(1.5, "abc"), workers="abdef"), 0)
    assert record.decision == SetWorkers("q8", "Jumps", 0, ("a", "b", "d"))


# Homes.


def after(controller: HomeBottleneck, seen: ElasticView, seconds: int = 10) -> list[DecisionRecord]:
    assert controller.decide(seen, 0) == []
    return controller.decide(seen, seconds * SECOND_NS)


@pytest.mark.parametrize(
    ("values", "trigger"),
    [
        ({"routing_ns": 850 * MS_NS}, Trigger.HOME_ROUTING),
        ({"bytes_per_s": 60e6, "remote_bytes_per_s": 45e6}, Trigger.HOME_NETWORK),
    ],
)
def test_a_home_that_is_the_bottleneck_is_divided(values: dict[str, object], trigger: Trigger) -> None:
    (record,) = after(HomeBottleneck(), view(actor(parallelism=2, **values)))
    assert record.decision == Repartition("q8", "Jumps", 4)
    assert record.trigger is trigger
    assert record.partition is None
    assert [candidate.lost_because is None for candidate in record.candidates] == [False, False, True]


def test_a_home_that_routes_easily_is_left_alone_and_a_short_burst_too() -> None:
    assert after(HomeBottleneck(), view(actor(routing_ns=500 * MS_NS))) == []
    controller = HomeBottleneck()
    assert controller.decide(view(actor(routing_ns=900 * MS_NS)), 0) == []
    assert controller.decide(view(actor(routing_ns=100 * MS_NS)), 5 * SECOND_NS) == []
    assert controller.decide(view(actor(routing_ns=900 * MS_NS)), 10 * SECOND_NS) == []


def test_repartitioning_waits_for_its_effect() -> None:
    controller = HomeBottleneck()
    seen = view(actor(routing_ns=900 * MS_NS))
    assert len(after(controller, seen)) == 1
    assert controller.decide(seen, 39 * SECOND_NS) == []
    assert len(controller.decide(seen, 41 * SECOND_NS)) == 1


def test_there_is_no_use_in_more_partitions_than_workers_or_for_one_shard() -> None:
    (record,) = after(HomeBottleneck(), view(actor(routing_ns=900 * MS_NS, parallelism=4)))
    assert (record.decision, record.because) == (None, TOO_MANY)
    hot = shards("aab", [300, 40, 40])
    (record,) = after(HomeBottleneck(), view(actor(routing_ns=900 * MS_NS, shards=hot)))
    assert (record.decision, record.because) == (None, ONE_SHARD)


def zipf_costs(alpha: float, count: int, rows: int | None, seed: int) -> list[float]:
    """What 10,000 keys with a skew cost by shard, where so many rows were seen (None: the exact frequencies)."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, 10_001) ** -alpha
    weights /= weights.sum()
    found = weights if rows is None else rng.multinomial(rows, weights) / rows
    return [float(cost) for cost in np.bincount(rng.integers(count, size=10_000), found, minlength=count)]


@pytest.mark.parametrize("alpha", [0.4, 0.5, 0.6, 0.7, 0.8, 1.0])
@pytest.mark.parametrize("count", [1024, 8192])
@pytest.mark.parametrize("rows", [None, 20_000])
def test_the_skew_of_keys_is_found_from_shards(alpha: float, count: int, rows: int | None) -> None:
    found = [
        zipf_factor(same_key_probability(zipf_costs(alpha, count, rows, seed), rows or 1e12)) for seed in range(10)
    ]
    assert float(np.median(found)) == pytest.approx(alpha, abs=0.06 if alpha >= 0.6 else 0.12)


def test_even_keys_have_no_skew() -> None:
    assert zipf_factor(same_key_probability([1.0] * 256, 1e9)) == 0.0
    assert same_key_probability([], 0) == 0.0


@pytest.mark.parametrize(("alpha", "is_divided"), [(0.5, False), (0.8, True)])
def test_from_figure_10_skewed_keys_are_repartitioned(alpha: float, is_divided: bool) -> None:
    """All four workers are full and messages wait: below 0.7 more of them would do, above it the home is at fault."""
    costs = zipf_costs(alpha, 1024, None, 3)
    load = [round(cost * 3900) for cost in costs]
    owners = "".join("abcd"[shard % 4] for shard in range(1024))
    busy = dict.fromkeys("abcd", 1.0)
    hot = actor(0, "abcd", shards=shards(owners, load), waiting=500, rows_per_s=1e6)
    records = after(HomeBottleneck(), view(hot, busy=busy))
    assert [isinstance(record.decision, Repartition) for record in records] == [True] * is_divided
    # With workers to come, the slower way is not taken.
    assert after(HomeBottleneck(), view(hot, workers="abcdef", busy=busy)) == []


# Effects.


def test_the_effect_is_measured_by_the_values_that_were_seen() -> None:
    before = view(actor(shards=shards("aaaaaaaaaa", 50)))
    (record,) = ShardBalancer().decide(before, 0)
    effect = measured_effect(view(actor(shards=shards("aaaaaabbbb", 50))), record)
    assert effect is not None
    assert effect["imbalance"] == pytest.approx(1.2)
    assert set(effect) <= set(record.seen)
    assert measured_effect(view(), record) is None
    (divided,) = after(HomeBottleneck(), view(actor(routing_ns=900 * MS_NS, rows_per_s=70.0)))
    both = view(actor(0, rows_per_s=50.0), actor(1, rows_per_s=40.0))
    effect = measured_effect(both, divided)
    assert effect is not None
    assert effect["rows_per_s"] == 90.0
