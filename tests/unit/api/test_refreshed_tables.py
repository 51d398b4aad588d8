"""Tables that are read again: when a change is seen, what stays, what fails, and what is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stretto import App, sinks, sources
from stretto.actors.context import Context
from stretto.api import tables
from stretto.api.explain import explained
from stretto.api.lowering import lowered
from stretto.api.memory import MemorySource
from stretto.api.relational import unsupported
from stretto.coordinator.records import JobStatus
from stretto.errors import PlanError, SourceError
from stretto.operators.refreshed import RefreshedTableJoin
from stretto.runtime import table_files
from stretto.runtime.table_data import rereading
from stretto.simulator.engine.cluster import SimulatedCluster

SCHEMA = "n bigint, id bigint"
SECOND = 1_000_000_000


class Versions:
    """A table whose only row has the number of the read, except for reads that do something else."""

    def __init__(self, other: dict[int, Callable[[], pa.Table]] | None = None) -> None:
        self.reads = 0
        self._other = other or {}

    def __call__(self) -> pa.Table:
        self.reads += 1
        if self.reads in self._other:
            return self._other[self.reads]()
        return pa.table({"id": [1], "version": [self.reads]})


def unreadable() -> pa.Table:
    raise OSError("the disk is away")


def rows_in_time(*times_ms: int) -> list[Any]:
    """Returns rows, numbered, with pauses so that each comes at its time."""
    found: list[Any] = []
    for number, (before, at) in enumerate(zip((0, *times_ms), times_ms, strict=False)):
        found += [MemorySource.Pause(at - before), {"n": number, "id": 1}] if at > before else [{"n": number, "id": 1}]
    return found


def joined(data: Any, rows: list[Any]) -> tuple[App, Any]:
    app = App("app")
    stream = app.source("in", MemorySource(rows, SCHEMA, batch_rows=1), parallelism=1)
    stream.join(app.table("names", data, refresh="1 s"), "id", how="left", name="joined").sink(
        sinks.collect(), name="out"
    )
    cluster = SimulatedCluster(1, seed=1)
    job = cluster.submit(lowered(app.plan(), "app", 1, 1))
    cluster.run()
    return app, job


def versions(job: Any) -> list[int | None]:
    assert job.status is JobStatus.FINISHED, job.failure
    found: list[int | None] = job.writers["out"].table().sort_by("n")["version"].to_pylist()
    return found


def test_a_change_is_seen_when_a_batch_comes_and_the_last_read_is_as_old_as_the_interval() -> None:
    """The first read was that of the declaration."""
    _, job = joined(Versions(), rows_in_time(0, 300, 990, 1_200, 2_100, 8_000, 8_100))
    assert versions(job) == [2, 2, 2, 3, 3, 4, 4]


def test_a_read_that_fails_leaves_the_rows_until_the_next_is_due() -> None:
    _, job = joined(Versions({3: unreadable}), rows_in_time(0, 1_500, 2_000, 2_600))
    assert versions(job) == [2, 2, 2, 4]


def test_the_first_read_and_other_columns_fail_the_job() -> None:
    _, job = joined(Versions({2: unreadable}), rows_in_time(0))
    assert job.status is JobStatus.FAILED
    assert "table 'names' cannot be read: its function raised OSError: the disk is away" in job.failure.fact
    _, job = joined(Versions({3: lambda: pa.table({"id": ["1"], "version": [3]})}), rows_in_time(0, 2_000))
    assert job.status is JobStatus.FAILED
    assert "table 'names' has other columns than when it was declared: id string, version int64" in job.failure.fact


def test_files_are_read_again(tmp_path: Path) -> None:
    def write(names: list[str]) -> None:
        pq.write_table(pa.table({"id": range(len(names)), "name": names}), tmp_path / "new")
        (tmp_path / "new").rename(tmp_path / "names.parquet")

    write(["zero"])
    app = App("app")
    stream = app.source("in", sources.memory([], SCHEMA))
    table = app.table("names", tmp_path / "names.parquet", refresh="10 s")
    stream.join(table, "id", name="joined").sink(sinks.collect(), name="out")
    function = lowered(app.plan(), "app", 2, 10).functions["joined"].function
    assert isinstance(function, RefreshedTableJoin)
    ctx = Context("app", "joined", 0, 1, {"out": app.stream("joined").schema})

    def names(now_ns: int) -> list[str]:
        ctx.now_ns = now_ns
        function.process(pa.RecordBatch.from_pylist([{"n": n, "id": n} for n in range(3)], stream.schema), ctx)
        sent, ctx.sent = ctx.sent, []
        return [name for _, batch in sent for name in batch.column("name").to_pylist()]

    assert names(5 * SECOND) == ["zero"]
    write(["null", "eins"])
    assert names(15 * SECOND - 1) == ["zero"]
    assert names(15 * SECOND) == ["null", "eins"]
    (tmp_path / "names.parquet").unlink()
    assert names(25 * SECOND) == ["null", "eins"]
    assert ctx.counts == {"table_reads": 2, "table_reads_failed": 1}


def writes(directory: Path, version: int) -> None:
    """Begins to replace the files of a table, one after the other."""
    for number in range(3):
        part = directory / f"{number}.parquet"
        pq.write_table(pa.table({"id": [number], "version": [version]}), part.with_suffix(".new"))
        part.with_suffix(".new").rename(part)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    found = tmp_path / "table"
    found.mkdir()
    writes(found, 1)
    return found


def test_files_that_are_replaced_while_they_are_read_are_not_a_table(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer replaces one file of three in the middle of a read, before or after the reader has come to it."""
    real = table_files.ds.dataset

    class Slow:
        """A dataset that is read while a writer is at work."""

        def __init__(self, path: str, **options: Any) -> None:
            self._found = real(path, **options)

        def to_table(self) -> pa.Table:
            pq.write_table(pa.table({"id": [1], "version": [2]}), directory / "1.parquet")
            return self._found.to_table()

    reader = rereading("names", directory, pa.schema({"id": pa.int64(), "version": pa.int64()}))
    monkeypatch.setattr(table_files.ds, "dataset", Slow)
    with pytest.raises(SourceError, match="'names' was replaced while it was read"):
        reader.read()
    monkeypatch.setattr(table_files.ds, "dataset", real)
    assert sorted(reader.read()["version"].to_pylist()) == [1, 1, 2]  # A writer that rests cannot be told from none ...
    writes(directory, 2)
    (directory / "_temporary").mkdir()
    with pytest.raises(SourceError, match="'names' is being written"):
        reader.read()  # ... but one of Spark's can.
    (directory / "_temporary").rmdir()
    assert reader.read()["version"].to_pylist() == [2, 2, 2]
    for part in directory.glob("*.parquet"):
        part.unlink()
    with pytest.raises(SourceError, match="has no files"):
        reader.read()


def half_refreshed(job: Any) -> list[int]:
    """Returns the numbers of the rows whose matches are of several versions of the table, or are not all there."""
    matches: dict[int, list[int]] = {}
    for row in job.writers["out"].table().to_pylist():
        matches.setdefault(row["n"], []).append(row["version"])
    return [n for n, found in matches.items() if len(set(found)) > 1 or len(found) != MATCHES]


MATCHES = 50


def whole_versions() -> Callable[[], pa.Table]:
    """Returns a table that is another one at each read: as many rows of one key, all of one version."""
    reads = iter(range(10**6))

    def read() -> pa.Table:
        return pa.table({"id": [1] * MATCHES, "version": [next(reads)] * MATCHES})

    return read


@pytest.mark.parametrize("seed", range(3))
def test_no_row_is_joined_with_a_table_that_is_half_refreshed(seed: int) -> None:
    """Three partitions in two workers join with a table of a new version at each read, which is due at every batch."""
    job = refreshed_all_the_time(seed)
    assert half_refreshed(job) == []
    assert len(set(job.writers["out"].table()["version"].to_pylist())) > 10


def test_the_check_notices_a_join_that_takes_another_table_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: half of the matches are looked up before the table is read again, and half after it."""

    def process(self: RefreshedTableJoin, batch: pa.RecordBatch, ctx: Context) -> None:
        for half in (0, 1):
            self.latest.refresh(ctx.now_ns + half * 2 * SECOND)
            for rows in self.latest.join(batch):
                ctx.send(rows.take(pa.array(range(half, rows.num_rows, 2))))

    monkeypatch.setattr(RefreshedTableJoin, "process", process)
    assert half_refreshed(refreshed_all_the_time(0))


def refreshed_all_the_time(seed: int) -> Any:
    app = App("app")
    rows = [{"n": n, "id": 1} for n in range(60)]
    stream = app.source("in", MemorySource(rows, SCHEMA, batch_rows=2), parallelism=3)
    table = app.table("names", whole_versions(), refresh="0.001 ms")
    stream.join(table, "id", name="joined").sink(sinks.collect(), name="out")
    cluster = SimulatedCluster(2, seed=seed)
    job = cluster.submit(lowered(app.plan(), "app", 3, 2))
    cluster.run()
    assert job.status is JobStatus.FINISHED, job.failure
    return job


def test_what_cannot_be_refreshed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("app")
    stream = app.source("in", sources.memory([], SCHEMA))
    with pytest.raises(PlanError, match=r"'names' cannot be refreshed: a Table is read once"):
        app.table("names", pa.table({"id": [1]}), refresh="1 s")
    with pytest.raises(PlanError, match="refresh of table 'names'"):
        app.table("names", Versions(), refresh=0)
    with pytest.raises(SourceError, match="'names' cannot be read: its function raised"):
        app.table("names", unreadable)
    with pytest.raises(PlanError, match=r"table 'names' has no rows .*its function returned \[1, 2\]"):
        app.table("names", lambda: [1, 2])
    table = app.table("names", Versions(), refresh="1 s")
    with pytest.raises(PlanError, match="cannot be with table 'names': the table is refreshed, and rows"):
        stream.key_by("id").aggregate(m="count(*)").join(table, "id")
    monkeypatch.setattr(tables, "TABLE_BYTES_MAX", 10)
    assert table.refresh is not None
    with pytest.raises(PlanError, match="'names' is too large"):
        table.refresh.reader.read()


def test_micro_batches_and_explain_know_it() -> None:
    app, _ = joined(Versions(), rows_in_time(0))
    assert unsupported(app.plan(), streaming=False) is None
    assert "table 'names' of 'joined' is refreshed" in (unsupported(app.plan(), streaming=True) or "")
    assert "with table 'names' (read again every 1 s)" in explained(app, workers=1, trigger_s=None)
