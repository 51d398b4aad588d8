"""Arrays, maps and structs against Spark itself; the pure twin is tests/unit/expressions/test_nested.py."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from tests.nested_cases import GENERATED, ROWS, frame, recorded, shown, sparks_answers
from tests.waiting import WAIT_S

from stretto import App, Cluster, sinks, sources
from stretto.expressions import compile_projection

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
TAGGED = [
    {"id": i, "tags": None if i % 7 == 0 else ["a", "b", None][: i % 4], "at": NOON + dt.timedelta(seconds=i)}
    for i in range(40)
]


def test_the_recorded_answers_are_sparks(spark: SparkSession) -> None:
    wanted = {text: answer for text, answer in recorded().items() if answer is not None}
    answers = dict(zip(wanted, sparks_answers(spark, list(wanted)), strict=True))
    assert {text: answer for text, answer in answers.items() if answer != wanted[text]} == {}


def test_rows_that_are_made_are_sparks(spark: SparkSession) -> None:
    for texts in GENERATED:
        projection = compile_projection(texts, ROWS.schema)
        made = projection.evaluate(ROWS)
        for sql in (texts, projection.sql):
            theirs = frame(spark).selectExpr(*sql).toArrow().combine_chunks()
            assert theirs.schema.names == made.schema.names, sql
            assert [shown(c.chunk(0)) for c in theirs.columns] == [shown(column) for column in made.columns], sql


def app_of(engine: str) -> App:
    app = App(f"exploded-{engine}")
    rows = app.source("rows", sources.memory(TAGGED, "id bigint, tags array<string>, at timestamp"), time="at")
    tags = rows.select("id", "at", "explode(tags) AS tag")
    tags.sink(sinks.collect(), name="tags")
    tags.key_by("tag").aggregate(total="count(*)").sink(sinks.collect(), name="totals")
    rows.with_column("tags", "explode_outer(tags)").sink(sinks.collect(), name="replaced")
    return app


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())


def test_all_engines_agree(spark: SparkSession) -> None:
    names = ("tags", "totals", "replaced")
    twin = app_of("batch")
    expected: dict[str, Any] = {name: sorted_rows(twin.to_spark(spark, name).toArrow()) for name in names}
    assert len(expected["tags"]) == sum(len(row["tags"] or []) for row in TAGGED)
    with Cluster.on_spark(spark, workers=2) as cluster:
        for engine in ("actors", "microbatch"):
            job = cluster.submit(app_of(engine), engine=engine).wait(WAIT_S)
            for name in names:
                assert sorted_rows(job.results(name)) == expected[name], (engine, name)
