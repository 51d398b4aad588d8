"""The example of a user's own controller: on a view made by hand, in a closed loop with the balancer of shards, and in
the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from examples.own_controller import Doubling
from tests.elastic_model import ElasticModel, ModelActor

from stretto.actors.address import Address
from stretto.elasticity import ActorView, ElasticView, SetWorkers, WorkerView, controllers_named
from stretto.observation.shards import ShardsObserved
from stretto.simulator.experiments.executors import Measured, Setting, Trial

BUSY = {"a": 1.0, "b": 0.5, "c": 0.1, "d": 0.2}


def view(waiting: int, cost_ns: int, workers: tuple[str, ...], may_change: bool = True) -> ElasticView:
    shards = ShardsObserved((0,), ("a",), (cost_ns,), (100,))
    actor = ActorView(
        Address("q8", "Jumps", 0), "a", workers, shards, workers_max=3, waiting=waiting, may_change=may_change
    )
    return ElasticView(0, (actor,), {name: WorkerView(name, "node", 1.0, busy) for name, busy in BUSY.items()})


def test_it_doubles_within_the_maximum_and_takes_idle_workers() -> None:
    (record,) = Doubling().decide(view(500, 10**9, ("a",)), 7)
    assert record.decision == SetWorkers("q8", "Jumps", 0, ("a", "c"))
    assert (record.controller, record.because, record.at_ns) == ("Doubling", "messages wait", 7)
    assert record.measure_at_ns == 7 + 4_000_000_000
    (record,) = Doubling().decide(view(500, 10**9, ("a", "c")), 7)
    assert record.decision == SetWorkers("q8", "Jumps", 0, ("a", "c", "d"))


def test_it_goes_home_when_idle_and_rests_otherwise() -> None:
    (record,) = Doubling().decide(view(0, 10**6, ("a", "c")), 7)
    assert record.decision == SetWorkers("q8", "Jumps", 0, ("a",))
    assert Doubling().decide(view(3, 10**9, ("a", "c")), 7) == []
    assert Doubling().decide(view(500, 10**9, ("a",), may_change=False), 7) == []


def test_it_lets_an_actor_keep_up() -> None:
    work = np.full(64, 3.0 / 64)
    hot = ModelActor(Address("q8", "Jumps", 0), "w000", work, service_s=0.0001, workers_max=8)
    model = ElasticModel(8, [hot], controllers_named("shards,examples.own_controller:Doubling"))
    model.run(60)
    assert hot.waiting <= 100
    assert sum(hot.received) == 3.0 * 1.0


def test_it_doubles_the_throughput_in_the_simulator() -> None:
    """On one node of eight workers, with as much input as there can be."""

    def tried(names: str) -> Measured:
        made = Setting(nodes=1, executors=1, generators=16, keys=500, shuffles_per_minute=0.0, warm_s=12.0, seconds=4.0)
        return Trial(replace(made, controllers=lambda threshold: controllers_named(names).controllers)).run()

    alone, doubled = tried("off"), tried("shards,examples.own_controller:Doubling")
    assert doubled.tuples_per_s > 1.8 * alone.tuples_per_s
    assert any(record.controller == "Doubling" for record in doubled.decisions)
    assert [str(record) for record in doubled.decisions if record.reverts is not None] == []
