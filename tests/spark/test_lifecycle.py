"""However a cluster ends, nothing is left of it: no thread, no process, no open port, no file, no memory.

Drivers that are killed run in their own processes, all started first, because a Spark session takes seconds to start.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto import App, Cluster, Job, UserError, sinks
from stretto.bench.gates import Gate
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.generator import generate
from stretto.bench.nexmark.source import NexmarkSource
from stretto.coordinator.events import Event, WorkerExpected
from stretto.coordinator.records import JobStatus
from stretto.errors import ClusterError
from stretto.protocol.membership import COORDINATOR, Member
from stretto.runtime import cluster as cluster_module
from stretto.runtime.coordinator_loop import CoordinatorLoop
from stretto.runtime.hosting import slots_of

Eventually = Callable[..., Any]


def bids(
    name: str, events: int | None, rate: float | None = None, parallelism: int = 1, gate: Gate | None = None
) -> App:
    app = App(name, engine="actors", parallelism=parallelism, batch_rows=100)
    source = NexmarkSource("bid", NexmarkConfig(events=events), rate, ["auction"], block=100)
    app.source("bids", source if gate is None else gate.before(source)).sink(sinks.collect(), name="out")
    return app


def expected_auctions(events: int) -> Counter[int]:
    return Counter(generate(NexmarkConfig(), "bid", 0, events, ["auction"]).column("auction").to_pylist())


def auctions(job: Job) -> Counter[int]:
    return Counter(job.results("out").column("auction").to_pylist())


def alive(pid: int, created_s: float) -> bool:
    """Whether this process still runs; a zombie does not."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - created_s) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def running_threads() -> list[str]:
    """Returns the names of stretto's threads in this process."""
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("stretto-"))


def listening(worker: Member) -> bool:
    host, port = worker.endpoint.removeprefix("tcp://").split(":")
    with socket.socket() as probe:
        probe.settimeout(WAIT_S)
        return probe.connect_ex((host, int(port))) == 0


# Intended ends.


def test_tasks_run_under_this_interpreter_and_import_pyspark_with_its_bytecode(spark: SparkSession) -> None:
    def look(_: Any) -> list[tuple[str, str]]:
        import pyspark

        return [(sys.prefix, str(pyspark.__file__))]

    ((prefix, found),) = spark.sparkContext.parallelize([0], 1).flatMap(look).collect()
    assert prefix == sys.prefix
    assert ".zip" not in found


def test_close_may_be_called_twice_and_nothing_works_afterwards(spark: SparkSession) -> None:
    cluster = Cluster.on_spark(spark, workers=1)
    job = cluster.submit(bids("done", 1_000)).wait(WAIT_S)
    workers = cluster.workers
    cluster.close()
    cluster.close()
    assert running_threads() == []
    assert not any(listening(worker) for worker in workers)
    assert auctions(job) == expected_auctions(1_000), "results outlive the cluster"
    assert job.stop().status is JobStatus.FINISHED
    with pytest.raises(ClusterError, match=rf"cluster {cluster.id} is closed"):
        cluster.submit(bids("late", 10))
    assert "closed" in repr(cluster)


def test_an_exception_in_the_block_passes_through_and_all_is_ended(spark: SparkSession) -> None:
    seen: list[Any] = []

    def fail() -> None:
        with Cluster.on_spark(spark, workers=1) as cluster:
            seen.extend([cluster.workers, cluster.submit(bids("endless", None, rate=1_000.0))])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    workers, job = seen
    assert job.status is JobStatus.STOPPED
    assert running_threads() == []
    assert not any(listening(worker) for worker in workers)


def test_closing_stops_what_runs(
    spark: SparkSession, eventually: Eventually, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cluster_module, "LEAVE_TIMEOUT_S", WAIT_S)
    with Cluster.on_spark(spark, workers=2) as cluster:
        paced = cluster.submit(bids("paced", None, rate=1_000.0, parallelism=2))
        full_speed = cluster.submit(bids("full-speed", None, parallelism=2))
        for job in (paced, full_speed):
            eventually(lambda job=job: job.updates("out").num_rows)
        code = cluster._code.directory
        assert len(list(code.iterdir())) == 2
    assert "did not leave" not in caplog.text, "workers left by themselves"
    assert {paced.wait(0).status, full_speed.wait(0).status} == {JobStatus.STOPPED}
    assert running_threads() == []
    assert not code.exists()


def test_closing_ends_a_worker_whose_function_blocks(
    spark: SparkSession, eventually: Eventually, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cluster_module, "LEAVE_TIMEOUT_S", 1.0)
    blocked = tmp_path / "blocked"

    def block(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows:
            blocked.touch()
            time.sleep(600)
        return batch

    cluster = Cluster.on_spark(spark, workers=1)
    process = psutil.Process(cluster.workers[0].pid)
    created_s = process.create_time()
    app = App("stuck", engine="actors")
    source = NexmarkSource("bid", NexmarkConfig(events=None), None, ["auction"])
    app.source("bids", source).map(block).sink(sinks.collect(), name="out")
    job = cluster.submit(app)
    eventually(blocked.exists)
    cluster.close()
    eventually(lambda: not alive(process.pid, created_s), what="the end of the blocked process")
    eventually(lambda: running_threads() == [])
    assert job.status is JobStatus.STOPPED


def test_closing_does_not_wait_for_a_callback_that_blocks(
    spark: SparkSession, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread cannot be killed; it ends when the callback returns."""
    monkeypatch.setattr(cluster_module, "LEAVE_TIMEOUT_S", 1.0)
    called, release, returned = threading.Event(), threading.Event(), threading.Event()

    def block(batch: pa.RecordBatch) -> None:
        called.set()
        release.wait(WAIT_S)
        returned.set()

    app = App("stuck", engine="actors")
    app.source("bids", NexmarkSource("bid", NexmarkConfig(events=100))).sink(sinks.callback(block))
    cluster = Cluster.on_spark(spark, workers=1)
    cluster.submit(app)
    assert called.wait(WAIT_S)
    cluster.close()
    assert not returned.is_set()
    release.set()
    eventually(lambda: running_threads() == [])


def test_a_cluster_without_a_slot_is_refused_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> None:
    """A Spark job of somebody else holds all slots but one."""
    context = spark.sparkContext
    others = slots_of(spark) - 1

    def hold(_: int) -> None:
        (tmp_path / f"held-{os.getpid()}").touch()
        while not (tmp_path / "enough").exists():
            time.sleep(0.02)

    holding = threading.Thread(target=context.parallelize(range(others), others).foreach, args=(hold,))
    holding.start()
    try:
        eventually(lambda: len(list(tmp_path.glob("held-*"))) == others, what="tasks that hold slots")
        with pytest.raises(
            ClusterError, match=r"only [01] of 2 workers joined within 3 s: Spark has had no slot for w"
        ):
            Cluster.on_spark(spark, workers=2, start_timeout=3)
    finally:
        (tmp_path / "enough").touch()
        holding.join()
    assert running_threads() == []
    eventually(lambda: context.statusTracker().getActiveJobsIds() == [], what="the end of all jobs")


def test_a_cluster_beside_others_that_hold_the_slots_is_refused_at_once(spark: SparkSession) -> None:
    slots = slots_of(spark)
    with (
        Cluster.on_spark(spark, workers=2),
        pytest.raises(ClusterError, match=f"{slots - 1} workers were asked for, and {slots - 2} of Spark's {slots}"),
    ):
        Cluster.on_spark(spark, workers=slots - 1)
    assert running_threads() == []


def test_an_app_that_cannot_be_shipped_is_refused_without_effect_on_others(spark: SparkSession) -> None:
    lock = threading.Lock()

    def locked(batch: pa.RecordBatch) -> pa.RecordBatch:
        with lock:
            return batch

    app = App("locked", engine="actors")
    source = NexmarkSource("bid", NexmarkConfig(events=100), None, ["auction"])
    app.source("bids", source).map(locked).sink(sinks.collect(), name="out")
    with Cluster.on_spark(spark, workers=1) as cluster:
        with pytest.raises(UserError, match="app 'locked' cannot be shipped to the workers") as caught:
            cluster.submit(app)
        assert "lock" in str(caught.value)
        assert "make it inside the function, or in open()" in str(caught.value)
        job = cluster.submit(bids("next", 1_000)).wait(WAIT_S)
        assert auctions(job) == expected_auctions(1_000)


# Workers that are lost.


def home_of(cluster: Cluster, job: Job) -> Member:
    """The worker that runs the job's source."""
    name = cluster.observation.jobs[job.name].placement["bids"][0]
    return next(worker for worker in cluster.workers if worker.name == name)


def test_a_killed_worker_fails_its_jobs_and_no_others(
    spark: SparkSession, tmp_path: Path, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate(tmp_path / "gate", 0.5)
    with Cluster.on_spark(spark, workers=2) as cluster:
        doomed = cluster.submit(bids("doomed", None, rate=1_000.0))
        other = cluster.submit(bids("other", 6_000, rate=2_000.0, gate=gate))
        for job in (doomed, other):
            eventually(lambda job=job: job.updates("out").num_rows)
        killed, spared = home_of(cluster, doomed), home_of(cluster, other)
        assert killed.name != spared.name
        os.kill(killed.pid, signal.SIGKILL)
        with pytest.raises(ClusterError, match=f"worker {killed.name} was lost while it ran job 'doomed'") as caught:
            doomed.wait(WAIT_S)
        assert "its process was killed by SIGKILL" in str(caught.value)
        assert "Submit the job again" in str(caught.value)
        assert doomed.status is JobStatus.FAILED
        assert f"worker {killed.name} ended" in caplog.text

        gate.open()
        again = cluster.submit(bids("again", 2_000, parallelism=2))
        assert auctions(again.wait(WAIT_S)) == expected_auctions(2_000)
        assert auctions(other.wait(WAIT_S)) == expected_auctions(6_000)
        # Another one has replaced it.
        replaced = killed.name.replace("~1", "~2")
        eventually(lambda: sorted(worker.name for worker in cluster.workers) == sorted([spared.name, replaced]))
        last = cluster.submit(bids("last", 2_000, parallelism=2))
        assert auctions(last.wait(WAIT_S)) == expected_auctions(2_000)
    assert running_threads() == []


def test_a_job_that_is_submitted_while_the_only_worker_is_replaced_waits_for_it(
    spark: SparkSession, eventually: Eventually
) -> None:
    with Cluster.on_spark(spark, workers=1) as cluster:
        os.kill(cluster.workers[0].pid, signal.SIGKILL)
        at_once = cluster.submit(bids("at-once", 1_000))
        eventually(lambda: "w0~1" not in [worker.name for worker in cluster.workers])
        later = cluster.submit(bids("later", 1_000))
        for job in (at_once, later):
            assert auctions(job.wait(WAIT_S)) == expected_auctions(1_000)
            assert job.waits_for is None


def test_a_worker_that_falls_silent_is_fenced_when_it_comes_back(spark: SparkSession, eventually: Eventually) -> None:
    """A stopped process is as silent as a lost machine. Frames that it sends afterwards are refused, and it leaves."""
    with Cluster.on_spark(spark, workers=2, lost_after="4 s") as cluster:
        doomed = cluster.submit(bids("doomed", None, rate=1_000.0))
        eventually(lambda: doomed.updates("out").num_rows)
        silent = home_of(cluster, doomed)
        created_s = psutil.Process(silent.pid).create_time()
        os.kill(silent.pid, signal.SIGSTOP)
        try:
            with pytest.raises(ClusterError, match=f"worker {silent.name} was lost.*it sent nothing for"):
                doomed.wait(WAIT_S)
            refused = cluster.refused["coordinator"]
        finally:
            os.kill(silent.pid, signal.SIGCONT)  # Soon, because Spark kills the process of a cancelled task.
        job = cluster.submit(bids("next", 1_000))
        assert auctions(job.wait(WAIT_S)) == expected_auctions(1_000)
        eventually(lambda: cluster.refused["coordinator"] > refused, what="the refusal of what it still sends")
        assert silent.name not in [worker.name for worker in cluster.workers]
        eventually(lambda: not alive(silent.pid, created_s), what="the end of the fenced process")
        eventually(lambda: silent.name in cluster._ended)


PULSE = """
import sys
from stretto.runtime import worker_process
from stretto.runtime.keys import KeyPair
from stretto.runtime.run_note import RunNote
import os, threading
settings = worker_process.WorkerSettings(
    "c", "w0~1", KeyPair.new(), "tcp://127.0.0.1:9", KeyPair.new().public, "", driver_silence_s=0.5
)
parent = os.getppid() + int(sys.argv[1])
worker_process._pulse(settings, threading.Event(), parent, RunNote())
"""


@pytest.mark.parametrize("other_parent", [0, 1], ids=["the driver is silent", "the parent is another"])
def test_a_worker_whose_driver_is_gone_leaves(other_parent: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PULSE, str(other_parent)], timeout=WAIT_S, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "w0~1 leaves: the driver has been gone" in ended.stderr


# Drivers that are killed.

DRIVER = """
import json, sys, time
from pathlib import Path
import psutil
from pyspark.sql import SparkSession
from stretto import App, Cluster, sinks
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.source import NexmarkSource

def endless(name):
    app = App(name, engine="actors", batch_rows=100)
    return app, app.source("bids", NexmarkSource("bid", NexmarkConfig(), 1000.0, ["auction"]))

begun = Path(__file__).with_name("begun")

def stuck(batch):
    if batch.num_rows:
        begun.touch()
        time.sleep(600)
    return batch

builder = SparkSession.builder.master(sys.argv[1])
for key in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
    builder = builder.config(key, "false")
spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.executor.memory", "512m").getOrCreate()
with Cluster.on_spark(spark, workers=2) as cluster:
    app, bids = endless("endless")
    bids.sink(sinks.null())
    job = cluster.submit(app)
    while not job.metrics().rows_in:
        time.sleep(0.05)
    if sys.argv[2] == "stuck":  # Not before: its function would keep the workers from the first job.
        app, bids = endless("stuck")
        bids.map(stuck).sink(sinks.null())
        cluster.submit(app)
        while not begun.exists():
            time.sleep(0.05)
    processes = {process.pid: process.create_time() for process in psutil.Process().children(recursive=True)}
    workers = [worker.pid for worker in cluster.workers]
    assert processes.keys() >= set(workers)
    print(json.dumps({"processes": processes, "workers": workers, "code": str(cluster._code.directory)}), flush=True)
    job.wait()
"""


class Driver:
    """A driver in its own process, with everything that it started."""

    def __init__(self, directory: Path, master: str, mood: str) -> None:
        directory.mkdir()
        script = directory / "driver.py"
        script.write_text(DRIVER)
        self._out, self._err = directory / "out", directory / "err"
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        environment["TMPDIR"] = str(directory)
        with self._out.open("w") as out, self._err.open("w") as err:
            # In its own session: Ctrl-C then reaches only this driver and what it started.
            self.process = subprocess.Popen(
                [sys.executable, str(script), master, mood],
                stdout=out,
                stderr=err,
                env=environment,
                start_new_session=True,
            )

    def started(self) -> dict[str, Any] | None:
        """Returns what it has started, once it runs."""
        assert self.process.poll() is None, f"the driver ended by itself:\n{self._err.read_text()[-3000:]}"
        text = self._out.read_text()
        return json.loads(text) if text.endswith("\n") else None

    def errors(self) -> str:
        return self._err.read_text()

    def clean_up(self) -> None:
        """Ends what is left after a failed test."""
        started = self._out.read_text()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pid, created_s in json.loads(started)["processes"].items() if started.endswith("\n") else ():
            if alive(int(pid), created_s):
                os.kill(int(pid), signal.SIGKILL)


DRIVERS = {
    "kill -9": ("local[3]", "stuck"),
    "kill": ("local[3]", "well"),
    "Ctrl-C": ("local[3]", "well"),
    "kill -9 with executors": ("local-cluster[2,1,512]", "stuck"),
}


# For all tests of the module, so that they start while others wait.
@pytest.fixture(scope="module", autouse=True)
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Driver]]:
    directory = tmp_path_factory.mktemp("drivers")
    made = {name: Driver(directory / name.replace(" ", "-"), *how) for name, how in DRIVERS.items()}
    yield made
    for driver in made.values():
        driver.clean_up()


@pytest.mark.parametrize("how", DRIVERS)
def test_nothing_outlives_a_driver_that_is_killed(drivers: dict[str, Driver], how: str, eventually: Eventually) -> None:
    driver = drivers[how]
    started = eventually(driver.started, what=f"the start of the driver for {how}")
    processes = {int(pid): created_s for pid, created_s in started["processes"].items()}
    assert len(processes) >= 4, "a JVM, a Python daemon and two workers"
    assert all(alive(pid, processes[pid]) for pid in started["workers"])
    if how == "Ctrl-C":
        os.killpg(driver.process.pid, signal.SIGINT)
    else:
        driver.process.send_signal(signal.SIGTERM if how == "kill" else signal.SIGKILL)
    assert driver.process.wait(WAIT_S) != 0
    eventually(
        lambda: not [pid for pid, created_s in processes.items() if alive(pid, created_s)],
        what=f"the end of all of {processes}",
    )
    if how == "Ctrl-C":
        assert "KeyboardInterrupt" in driver.errors()
        assert not Path(started["code"]).exists(), "an interrupted driver still tidies up"


# Ten in a row.

TEN_RUNS = """
import gc, json, tempfile, threading, time
from pathlib import Path
import psutil
import pyarrow as pa
from pyspark.sql import SparkSession
from stretto import App, Cluster, sinks, sources, tumbling
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.source import NexmarkSource
from stretto.runtime import cluster as cluster_module
from stretto.runtime.own_python import own_python

cluster_module.LEAVE_TIMEOUT_S = 600.0
me = psutil.Process()

def is_python(process):
    try:
        return "pyspark.daemon" in process.cmdline()
    except psutil.NoSuchProcess:  # Also a zombie: one of Spark's short-lived helpers has just ended.
        return False

def pythons():
    return [process.pid for process in me.children(recursive=True) if is_python(process)]

def run(spark):
    app = App("ten", engine="actors", parallelism=2)
    bids = app.source("bids", NexmarkSource("bid", NexmarkConfig(events=50_000)), time="dateTime")
    bids.key_by("auction").window(tumbling("1 second")).aggregate(n="count(*)").sink(sinks.collect(), name="out")
    with Cluster.on_spark(spark, workers=2) as cluster:
        rows = sum(cluster.submit(app).wait().results("out").column("n").to_pylist())
        pids = [worker.pid for worker in cluster.workers]
    gc.collect()
    pa.default_memory_pool().release_unused()
    open_ports = [c.laddr.port for pid in pids if psutil.pid_exists(pid)
                  for c in psutil.Process(pid).net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    return {
        "rows": rows, "ours": [thread.name for thread in threading.enumerate() if thread.name.startswith("stretto-")],
        "open_ports": open_ports,
        "threads": threading.active_count(), "fds": me.num_fds(), "rss": me.memory_info().rss,
        "objects": len(gc.get_objects()), "pythons": len(pythons()),
        "files": [path.name for path in Path(tempfile.gettempdir()).glob("stretto-*")
                  if path != Path(own_python()).parent],  # It goes with this process.
    }

builder = SparkSession.builder.master("local[3]")
for key in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
    builder = builder.config(key, "false")
spark = builder.getOrCreate()
runs = [run(spark) for _ in range(10)]
spark.stop()
deadline = time.monotonic() + 600
while pythons() and time.monotonic() < deadline:  # Spark signals them and does not wait for their end.
    time.sleep(0.05)
print(json.dumps({"runs": runs, "left": pythons()}), flush=True)
"""


def test_ten_runs_in_a_row_leave_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", TEN_RUNS], capture_output=True, text=True, env=environment, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    told = json.loads(ended.stdout.splitlines()[-1])
    runs = told["runs"]
    logging.getLogger(__name__).info("ten runs: %s", runs)
    assert [run["rows"] for run in runs] == [46_000] * 10
    for name in ("ours", "open_ports", "files"):
        assert [run[name] for run in runs] == [[]] * 10, name
    third, tenth = runs[2], runs[9]
    # Spark keeps its Python processes for the next task; their number must not grow with each run.
    for name in ("threads", "fds", "pythons"):
        assert tenth[name] <= third[name], (name, [run[name] for run in runs])
    assert tenth["objects"] < third["objects"] * 1.01, [run["objects"] for run in runs]
    assert tenth["rss"] < third["rss"] * 1.05, [run["rss"] for run in runs]
    assert told["left"] == [], "after spark.stop() no Python process is left"
    assert list(tmp_path.glob("stretto-*")) == [], "nor is a file after the process"


def test_a_busy_coordinator_refuses_no_worker(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused connection is not retried, so workers are admitted before they start."""
    handle = CoordinatorLoop._handle

    def slowly(self: CoordinatorLoop, event: Event) -> None:
        if isinstance(event, WorkerExpected):
            time.sleep(1.0)  # As slow as a loaded machine: the driver's own worker connects within this time.
        handle(self, event)

    monkeypatch.setattr(CoordinatorLoop, "_handle", slowly)
    with Cluster.on_spark(spark, workers=2) as cluster:
        assert len(cluster.workers) == 2
        assert cluster.refused[COORDINATOR] == 0
