"""NEXMark on a real cluster: every query equals Spark SQL row by row, for any parallelism, batch size and disorder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.queries import QUERIES, Workload
from stretto.bench.nexmark.run import Bench, Outcome, SparkAnswers, Status, exit_code, verify
from stretto.bench.nexmark.twins import run_twin
from stretto.bench.verify import Match
from stretto.runtime.cluster import Cluster

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


# 20 seconds of event time: several windows of each query.
DISORDERED = NexmarkConfig(seed=7, events=20_000, event_rate=1000, disorder_s=2.0)
SHORT = NexmarkConfig(seed=11, events=2_000, event_rate=100, disorder_s=1.0)

# One query of each kind: stateless, unbounded join, interval join with aggregates, panes and top, sessions.
SPREAD = ["q1", "q3", "q4", "q5", "q11"]


class Judges:
    """Spark SQL's answers, each computed once per stream of events."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._open: dict[NexmarkConfig, CachedAnswers] = {}

    def of(self, config: NexmarkConfig) -> CachedAnswers:
        if config not in self._open:
            self._open[config] = CachedAnswers(SparkAnswers(self._spark, config))
        return self._open[config]

    def close(self) -> None:
        for answers in self._open.values():
            answers.spark.__exit__(None, None, None)


class CachedAnswers:
    def __init__(self, spark: SparkAnswers) -> None:
        self.spark = spark
        self._known: dict[str, pa.Table] = {}

    def answer(self, query: str, ingested: pa.Table | None = None) -> pa.Table:
        if ingested is not None:
            return self.spark.answer(query, ingested)
        if query not in self._known:
            self._known[query] = self.spark.answer(query)
        return self._known[query]

    def bids(self, columns: list[str]) -> pa.Table:
        return self.spark.bids(columns)


@pytest.fixture(scope="module")
def judges(spark: SparkSession) -> Iterator[Judges]:
    made = Judges(spark)
    yield made
    made.close()


@pytest.fixture(scope="module")
def two_workers(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=2) as cluster:
        yield cluster


def run(cluster: Cluster, query: str, workload: Workload, judges: Judges) -> Outcome:
    return Bench(cluster, workload, judges.of(workload.config)).run(query, lambda running: None, WAIT_S)


def assert_equal(outcome: Outcome) -> None:
    assert outcome.status is Status.FINISHED, outcome.error
    assert outcome.match is True, "\n".join(outcome.complaints())
    assert outcome.rows
    assert outcome.events_per_s is not None
    assert all(outcome.latency_ms[name] is not None for name in ("p50", "p95", "p99", "max"))


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_equals_spark_sql(two_workers: Cluster, judges: Judges, query: str) -> None:
    assert_equal(run(two_workers, query, Workload(DISORDERED, parallelism=4), judges))


@pytest.mark.parametrize("query", SPREAD)
@pytest.mark.parametrize(("parallelism", "batch"), [(1, 100), (4, 100)])
def test_parallelism_and_batches_change_nothing(
    two_workers: Cluster, judges: Judges, query: str, parallelism: int, batch: int
) -> None:
    assert_equal(run(two_workers, query, Workload(DISORDERED, parallelism=parallelism, batch=batch), judges))


@pytest.mark.parametrize("query", SPREAD)
def test_batches_of_one_event_change_nothing(two_workers: Cluster, judges: Judges, query: str) -> None:
    assert_equal(run(two_workers, query, Workload(SHORT, parallelism=2, batch=1), judges))


@pytest.mark.parametrize(("workers", "parallelisms"), [(1, [1, 4]), (5, [4])])
def test_the_number_of_workers_changes_nothing(
    spark: SparkSession, judges: Judges, workers: int, parallelisms: list[int]
) -> None:
    with Cluster.on_spark(spark, workers=workers) as cluster:
        for query in SPREAD:
            for parallelism in parallelisms:
                assert_equal(run(cluster, query, Workload(DISORDERED, parallelism=parallelism), judges))


def test_events_in_order_and_at_a_given_rate(two_workers: Cluster, judges: Judges) -> None:
    workload = Workload(replace(SHORT, disorder_s=0.0), rate=2_000)
    outcome = run(two_workers, "q5", workload, judges)
    assert_equal(outcome)
    assert outcome.elapsed_s is not None
    assert outcome.elapsed_s > 0.9


def test_several_queries_at_once_on_the_same_workers(two_workers: Cluster, judges: Judges) -> None:
    bench = Bench(two_workers, Workload(DISORDERED), judges.of(DISORDERED))
    running = [bench.start(query) for query in SPREAD]
    for one in running:
        assert one.job is not None
        one.job.wait(WAIT_S)
        assert_equal(bench.finish(one))


@pytest.mark.parametrize("query", QUERIES)
def test_the_batch_twin_is_the_same_query(spark: SparkSession, judges: Judges, query: str) -> None:
    """Compares two Spark versions of a query, ours and one written by hand; no actor is involved."""
    outcome = run_twin(query, Workload(SHORT), spark, judges.of(SHORT))
    assert (outcome.status is Status.UNSUPPORTED) == (query == "q12"), outcome.error
    if query != "q12":
        assert outcome.match, outcome.complaints()


@pytest.mark.parametrize("query", QUERIES)
def test_the_batch_twin_of_the_text_is_the_same_query(spark: SparkSession, judges: Judges, query: str) -> None:
    outcome = run_twin(query, Workload(SHORT, sql=True), spark, judges.of(SHORT))
    assert (outcome.status is Status.UNSUPPORTED) == (query == "q12"), outcome.error
    if query != "q12":
        assert outcome.match, outcome.complaints()


@pytest.mark.parametrize("query", ["q5", "q6", "q9", "q10", "q12", "q13"])
def test_queries_as_text_equal_spark_sql_on_the_actors(two_workers: Cluster, judges: Judges, query: str) -> None:
    assert_equal(run(two_workers, query, Workload(SHORT, sql=True), judges))


def test_a_batch_twin_that_takes_too_long_fails_and_the_session_keeps_running(
    spark: SparkSession, judges: Judges
) -> None:
    outcome = run_twin("q13", Workload(SHORT), spark, judges.of(SHORT), timeout_s=1e-9)
    assert outcome.status is Status.FAILED
    assert outcome.match is None
    assert "no answer after 1e-09 s, the timeout" in str(outcome.error)
    assert run_twin("q13", Workload(SHORT), spark, judges.of(SHORT), timeout_s=WAIT_S).match is True


@pytest.mark.parametrize("query", ["q2", "q5", "q10", "q13", "q15", "q20"])
def test_micro_batches_give_the_same_answers(two_workers: Cluster, judges: Judges, query: str) -> None:
    outcome = run(two_workers, query, Workload(DISORDERED, engine="microbatch"), judges)
    assert_equal(outcome)
    assert outcome.engine == "microbatch"


def test_what_micro_batches_cannot_express_is_named(two_workers: Cluster, judges: Judges) -> None:
    outcome = run(two_workers, "q6", Workload(DISORDERED, engine="microbatch"), judges)
    assert outcome.status is Status.UNSUPPORTED
    assert outcome.match is None
    assert "q6" in str(outcome.error)
    assert exit_code([outcome]) == 0


def wrong(table: pa.Table) -> pa.Table:
    prices = table.column("price").to_pylist()
    changed = pa.array([prices[0] + 1, *prices[1:]], table.schema.field("price").type)
    return table.set_column(table.column_names.index("price"), "price", changed)


def missing(table: pa.Table) -> pa.Table:
    return table.slice(1)


def repeated(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table, table.slice(5, 1)])


@pytest.mark.parametrize("tamper", [wrong, missing, repeated])
def test_one_bad_row_in_a_real_result_is_seen(
    two_workers: Cluster, judges: Judges, tamper: Callable[[pa.Table], pa.Table]
) -> None:
    bench = Bench(two_workers, Workload(DISORDERED), judges.of(DISORDERED))
    job = bench.start("q0").job
    assert job is not None
    result = job.wait(WAIT_S).results()
    answers = judges.of(DISORDERED)
    assert verify("q0", {"out": result}, answers)["out"].match is Match.MATCH
    verdict = verify("q0", {"out": tamper(result)}, answers)["out"]
    assert verdict.match is Match.MISMATCH
    assert verdict.missing + verdict.extra in (1, 2)


def test_a_query_that_takes_too_long_fails_and_the_cluster_keeps_running(two_workers: Cluster, judges: Judges) -> None:
    bench = Bench(two_workers, Workload(SHORT, rate=1), judges.of(SHORT))
    outcome = bench.run("q0", lambda running: None, timeout_s=0.5)
    assert outcome.status is Status.FAILED
    assert "at the timeout" in str(outcome.error)
    assert exit_code([outcome]) == 1
    assert_equal(run(two_workers, "q0", Workload(SHORT), judges))
