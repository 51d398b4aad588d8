"""Checkpoints on real Spark: workers that are killed and hang, a driver that is killed, storage that fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto import App, Job, sinks, sources
from stretto.actors.source import Source
from stretto.bench.chaos import Chaos, Fault
from stretto.bench.chaos import run as run_chaos
from stretto.bench.gates import Gate
from stretto.checkpoints.manifest import Manifest
from stretto.coordinator.records import JobStatus
from stretto.errors import RemovedError, StorageError, UserError
from stretto.operators.windows import tumbling
from stretto.runtime.cluster import Cluster
from stretto.runtime.storage import store_at

ROWS = 30_000


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=2, parked=1, lost_after="5 s") as started:
        yield started


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """At first rows are read to the middle."""
    return Gate(tmp_path / "gate", 0.5)


def paced(directory: Path, seconds: float = 6.0) -> sources.FileSource:
    """Returns a source of rows in order of time, at a pace: on a fast machine they are still being read when a test
    interferes. On a slow one, the gate sees to that."""
    times = pa.array([i * 1_000 for i in range(ROWS)], pa.timestamp("us", tz="UTC"))
    table = pa.table({"k": [i % 7 for i in range(ROWS)], "v": list(range(ROWS)), "t": times})
    directory.mkdir(exist_ok=True)
    for part in range(2):
        pq.write_table(table.take(list(range(part, ROWS, 2))), directory / f"{part}.parquet")
    return sources.parquet(directory, time="t", speed=ROWS / 1_000 / seconds)


def totals(app: App, source: Source, sink: object) -> App:
    rows = app.source("rows", source, time="t")
    rows.key_by("k").window(tumbling("100 ms")).aggregate(n="count(*)", total="sum(v)").sink(sink, name="out")
    return app


def right() -> dict[tuple[int, int], tuple[int, int]]:
    answer: dict[tuple[int, int], tuple[int, int]] = {}
    for i in range(ROWS):
        n, total = answer.get((i % 7, i // 100), (0, 0))
        answer[i % 7, i // 100] = (n + 1, total + i)
    return answer


def found(table: pa.Table) -> dict[tuple[int, int], tuple[int, int]]:
    rows = table.to_pylist()
    answer = {(r["k"], int(r["window_start"].timestamp() * 10 + 0.5)): (r["n"], r["total"]) for r in rows}
    assert len(answer) == len(rows), "a row came twice"
    return answer


def checkpoints_in(directory: Path) -> list[Manifest]:
    return store_at(str(directory)).manifests()[0]


def read_and_checkpointed(job: Job, eventually: Callable[..., object], count: int = 2) -> None:
    """Waits for checkpoints that began when the sources had read something: from the second one from then on."""
    eventually(lambda: job.metrics().rows_in > 0, what="rows")
    known = len(job.checkpoints.complete)
    eventually(lambda: len(job.checkpoints.complete) >= known + count, what=f"{count} checkpoints")


def published(directory: Path) -> bool:
    return directory.exists() and any(not name.startswith(("_", ".")) for name in os.listdir(directory))


def kill_one(cluster: Cluster, how: signal.Signals) -> None:
    victim = sorted(cluster.busy_workers & {member.name for member in cluster.workers})[0]
    os.kill(next(member.pid for member in cluster.workers if member.name == victim), how)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_worker_changes_no_row(
    cluster: Cluster, tmp_path: Path, gate: Gate, eventually: Callable[..., object], how: signal.Signals
) -> None:
    app = totals(App("totals"), gate.before(paced(tmp_path / "in")), sinks.parquet(tmp_path / "out"))
    job = cluster.submit(app, engine="actors", checkpoint=tmp_path / "checkpoints", every="200 ms")
    eventually(lambda: published(tmp_path / "out"), what="rows in a complete checkpoint")
    kill_one(cluster, how)
    eventually(lambda: job.checkpoints.recoveries >= 1, what="a recovery")
    gate.open()
    job.wait(WAIT_S)
    assert found(pq.read_table(tmp_path / "out")) == right()
    assert not [name for name in os.listdir(tmp_path / "out") if name.startswith("_")]
    assert len(checkpoints_in(tmp_path / "checkpoints")) <= 3


def test_a_query_survives_chaos(spark: SparkSession, cluster: Cluster) -> None:
    report = run_chaos(spark, cluster, Chaos("q5", kills=3, rate=10_000, faults=(Fault.KILL, Fault.STOP)))
    assert report.match, report.complaint
    assert report.kills == 3
    assert report.recoveries >= 3


def test_a_callback_gets_no_row_twice(
    cluster: Cluster, tmp_path: Path, gate: Gate, eventually: Callable[..., object]
) -> None:
    got: list[pa.RecordBatch] = []
    app = totals(App("called"), gate.before(paced(tmp_path / "in")), sinks.callback(got.append))
    job = cluster.submit(app, engine="actors", checkpoint=tmp_path / "checkpoints", every="200 ms")
    eventually(lambda: got, what="a batch")
    kill_one(cluster, signal.SIGKILL)
    eventually(lambda: job.checkpoints.recoveries >= 1, what="a recovery")
    gate.open()
    job.wait(WAIT_S)
    assert found(pa.Table.from_batches(got)) == right()


def test_a_checkpoint_on_demand(cluster: Cluster, tmp_path: Path, gate: Gate) -> None:
    app = totals(App("asked"), gate.before(paced(tmp_path / "in", 3.0)), sinks.collect())
    job = cluster.submit(app, engine="actors", checkpoint=tmp_path / "checkpoints", every=None)
    checkpoint = job.checkpoint(WAIT_S)
    assert list(job.checkpoints.complete) == [checkpoint]
    gate.open()
    job.wait(WAIT_S)
    assert found(job.results()) == right()


def test_it_resumes_from_the_last_checkpoint_when_it_is_submitted_again(
    cluster: Cluster, tmp_path: Path, gate: Gate, eventually: Callable[..., object]
) -> None:
    source = gate.before(paced(tmp_path / "in"))
    where = {"checkpoint": tmp_path / "checkpoints", "every": "200 ms"}
    first = cluster.submit(totals(App("again"), source, sinks.parquet(tmp_path / "out")), engine="actors", **where)
    read_and_checkpointed(first, eventually)
    first.stop(timeout=WAIT_S)
    gate.open()
    second = cluster.submit(totals(App("again"), source, sinks.parquet(tmp_path / "out")), engine="actors", **where)
    second.wait(WAIT_S)
    assert second.metrics().rows_in < ROWS
    assert found(pq.read_table(tmp_path / "out")) == right()
    # Everything is done: the third run has nothing to do.
    third = cluster.submit(totals(App("again"), source, sinks.parquet(tmp_path / "out")), engine="actors", **where)
    third.wait(WAIT_S)
    assert found(pq.read_table(tmp_path / "out")) == right()


def test_a_savepoint_is_kept_and_resumed_from(
    cluster: Cluster, tmp_path: Path, gate: Gate, eventually: Callable[..., object]
) -> None:
    source = gate.before(paced(tmp_path / "in"))
    where = {"checkpoint": tmp_path / "c", "every": "200 ms"}
    first = cluster.submit(totals(App("saved"), source, sinks.parquet(tmp_path / "out")), engine="actors", **where)
    eventually(lambda: published(tmp_path / "out"), what="rows in a complete checkpoint")
    first.stop(savepoint="half way", timeout=WAIT_S)
    rows = pq.read_table(tmp_path / "out").num_rows
    assert 0 < rows < len(right())
    gate.open()
    for _ in range(2):  # The second run withdraws what the first one has published after the savepoint.
        again = cluster.submit(
            totals(App("saved"), source, sinks.parquet(tmp_path / "out")), engine="actors", start="half way", **where
        )
        again.wait(WAIT_S)
        assert found(pq.read_table(tmp_path / "out")) == right()
    with pytest.raises(StorageError, match="no savepoint 'other'"):
        cluster.submit(
            totals(App("saved"), source, sinks.parquet(tmp_path / "out")), engine="actors", start="other", **where
        )


def test_results_of_another_run_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    source = paced(tmp_path / "in", 0.5)
    app = totals(App("one"), source, sinks.parquet(tmp_path / "out"))
    cluster.submit(app, engine="actors", checkpoint=tmp_path / "one", every="200 ms").wait(WAIT_S)
    app = totals(App("two"), source, sinks.parquet(tmp_path / "out"))
    with pytest.raises(UserError, match="not empty"):
        cluster.submit(app, engine="actors", checkpoint=tmp_path / "two", every="200 ms")


def test_a_checkpoint_of_another_app_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    source = paced(tmp_path / "in", 0.5)
    app = totals(App("one"), source, sinks.collect())
    cluster.submit(app, engine="actors", checkpoint=tmp_path / "c", every="200 ms").wait(WAIT_S)
    other = App("other")
    other.source("rows", source, time="t").sink(sinks.collect(), name="out")
    with pytest.raises(StorageError, match="does not fit"):
        cluster.submit(other, engine="actors", checkpoint=tmp_path / "c")


def put_link(link: Path, to: Path) -> None:
    """Makes a link or points it elsewhere, at once: a process that makes missing directories does not come between."""
    link.with_suffix(".new").symlink_to(to)
    os.replace(link.with_suffix(".new"), link)


def test_storage_that_fails_fails_the_checkpoint_and_not_the_job(
    cluster: Cluster, tmp_path: Path, gate: Gate, eventually: Callable[..., object]
) -> None:
    app = totals(App("full"), gate.before(paced(tmp_path / "in", 4.0)), sinks.collect())
    data, disk, broken = (tmp_path / "c" / name for name in ("data", "disk", "broken"))
    disk.mkdir(parents=True)
    broken.write_text("a file where a directory should be")
    put_link(data, disk)
    job = cluster.submit(app, engine="actors", checkpoint=tmp_path / "c", every="100 ms")
    eventually(lambda: job.checkpoints.complete, what="a checkpoint")
    put_link(data, broken)
    eventually(lambda: job.checkpoints.failed, what="a checkpoint that failed")
    assert job.status is JobStatus.RUNNING
    put_link(data, disk)
    gate.open()
    job.wait(WAIT_S)
    assert found(job.results()) == right()


def test_a_damaged_checkpoint_is_reported_and_the_one_before_it_used(
    cluster: Cluster, tmp_path: Path, gate: Gate, eventually: Callable[..., object]
) -> None:
    source = gate.before(paced(tmp_path / "in"))
    where = {"checkpoint": tmp_path / "c", "every": None}
    first = cluster.submit(totals(App("flip"), source, sinks.parquet(tmp_path / "out")), engine="actors", **where)
    for share in (0.25, 0.5):  # The second checkpoint has files that the first one does not have.
        gate.allow(share)
        eventually(lambda share=share: first.metrics().rows_in >= share * ROWS, what=f"{share} of the rows")
        first.checkpoint(WAIT_S)
    first.stop(timeout=WAIT_S)
    gate.open()
    checkpoint = checkpoints_in(tmp_path / "c")[-1].checkpoint
    victim = next(path for path in (tmp_path / "c" / "data").rglob(f"{checkpoint:06d}/*.arrow"))
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    second = cluster.submit(totals(App("flip"), source, sinks.parquet(tmp_path / "out")), engine="actors", **where)
    second.wait(WAIT_S)
    assert "damaged" in second.checkpoints.failed[checkpoint]
    assert found(pq.read_table(tmp_path / "out")) == right()


def test_a_directory_that_was_removed_was_not_taken_over(
    cluster: Cluster, tmp_path: Path, eventually: Callable[..., object]
) -> None:
    app = totals(App("removed"), paced(tmp_path / "in", 60.0), sinks.collect())
    job = cluster.submit(app, engine="actors", checkpoint=tmp_path / "c", every="200 ms")
    eventually(lambda: job.checkpoints.complete, what="a checkpoint")
    (tmp_path / "c").rename(tmp_path / "moved")
    with pytest.raises(RemovedError, match="somebody has removed the checkpoints of job 'removed'"):
        job.wait(WAIT_S)


APP = """
import os
from pathlib import Path

from stretto import App, sinks, sources
from stretto.bench.gates import GatedSource
from stretto.operators.windows import tumbling

app = App("killed", parallelism=2)
speed = float(os.environ["SPEED"]) if "SPEED" in os.environ else None
source = GatedSource(sources.parquet({directory!r}, time="t", speed=speed), Path({gate!r}))
rows = app.source("rows", source, time="t")
counts = rows.key_by("k").window(tumbling("100 ms")).aggregate(n="count(*)", total="sum(v)")
counts.sink(sinks.parquet({out!r}), name="out")
"""


class Programs:
    """Starts the app as programs of their own, with the same checkpoint directory. None ends by itself before
    `finish`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.checkpoints = directory / "c"
        self.out = directory / "out"
        self._started: list[subprocess.Popen[str]] = []
        self._gate = Gate(directory / "gate", 0.9)
        paced(directory / "in")
        text = APP.format(directory=str(directory / "in"), out=str(self.out), gate=str(directory / "gate"))
        (directory / "killed_app.py").write_text(text)

    def start(self, every: str = "200 ms", pace: float | None = 0.1) -> subprocess.Popen[str]:
        """Without a pace, it reads as fast as it can."""
        environment = {**os.environ, **({} if pace is None else {"SPEED": str(pace)})}
        command = [sys.executable, "-m", "stretto", "run", "killed_app:app", "--checkpoint", str(self.checkpoints)]
        command += ["--every", every, "--json"]
        with self.errors_of(len(self._started)).open("w") as errors:
            program = subprocess.Popen(
                command, cwd=self._directory, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._started.append(program)
        return program

    def finish(self) -> dict[str, Any]:
        """Runs the app to its end, and returns what it reports."""
        self._gate.open()
        told: dict[str, Any] = json.loads(self.start(pace=None).communicate(timeout=WAIT_S)[0])
        assert told["status"] == "finished"
        return told

    def errors_of(self, number: int) -> Path:
        return self._directory / f"errors{number}"

    def kill_all(self) -> None:
        for program in self._started:
            program.kill()
            program.communicate()

    @property
    def taken(self) -> list[Manifest]:
        return checkpoints_in(self.checkpoints)

    @property
    def owners(self) -> set[int]:
        return {manifest.owner for manifest in self.taken}


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    made = Programs(tmp_path)
    yield made
    made.kill_all()


def test_a_killed_driver_resumes_when_it_is_started_again(
    programs: Programs, eventually: Callable[..., object]
) -> None:
    first = programs.start()
    eventually(lambda: len(programs.taken) >= 3, what="three checkpoints")
    first.kill()
    assert 0 < programs.finish()["metrics"]["functions"]["rows"]["rows_in"] < ROWS
    assert found(pq.read_table(programs.out)) == right()


def test_a_driver_that_wakes_up_after_it_was_replaced_changes_nothing(
    programs: Programs, eventually: Callable[..., object]
) -> None:
    """Checkpoints of it have failed before, so that its next one has a greater number than those of its successor."""
    first = programs.start()
    eventually(lambda: len(programs.taken) >= 3, what="three checkpoints")
    data = programs.checkpoints / "data"
    data.rename(programs.checkpoints / "moved")
    data.write_text("a file is in the way")
    eventually(lambda: programs.errors_of(0).read_text().count("cannot write") >= 3, what="checkpoints that failed")
    first.send_signal(signal.SIGSTOP)
    data.unlink()
    (programs.checkpoints / "moved").rename(data)
    before = programs.owners
    second = programs.start(every="2 s")
    eventually(lambda: programs.owners - before, what="a checkpoint of the second driver")
    second.kill()
    first.send_signal(signal.SIGCONT)
    first.communicate(timeout=WAIT_S)
    assert first.returncode != 0
    assert f"another driver has taken over the checkpoints of job 'killed': it is process {second.pid} on" in (
        programs.errors_of(0).read_text()
    )
    programs.finish()
    assert found(pq.read_table(programs.out)) == right()


def test_a_driver_that_ends_before_its_first_checkpoint_leaves_everything_to_resume_from(
    programs: Programs, eventually: Callable[..., object]
) -> None:
    first = programs.start(every="500 ms", pace=0.2)  # A window closes in each interval, so the sink has rows to seal.
    eventually(lambda: len(programs.taken) >= 3, what="three checkpoints")
    (lineage,) = os.listdir(programs.checkpoints / "lineage")
    # The second driver withdraws this when its sink resumes.
    mark = programs.out / f"_part-00000-{lineage}-000001-000001-e999999-00000-0.parquet"
    mark.touch()
    second = programs.start(every="10 minutes")
    eventually(lambda: not mark.exists(), what="the second driver's sink")
    second.kill()
    first.communicate(timeout=WAIT_S)
    assert f"it is process {second.pid} on" in programs.errors_of(0).read_text()
    programs.finish()
    assert found(pq.read_table(programs.out)) == right()
