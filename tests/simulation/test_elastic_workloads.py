"""The workloads of elastic executors in virtual time: their answers are those of the models, in the order of each key.

The models are independent of stretto: a loop over the tuples, and a sequential order book over the orders.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa
import pytest
from tests.elastic_runs import EXCHANGE, MICRO, deployment_of

from stretto.actors.channel import Message
from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.bench.elastic import transactor
from stretto.bench.elastic.calculator import Calculator
from stretto.bench.elastic.checks import Answer, check_all
from stretto.bench.elastic.exchange import Exchange
from stretto.bench.elastic.micro import Microbenchmark
from stretto.bench.elastic.transactor import Transactor
from stretto.bench.verify import Match, Side, Verdict
from stretto.coordinator.records import JobStatus
from stretto.simulator.engine.cluster import SimulatedCluster, SimulatedJob
from stretto.simulator.engine.durable import DurableCluster
from stretto.simulator.engine.storage import SimulatedFiles
from stretto.worker.channels import Channels
from stretto.worker.machine import WorkerParts

Workload = Microbenchmark | Exchange
WORKLOADS = pytest.mark.parametrize("workload", [MICRO, EXCHANGE], ids=["micro", "exchange"])


@lru_cache
def expected(workload: Workload) -> dict[str, Answer]:
    """Returns the model's answers. They depend on the events and the rules, not on the schedule."""
    return workload.expected()


def verdicts(job: SimulatedJob, workload: Workload) -> dict[str, Verdict]:
    assert job.status is JobStatus.FINISHED, job.failure
    return check_all({name: writer.table() for name, writer in job.writers.items()}, expected(workload))


def assert_right(job: SimulatedJob, workload: Workload) -> None:
    found = verdicts(job, workload)
    wrong = {name: verdict.describe() for name, verdict in found.items() if verdict.match is not Match.MATCH}
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
    assert all(verdict.rows_expected for verdict in found.values())


def scaled(workload: Workload, chance: random.Random) -> Workload:
    """Returns the same workload with other numbers of partitions."""
    one, two, three = (chance.choice([1, 2, 3, 5]) for _ in range(3))
    if isinstance(workload, Microbenchmark):
        return replace(workload, generators=one, calculators=two)
    return replace(workload, sources=one, transactors=two, analysts=three)


def run(workload: Workload, workers: int, seed: int, parts: WorkerParts | None = None) -> SimulatedJob:
    cluster = SimulatedCluster(workers, seed, worker_parts=parts)
    job = cluster.submit(deployment_of(workload))
    cluster.run()
    return job


@WORKLOADS
@pytest.mark.parametrize("seed", range(5))
def test_the_answer_is_the_models_whatever_the_schedule(workload: Workload, seed: int) -> None:
    chance = random.Random(seed)
    other = replace(scaled(workload, chance), batch=chance.choice([20, 100, 1_000]))
    assert_right(run(other, chance.choice([1, 2, 4, 7]), seed), workload)


@WORKLOADS
@pytest.mark.parametrize("seed", range(3))
def test_crashes_and_other_numbers_of_partitions_change_nothing(workload: Workload, seed: int) -> None:
    """A worker crashes, then the driver restarts with other numbers of workers and partitions, then a worker again."""
    chance = random.Random(seed)
    cluster = DurableCluster(4, seed, SimulatedFiles())
    cluster.write_ns = (20_000, 500_000)
    other = deployment_of(scaled(workload, chance))
    cluster.submit_durable(deployment_of(workload))
    cluster.plan(150_000_000, cluster.crash_some)
    cluster.plan(300_000_000, lambda: cluster.restart(other, chance.choice([1, 3, 6])))
    cluster.plan(500_000_000, cluster.crash_some)
    cluster.run()
    assert cluster.recoveries >= 2
    assert len(cluster.announced) >= 2
    assert_right(cluster.jobs["job"], workload)


# Planted faults: each must be noticed, with a witness.


class Overtakes(Channels):
    """Swaps the last two batches that wait for a calculator or a transactor, whenever a frame arrives."""

    def _receive(self, *frame: object) -> None:
        super()._receive(*frame)  # type: ignore[arg-type]
        for job in self._host.jobs.values():
            for seat in job.seats.values():
                waiting = [each for each in seat.mailbox if isinstance(each, Message)]
                batches = [each for each in waiting if isinstance(each.payload, pa.RecordBatch)]
                if seat.address.function in ("calculator", "transactor") and len(batches) >= 2:
                    one, other = batches[-2:]
                    one.payload, other.payload = other.payload, one.payload


@WORKLOADS
def test_batches_that_overtake_each_other_are_noticed(workload: Workload) -> None:
    found = verdicts(run(workload, 4, 1, WorkerParts(channels=Overtakes)), workload)
    wrong = [verdict for verdict in found.values() if verdict.match is Match.MISMATCH]
    assert wrong
    assert all(verdict.witness for verdict in wrong)


FUNCTIONS: list[tuple[Workload, type[Function], str]] = [
    (MICRO, Calculator, "results"),
    (EXCHANGE, Transactor, "trades"),
]


@pytest.mark.parametrize(("workload", "function", "sink"), FUNCTIONS, ids=["micro", "exchange"])
def test_rows_in_another_order_within_a_batch_are_noticed(
    workload: Workload, function: type[Function], sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = function.process

    def backwards(self: Function, batch: pa.RecordBatch, ctx: Context) -> None:
        whole(self, batch.take(pa.array(range(batch.num_rows - 1, -1, -1))), ctx)

    monkeypatch.setattr(function, "process", backwards)
    verdict = verdicts(run(workload, 3, 1), workload)[sink]
    assert verdict.match is Match.MISMATCH
    assert {witness.side for witness in verdict.witness} == {Side.MISSING, Side.EXTRA}


def test_a_fill_that_is_lost_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transactor that executes an order and keeps only its first fill."""
    whole = transactor.execute
    monkeypatch.setattr(transactor, "execute", lambda *order: list(whole(*order))[:1])
    verdict = verdicts(run(EXCHANGE, 3, 1), EXCHANGE)["trades"]
    assert verdict.match is Match.MISMATCH
    assert verdict.missing > 0
