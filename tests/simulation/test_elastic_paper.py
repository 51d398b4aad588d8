"""Elastic executors with their controllers in virtual time, smaller than `stretto simulate elastic-paper`."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from stretto.actors.channel import Message
from stretto.actors.context import Context
from stretto.actors.deployment import ByKey, Deployment, Edge, FunctionSpec, Rebalance, Stage
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.elasticity import Outcome
from stretto.elasticity.assignment import assign
from stretto.elasticity.decisions import Repartition
from stretto.scheduling.offloading import Anticipate
from stretto.simulator.experiments.elastic_paper import ELASTIC_FIGURES
from stretto.simulator.experiments.executors import SCHEMA, Measured, Setting, Trial, elastic_controllers
from stretto.simulator.experiments.paper_exchange import changed_problem
from stretto.simulator.experiments.paper_figures import STATIC as STATIC_APPROACH
from stretto.simulator.experiments.paper_figures import PaperScale, run
from stretto.simulator.experiments.paper_moves import moved_ms

SMALL = Setting(nodes=2, executors=2, controllers=elastic_controllers, keys=1_000, skew=0.7, warm_s=20.0, seconds=10.0)
STATIC = replace(SMALL, executors=16, controllers=None)


@pytest.fixture(scope="module")
def shuffled() -> dict[str, Measured]:
    """Keys are shuffled every 7.5 seconds."""
    settings = {"static": STATIC, "elastic": SMALL}
    return {name: Trial(replace(each, shuffles_per_minute=8.0)).run() for name, each in settings.items()}


def test_elastic_executors_beat_static_ones_while_keys_are_shuffled(shuffled: dict[str, Measured]) -> None:
    static, elastic = shuffled["static"], shuffled["elastic"]
    assert elastic.tuples_per_s > 1.15 * static.tuples_per_s
    assert elastic.utilisation <= 1.0
    assert len(elastic.latencies_ms) == sum(elastic.rows_by_second.values())


def test_executors_get_the_cores_of_their_nodes(shuffled: dict[str, Measured]) -> None:
    elastic = shuffled["elastic"]
    assert elastic.workers > 6
    assert sum(each.moved for each in elastic.moves) > 0
    assert not any(record.outcome is Outcome.FAILED for record in elastic.decisions)


def test_a_constant_load_comes_to_rest_within_ten_seconds() -> None:
    setting = replace(SMALL, skew=0.5, keys=10_000, shuffles_per_minute=0.0, load=0.6, warm_s=10.0, seconds=30.0)
    measured = Trial(setting).run()
    assert measured.utilisation == pytest.approx(0.6, rel=0.1)
    assert measured.p99_ms < 100
    decided = [record for record in measured.decisions if record.decision is not None]
    assert any(record.controller == "workers" for record in decided)
    late = [record for record in decided if record.at_ns > 11e9]
    assert not [record for record in late if record.controller == "workers"]
    assert len(late) <= 4  # Two controllers could have made 180.


@pytest.mark.parametrize("away", [False, True])
def test_the_wait_of_a_moving_shard_does_not_depend_on_upstream_executors(away: bool) -> None:
    one, many = (moved_ms(upstreams, 32 * 1024, away, seed=1) for upstreams in (1, 16))
    assert many["synchronisation_ms"] < 2.0
    assert abs(many["synchronisation_ms"] - one["synchronisation_ms"]) < 1.0


def test_a_state_takes_its_time_on_the_network_only() -> None:
    size = 8 * 1024 * 1024
    assert moved_ms(1, size, True, seed=1)["total_ms"] > 0.8 * size * 8e-6
    assert moved_ms(1, size, False, seed=1)["total_ms"] < 1.0


def test_the_problem_that_is_timed_has_a_solution_that_changes_something() -> None:
    problem = changed_problem(8, seed=3)
    found = assign(problem)
    assert found is not None
    assert (found.cores.sum(axis=0) >= problem.wanted).all()
    assert (found.cores != problem.current).any()


def test_a_figure_says_what_was_found_and_what_the_paper_has() -> None:
    runs = []
    scale = PaperScale(2, 2.0, 2.0, 1, time.perf_counter)
    figure = ELASTIC_FIGURES["11"].make(scale, lambda: runs.append(1))
    assert len(runs) == ELASTIC_FIGURES["11"].runs
    assert figure.claims
    assert figure.direction_holds is True
    assert not replace(figure, claims={**figure.claims, "another": False}).direction_holds


def test_runs_are_made_once_for_all_figures() -> None:
    scale, runs = PaperScale(2, 2.0, 1.0, 1, time.perf_counter), list[int]()
    setting = scale.setting(keys=100)
    first, again = (run(scale, STATIC_APPROACH, setting, lambda: runs.append(1)) for _ in range(2))
    assert first is again
    assert len(runs) == 2
    assert run(scale, STATIC_APPROACH, replace(setting, seed=2), lambda: None) is not first


# The resource-centric approach.


def test_keys_are_dealt_to_partitions_by_load_while_it_runs() -> None:
    """A constant, skewed load: one or two handovers at the beginning, and more throughput than with static ranges."""
    setting = replace(STATIC, shuffles_per_minute=0.0, skew=0.5, keys=600, warm_s=5.0, seconds=4.0)
    static, dealt = (Trial(each).run() for each in (setting, replace(setting, dealt=True)))
    assert dealt.tuples_per_s > 1.1 * static.tuples_per_s
    done = [record for record in dealt.decisions if record.outcome is Outcome.DONE]
    assert 1 <= len(done) <= 4
    assert all(isinstance(record.decision, Repartition) and record.decision.shards is not None for record in done)
    assert all((record.spent or {})["paused_ms"] > 1 for record in done)


# Strategies beside controllers.


class Scoring(Function):
    """Stateless, so that a strategy may have it run anywhere."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)


class WithSpread(Trial):
    """A function that is spread by a strategy, and an elastic one behind it."""

    def deployment(self) -> Deployment:
        found = super().deployment()
        source, calculator = found.functions["generator"], found.functions["calculator"]
        scoring = FunctionSpec("scoring", Scoring(), 1, lessees_max=7, strategy=Anticipate(seed=1))
        scoring.outputs["out"] = Stage("scoring", SCHEMA, edges=[Edge("calculator", "in", ByKey(("key",)))])
        source.outputs["out"] = Stage("generator", SCHEMA, edges=[Edge("scoring", "in", Rebalance())])
        functions = {"generator": source, "scoring": scoring, "calculator": calculator}
        return Deployment(found.job, functions, latency_ns=200_000_000)

    def cost_ns(self, chance: random.Random, instance: Instance, work: Any) -> int:
        if instance.address.function == "scoring" and isinstance(work, Message):
            return 400_000 * work.payload.num_rows if isinstance(work.payload, pa.RecordBatch) else 1_000
        return super().cost_ns(chance, instance, work)


def test_controllers_do_not_fight_the_strategies() -> None:
    """The hot stateless function needs 1.9 workers, and the elastic one 4.8 of 8, with a constant load for 40 seconds.
    The strategy has work run wherever there is room; shards do not go after it."""
    small = replace(SMALL, nodes=1, executors=1, shuffles_per_minute=0.0, skew=0.5, keys=10_000)
    setting = replace(small, load=0.6, rows_per_core=8, warm_s=15.0, seconds=25.0)
    trial = WithSpread(setting)
    measured = trial.run()
    assert measured.utilisation == pytest.approx(0.6, rel=0.1)  # Both keep up.
    scoring = trial.cluster.observation.jobs["micro"].functions["scoring"]
    assert scoring.totals.messages_forwarded > 100
    assert sum(actor.totals.rows_in > 0 for actor in scoring.actors) > 1
    decided = [record for record in measured.decisions if record.decision is not None]
    assert {record.function for record in measured.decisions} == {"calculator"}
    late = [record for record in decided if record.at_ns > 16e9]
    assert sum(record.controller == "workers" for record in late) <= 2
    assert len(late) <= 12  # Of 75 that there could have been.
