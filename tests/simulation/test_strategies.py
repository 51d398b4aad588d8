"""Every strategy on random dataflows, schedules and disturbances, and on NEXMark: barriers and answers are right."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pyarrow as pa
import pytest
from examples.ask_first import AskFirst

from stretto.actors.instance import Instance
from stretto.api.lowering import lowered
from stretto.api.slo import objective
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.queries import Workload, build
from stretto.bench.verify import Match, compare
from stretto.coordinator.records import JobStatus
from stretto.scheduling.offloading import AcceptAndCheck, RejectLate
from stretto.scheduling.strategies import STRATEGIES
from stretto.scheduling.strategy import Strategy
from stretto.scheduling.tokens import TokenRate
from stretto.simulator.checking.barriers import try_seed
from stretto.simulator.checking.history import History
from stretto.simulator.checking.scenarios import Scenario
from stretto.simulator.engine.cluster import SimulatedCluster

SEEDS = 20
VARIANTS: dict[str, Callable[[], Strategy]] = {
    **STRATEGIES,
    "tokens": lambda: TokenRate(tokens=1, interval_ms=5.0),
    "1rtt-reject-send, may refuse": lambda: RejectLate(force_migrate=False, random_lessee=False),
    "1rtt-accept-and-check, may refuse": lambda: AcceptAndCheck(force_migrate=False, random_lessee=False),
    "a user's own": AskFirst,
}


def instances() -> int:
    gc.collect()
    return sum(isinstance(found, Instance) for found in gc.get_objects())


@pytest.mark.parametrize("name", VARIANTS)
def test_barriers_hold_under_every_strategy_and_what_it_holds_goes_with_the_run(name: str) -> None:
    barriers, before = 0, instances()
    for seed in range(SEEDS):
        trial = try_seed(seed, workers_max=8, functions_max=8, strategy=VARIANTS[name])
        assert not trial.violations, f"seed {seed}: {trial.violations[0]}\n{trial.log}"
        barriers += trial.barriers
    assert barriers > SEEDS
    assert instances() == before


@pytest.mark.parametrize("name", VARIANTS)
def test_equal_seeds_give_equal_histories(name: str) -> None:
    for seed in range(3):
        assert history(seed, VARIANTS[name]) == history(seed, VARIANTS[name]), f"seed {seed}"


def history(seed: int, strategy: Callable[[], Strategy]) -> str:
    """Returns all events of a run, in order."""
    recorded = History()
    cluster = SimulatedCluster(6, seed, history=recorded)
    job = cluster.submit(Scenario(seed, 8, strategy).deployment)
    cluster.run()
    assert job.status is JobStatus.FINISHED, job.failure
    return recorded.log(last=len(recorded.happenings))


@pytest.fixture(scope="module")
def right() -> dict[str, pa.Table]:
    return {query: answer(query, None) for query in ("q5", "q7", "q8")}


def answer(query: str, strategy: Strategy | None) -> pa.Table:
    """Returns the output of a query on simulated workers, with an objective so short that much would be late."""
    config = NexmarkConfig(events=20_000, seed=7, event_rate=500, disorder_s=0.5)
    app = build(query, Workload(config, batch=200, slo=objective(latency="3 ms")))
    if strategy is not None:
        app.spread(lessees=4, strategy=strategy)
    cluster = SimulatedCluster(1 if strategy is None else 6, 3)
    job = cluster.submit(lowered(app.plan(), query, 1 if strategy is None else 2, 500))
    cluster.run()
    assert job.status is JobStatus.FINISHED, job.failure
    table: pa.Table = job.writers["out"].table()
    return table


@pytest.mark.parametrize("name", VARIANTS)
def test_nexmark_answers_stay_under_every_strategy(name: str, right: dict[str, pa.Table]) -> None:
    for query, table in right.items():
        verdict = compare(answer(query, VARIANTS[name]()), table)
        assert verdict.match is Match.MATCH, f"{query}: {verdict.describe()}"
        assert table.num_rows > 0
