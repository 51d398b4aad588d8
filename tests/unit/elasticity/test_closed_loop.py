"""Controllers in a closed loop with a model of the cluster: they reach balance in a few rounds, and then rest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from tests.elastic_model import ElasticModel, ModelActor

from stretto.actors.address import Address
from stretto.elasticity import JobView, MoveShards, Repartition, SetWorkers, controllers_named
from stretto.elasticity.effects import actual_imbalance


def shards(load: float, seed: int, count: int = 64) -> npt.NDArray[np.float64]:
    """Random loads of shards with this sum."""
    loads = np.random.default_rng(seed).exponential(1.0, count)
    return loads / loads.sum() * load


def actors(loads: list[float], seed: int = 0, **values: object) -> list[ModelActor]:
    """One actor per load, each at home on a worker of its own."""
    return [
        ModelActor(
            Address("q8", "Jumps", partition),
            f"w{partition:03}",
            shards(load, 100 * seed + partition),
            parallelism=len(loads),
            **values,  # type: ignore[arg-type]
        )
        for partition, load in enumerate(loads)
    ]


def imbalance_of(model: ElasticModel, actor: ModelActor) -> float:
    return actual_imbalance(model.view().by_address[actor.address])


@pytest.mark.parametrize("seed", range(10))
def test_random_shards_are_balanced_in_a_few_rounds(seed: int) -> None:
    (actor,) = made = actors([5.0], seed)
    actor.work = shards(5.0, seed, 256)
    actor.__post_init__()
    actor.owners = ["w000"] * 256
    actor.workers = tuple(f"w{number:03}" for number in range(8))
    model = ElasticModel(8, made, controllers_named("shards"))
    model.run(2.0)
    assert imbalance_of(model, actor) <= 1.2
    assert len(model.decisions) <= 4
    rounds = len(model.decisions)
    model.run(60.0)
    assert len(model.decisions) <= rounds + 1
    assert imbalance_of(model, actor) <= 1.2


@pytest.mark.parametrize("seed", range(4))
def test_keys_that_are_shuffled_are_balanced_again_within_two_seconds(seed: int) -> None:
    """omega = 6: the loads of shards are permuted every ten seconds; each time a few rounds, then rest."""
    (actor,) = made = actors([5.0], seed)
    actor.workers = tuple(f"w{number:03}" for number in range(8))
    model = ElasticModel(8, made, controllers_named("shards"))
    rng = np.random.default_rng(seed)
    for shuffle in range(6):
        model.run(2.5)
        assert imbalance_of(model, actor) <= 1.2
        model.run(7.5)
        assert not model.since(10.0 * shuffle + 5.0)
        actor.work = rng.permutation(actor.work)


def test_a_constant_load_leads_to_no_decision_for_an_hour() -> None:
    model = ElasticModel(12, actors([3.2, 0.1, 1.4, 0.8, 0.3]), controllers_named("auto"), [JobView("q8", 50e6)])
    model.run(3600.0)
    assert model.decisions
    assert not model.since(60.0)
    assert all(actor.waiting == 0 for actor in model.actors.values())
    assert all(sum(actor.received) == pytest.approx(actor.work.sum()) for actor in model.actors.values())


def test_too_few_workers_lead_to_no_decision_for_an_hour_either() -> None:
    """Twice as much load as workers, with and without objectives, some homes shared."""
    made = actors([3.2, 0.4, 2.4, 0.8, 0.6])
    lax = ModelActor(Address("lax", "Count", 0), "w001", shards(4.0, 7))
    jobs = [JobView("q8", 50e6), JobView("lax")]
    model = ElasticModel(6, [*made, lax], controllers_named("auto"), jobs)
    model.run(3600.0)
    assert not model.since(120.0)
    # All workers work all the time, but for the imbalance that is left.
    assert sum(worker.busy_share for worker in model.view().workers.values()) >= 6 / 1.2
    # Who decides nothing says so, at most once a minute and reason.
    silent = [record for record in model.records if record.decision is None]
    assert 1 <= len(silent) <= 60 * len({(record.controller, record.job, record.because) for record in silent})


@pytest.mark.parametrize("seed", range(12))
def test_random_clusters_come_to_rest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    workers = int(rng.choice([4, 8, 16]))
    jobs = [JobView("q8", 20e6), JobView("lax")]
    made = [
        ModelActor(
            Address(str(rng.choice(["q8", "lax"])), "Jumps", partition),
            f"w{rng.integers(workers):03}",
            shards(float(rng.choice([0.05, 0.3, 0.6, 1.0, 2.5])), 100 * seed + partition),
            service_s=float(rng.choice([0.0002, 0.001, 0.01])),
            routing=float(rng.choice([0.0, 0.05])),
            bytes_per_s=float(rng.choice([0.0, 2e6, 20e6])),
            workers_max=int(rng.choice([2, 8, 64])),
        )
        for partition in range(int(rng.integers(1, 10)))
    ]
    model = ElasticModel(workers, made, controllers_named("auto"), jobs, per_node=int(rng.choice([1, 4])))
    model.run(240.0)
    assert not model.since(150.0)


def test_noise_leads_to_few_decisions() -> None:
    loads = [3.2, 0.1, 1.4, 0.8, 0.3]
    model = ElasticModel(12, actors(loads), controllers_named("auto"), [JobView("q8", 50e6)], noise=0.2)
    model.run(900.0)
    assert len(model.since(120.0)) <= 5


@pytest.mark.parametrize("workers", [8, 32])
def test_a_surge_gets_workers_within_three_seconds_and_gives_them_back_within_a_minute(workers: int) -> None:
    """And not many more than it needs, however many are spare."""
    (actor,) = made = actors([0.3])
    model = ElasticModel(workers, made, controllers_named("auto"))
    model.run(20.0)
    assert len(actor.workers) == 1
    actor.work = actor.work / actor.work.sum() * 5.0
    model.run(3.0)
    assert len(actor.workers) >= 6
    model.run(2.0)
    assert sum(actor.received) == pytest.approx(5.0)
    model.run(10.0)
    assert len(actor.workers) <= 7
    actor.work = actor.work / actor.work.sum() * 0.3
    model.run(60.0)
    assert actor.workers == ("w000",)
    assert set(actor.owners) == {"w000"}
    model.run(300.0)
    assert not model.since(120.0)


def test_an_actor_that_cannot_keep_up_uses_its_workers_almost_whole() -> None:
    (actor,) = made = actors([20.0])
    model = ElasticModel(8, made, controllers_named("auto"))
    model.run(60.0)
    assert len(actor.workers) == 8
    assert sum(actor.received) >= 8 / 1.1


def test_one_key_that_is_too_hot_does_not_take_all_workers() -> None:
    (actor,) = made = actors([0.5])
    actor.work[17] = 3.0
    model = ElasticModel(16, made, controllers_named("auto"))
    model.run(600.0)
    assert len(actor.workers) <= 4
    assert not model.since(120.0)


def test_a_home_that_only_routes_is_divided_once() -> None:
    """Routing costs a quarter of the work: from four workers on the home does nothing else."""
    (actor,) = made = actors([6.0], routing=0.25)
    model = ElasticModel(8, made, controllers_named("auto"))
    model.run(30.0)
    assert Repartition("q8", "Jumps", 2) in [record.decision for record in model.decisions]
    assert any(isinstance(record.decision, SetWorkers) for record in model.decisions)
    assert any(isinstance(record.decision, MoveShards) for record in model.decisions)
    assert sum(record.decision == Repartition("q8", "Jumps", 2) for record in model.decisions) == 1
    # Of the home, which only routes, all shards have gone elsewhere.
    assert "w000" not in actor.owners


def test_the_naive_baseline_moves_much_more_state_between_nodes() -> None:
    """Loads that move between actors every 30 s, on four nodes of four workers: about three times as much. In the
    paper's table 2 it is 5.8 times; here a surge asks for more workers than its node has."""
    loads, moved = [2.5, 0.3, 0.6, 2.5], {}
    for name in ("shards,workers", "shards,naive"):
        rng = np.random.default_rng(5)
        made = actors(loads, bytes_per_s=2e5)
        for partition, actor in enumerate(made):
            actor.home = f"w{4 * partition:03}"
            actor.workers, actor.owners = (actor.home,), [actor.home] * len(actor.work)
        model = ElasticModel(16, made, controllers_named(name))
        for _ in range(8):
            model.run(30.0)
            for actor, load in zip(made, rng.permutation(loads), strict=True):
                actor.work = actor.work / actor.work.sum() * load
        moves = [move for r in model.decisions if isinstance(r.decision, MoveShards) for move in r.decision.moves]
        moved[name] = sum(model.nodes[move.source] != model.nodes[move.target] for move in moves)
    assert moved["shards,naive"] >= 2.5 * moved["shards,workers"]
    assert moved["shards,naive"] >= 100
