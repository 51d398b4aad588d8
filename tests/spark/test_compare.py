"""The comparison on real processes: systems that answer or fail, right and wrong results, and one short run of
everything."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stretto.bench.compare import systems
from stretto.bench.compare.compare import CHECK_CONFIG, Comparison, Plan
from stretto.bench.compare.environments import Environment
from stretto.bench.compare.feed import Library, Rendered
from stretto.bench.compare.judge import Judge
from stretto.bench.compare.peers.talk import Task
from stretto.bench.compare.queries import compared
from stretto.bench.compare.systems import CannotExpress, System, SystemFailed
from stretto.bench.nexmark import oracle
from stretto.errors import UserError

LATENCY_S_MAX = 300.0
HERE = Environment(Path(sys.executable))
TASK = Task("q7", "directory", "output", "paced", 2, 1, False)

FAKE = """
from stretto.bench.compare.peers.talk import Peer, Unsupported, serve
import os, time

class Fake(Peer):
    version, cores = "1.0", 1

    def prepare(self, task):
        print("noise that must not be taken for an answer")
        if task.query == "q4":
            raise Unsupported("it has no joins")
        if task.query == "q5":
            raise ValueError("it broke")
        if task.query == "q8":
            os._exit(3)
        if task.query == "q11":
            time.sleep(60)

    def progress(self):
        return {"rows": 5, "trigger_us": 7, "ended": False}

    def finish(self):
        return {"rows": 5}

serve(Fake())
"""


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[System]:
    script = tmp_path / "fake.py"
    script.write_text(FAKE)
    system = System("fake", HERE, (0,), tmp_path, script)
    yield system
    system.close()


def task(query: str) -> Task:
    return Task(query, "directory", "output", "paced", 2, 1, False)


def test_a_system_answers_questions_whatever_it_prints(fake: System) -> None:
    assert (fake.version, fake.cores, fake.persists) == ("1.0", 1, "nothing")
    fake.prepare(task("q7"))
    assert fake.progress()["rows"] == 5
    assert fake.finish() == 5
    assert "noise" in fake.log.read_text()


def test_a_system_reports_what_it_cannot_express(fake: System) -> None:
    with pytest.raises(CannotExpress, match="it has no joins"):
        fake.prepare(task("q4"))
    assert fake.progress()["rows"] == 5, "it keeps running"


@pytest.mark.parametrize(("query", "reason"), [("q5", "ValueError: it broke"), ("q8", "it has ended")])
def test_a_system_that_breaks_is_named_with_what_it_said_last(fake: System, query: str, reason: str) -> None:
    with pytest.raises(SystemFailed, match=reason):
        fake.prepare(task(query))


def test_a_system_that_does_not_answer_is_given_up(fake: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "PREPARE_TIMEOUT_S", 0.5)
    monkeypatch.setattr(systems, "CLOSE_TIMEOUT_S", 0.5)
    with pytest.raises(SystemFailed, match=r"no answer within 0\.5 s"):
        fake.prepare(task("q11"))
    fake.close()  # Does not wait for it either.


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    library = Library(tmp_path_factory.mktemp("files"), compared("q7").columns, lambda events: None)
    return library.rendered(CHECK_CONFIG, 20_000, 10)


def test_the_judge_finds_a_row_that_is_wrong_missing_or_too_many(spark: SparkSession, rendered: Rendered) -> None:
    judge = Judge(spark, "q7", compared("q7"), rendered)
    right = oracle.answer(spark, "q7", rendered.directory).sort_by("window_end")
    assert judge.rows >= 5
    assert judge.complaint(right) is None
    assert judge.complaint(right.slice(1)) is not None
    assert judge.complaint(pa.concat_tables([right, right.slice(0, 1)])) is not None
    price = right.column_names.index("price")
    wrong = right.set_column(price, "price", pa.array([1, *right.column("price").to_pylist()[1:]]))
    assert judge.complaint(wrong) is not None
    assert "different schema" in str(judge.complaint(right.drop_columns(["bidder"])))


def test_windows_that_end_with_the_input_are_not_compared(spark: SparkSession, rendered: Rendered) -> None:
    judge = Judge(spark, "q7", compared("q7"), rendered)
    right = oracle.answer(spark, "q7", rendered.directory).sort_by("window_end")
    assert judge.complaint(right.slice(0, right.num_rows - 1)) is None


def test_windows_of_arrival_must_add_up(spark: SparkSession, rendered: Rendered) -> None:
    judge = Judge(spark, "q12", compared("q12"), rendered)
    totals = spark.read.parquet(str(rendered.directory / "bid")).groupBy("bidder").count().toArrow()
    answer = pa.table({"bidder": totals.column("bidder"), "bids": totals.column("count")})
    split = pa.concat_tables([answer, answer.set_column(1, "bids", pa.array([0] * answer.num_rows))])
    assert judge.complaint(split) is None, "the number of windows is unknown"
    assert judge.complaint(pa.concat_tables([answer, answer.slice(0, 1)])) is not None


def test_unknown_queries_and_peers_are_refused() -> None:
    with pytest.raises(UserError, match="no comparison of 'q3'"):
        Plan("q3")
    with pytest.raises(UserError, match="no peer 'storm'"):
        Plan("q7", ("storm",))


def test_a_short_comparison_with_spark_has_all_figures() -> None:
    said: list[str] = []
    plan = Plan("q1", ("spark",), events=200_000, rate=5_000, rounds=1, steps=1, seconds=2, latency_seconds=4)
    found = Comparison(plan, said.append, lambda: None).run()
    while any(system["latency_ms"]["p50"] is None for system in found["systems"].values()):
        # The machine is so slow that nothing came out while latency was measured.
        plan = replace(plan, latency_seconds=4 * plan.latency_seconds)
        assert plan.latency_seconds < LATENCY_S_MAX, said
        found = Comparison(plan, said.append, lambda: None).run()
    assert found["query"] == "q1"
    assert found["load"]["max"] >= 0
    assert set(found["systems"]) == {"stretto", "spark"}
    for name, system in found["systems"].items():
        assert system["match"] is True, said
        assert system["events_per_s"] > 0, (name, said)
        assert system["events_per_s_per_core"] == pytest.approx(system["events_per_s"] / 2, rel=0.01)
        assert 0 < system["latency_ms"]["p50"] <= system["latency_ms"]["p99"] <= system["latency_ms"]["max"]
    for kind in ("throughput_per_core", "p99"):
        low, high = found["ranges"][kind]["spark"]
        assert low <= found["ratios"][kind]["spark"] <= high
    p99 = {name: system["latency_ms"]["p99"] for name, system in found["systems"].items()}
    assert found["ratios"]["p99"]["spark"] == pytest.approx(p99["stretto"] / p99["spark"], rel=0.01), "of one round"
