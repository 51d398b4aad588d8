"""Rows that replace earlier ones in a sink that can only add: refused, or numbered so that the last can be found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stretto import App, Function, KeyedStream, Sink, sinks, sources, tumbling
from stretto.actors.address import Attempt
from stretto.actors.context import Context
from stretto.api.lowering import lowered
from stretto.errors import ExpressionError, PlanError, UserError
from stretto.operators.changes.weights import weighted_schema
from stretto.runtime.connectors.sinks import ParquetSink

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64())])


class Counts(Function):
    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)


def keyed() -> KeyedStream:
    return App("app", parallelism=2).source("rows", sources.memory([{"k": 1, "n": 2}])).key_by("k")


def row(k: int, n: int) -> pa.RecordBatch:
    return pa.record_batch([[k], [n]], SCHEMA)


def last_of(directory: Path) -> dict[int, int]:
    """Returns the last value of each key, by the greatest number."""
    rows = sorted(pq.read_table(directory).to_pylist(), key=lambda each: each["_change"])
    assert len({each["_change"] for each in rows}) == len(rows)
    return {each["k"]: each["n"] for each in rows}


def test_a_sink_that_can_only_add_rows_is_refused(tmp_path: Path) -> None:
    totals = keyed().aggregate(n="sum(n)", name="totals")
    with pytest.raises(PlanError) as caught:
        totals.sink(sinks.parquet(tmp_path))
    for part in ("sink on 'totals'", "the same k", "can only add rows", 'changelog="_change"'):
        assert part in str(caught.value)
    with pytest.raises(PlanError, match="Sink can only add rows"):
        totals.sink(Sink())
    rows = App("late").source("rows", sources.memory([], "at timestamp, n bigint"), time="at")
    with pytest.raises(PlanError, match="the same window_start, window_end"):
        rows.window(tumbling("1 s")).allowed_lateness("1 s").aggregate("count(*)").sink(sinks.parquet(tmp_path))


@pytest.mark.parametrize("kind", ["collect", "null", "console", "callback", "changelog"])
def test_sinks_that_can_replace_rows_take_them(tmp_path: Path, kind: str) -> None:
    made = {
        "callback": lambda: sinks.callback(print),
        "changelog": lambda: sinks.parquet(tmp_path, changelog="_change"),
    }
    stream = keyed().aggregate(n="sum(n)").sink(made.get(kind, getattr(sinks, kind, None))())
    assert stream.schema.names == ["k", "n"]


def test_the_greatest_number_is_the_last_row_of_a_key(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path, rows_per_file=2, changelog="_change")
    sink.check(SCHEMA)
    writer = sink.writer(SCHEMA, 0, 1)
    for batch in (row(1, 10), row(2, 10), row(1, 5), row(1, 7), row(2, 3)):
        writer.write(batch)
    writer.finish()
    assert len(writer.files) == 3
    assert last_of(tmp_path) == {1: 7, 2: 3}


def test_numbers_go_on_after_the_job_resumes_with_other_partitions(tmp_path: Path) -> None:
    """The key moves to a partition that has written nothing before, and whose numbers must not begin again."""
    sink = ParquetSink(tmp_path, changelog="_change")

    def writer(partition: int, partitions: int, attempt: int) -> Any:
        return sink.checkpointed_writer(SCHEMA, partition, partitions, Attempt("0123abcd", 1, attempt))

    first = writer(0, 1, 1)
    for checkpoint, n in ((1, 10), (2, 9), (3, 8)):
        first.write(row(1, n))
        first.publish(checkpoint, first.seal(checkpoint))
    second = writer(1, 2, 2)
    second.withdraw(3)
    second.write(row(1, 7))
    second.publish(4, second.seal(4))
    assert last_of(tmp_path) == {1: 7}
    third = writer(0, 1, 3)
    third.withdraw(2)
    writer(1, 2, 3).withdraw(2)
    third.write(row(1, 6))
    third.publish(3, third.seal(3))
    assert last_of(tmp_path) == {1: 6}


def test_a_changelog_needs_a_free_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the changelog cannot be in column 'n'"):
        keyed().aggregate(n="sum(n)").sink(sinks.parquet(tmp_path, changelog="n"))


def test_a_function_declares_the_key_of_its_output() -> None:
    declared = "k bigint, n bigint"
    counts = keyed().apply(Counts(), declared, outputs={"late": declared}, upsert_key="K")
    assert counts._node.changes_by == ("k",)
    assert counts.output("late", upsert_key=["k", "n"])._node.changes_by == ("k", "n")
    assert keyed().apply(Counts(), declared).sink(sinks.parquet("unused")).schema.names == ["k", "n"]
    assert counts.filter("n > 1")._node.removes
    with pytest.raises(PlanError, match="cannot replace rows"):
        counts.sink(sinks.parquet("unused"))
    with pytest.raises(ExpressionError, match="unknown column 'key'"):
        keyed().apply(Counts(), declared, upsert_key="key")
    with pytest.raises(PlanError, match="an upsert key has no column"):
        keyed().apply(Counts(), declared, upsert_key=[])


@pytest.mark.parametrize(("parallelism", "refused"), [(None, False), (1, False), (2, False), (3, True)])
def test_rows_of_a_key_are_not_dealt_to_several_writers(parallelism: int | None, refused: bool) -> None:
    for verb in ("sink", "select"):
        stream = keyed().aggregate(n="sum(n)", name="totals")
        if verb == "select":
            stream = stream.select("k", "n", name="narrow", parallelism=parallelism)
        stream.sink(sinks.null(), name="out", parallelism=parallelism if verb == "sink" else 1)
        plan = stream._app.plan()
        if not refused:
            lowered(plan, "job", 2, 1024)
            continue
        with pytest.raises(PlanError, match="out of order"):
            lowered(plan, "job", 2, 1024)


def test_removed_rows_are_in_the_changelog_with_their_weights(tmp_path: Path) -> None:
    sink = sinks.parquet(tmp_path, changelog="_change")
    keyed().aggregate(n="sum(n)").filter("n > 1").sink(sink)
    writer = sink.writer(weighted_schema(SCHEMA), 0, 1)
    writer.write(pa.record_batch([[1, 2], [5, 5], [1, 1]], weighted_schema(SCHEMA)))
    writer.write(pa.record_batch([[1, 1], [5, 6], [-1, 1]], weighted_schema(SCHEMA)))
    writer.finish()
    written = pq.read_table(tmp_path)
    assert written.schema.names == ["k", "n", "_change"]
    left = written.group_by(["k", "n"]).aggregate([("_change", "sum")]).to_pylist()
    assert {(row["k"], row["n"]) for row in left if row["_change_sum"]} == {(2, 5), (1, 6)}


def test_the_changelog_of_removed_rows_needs_a_free_name_too(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the changelog cannot be in column 'n'"):
        keyed().aggregate(n="sum(n)").filter("n > 1").sink(sinks.parquet(tmp_path, changelog="n"))
