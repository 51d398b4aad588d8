"""A driver that is paused for longer than it may be silent: its workers wait for it, and its job continues."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

WORKERS = 2
EVENTS = 10_000
LOST_AFTER_S, DRIVER_SILENCE_S = 8, 9
"""The pause ends when workers have noticed it, which is after the driver could take them for lost. Both are long enough
for heartbeats on a loaded machine."""

DRIVER = """
import json, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from stretto import App, Cluster, sinks
from stretto.bench.gates import Gate
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.source import NexmarkSource

workers, events, lost_after_s, silence_s = map(int, sys.argv[1:5])
gate = Gate(Path(sys.argv[5]), 0.5)
builder = SparkSession.builder.master(f"local[{workers + 1}]")
for key in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
    builder = builder.config(key, "false")
spark = builder.getOrCreate()
app = App("paused", engine="actors", parallelism=workers, batch_rows=100)
source = NexmarkSource("bid", NexmarkConfig(events=events), None, ["auction"], block=100)
app.source("bids", gate.before(source)).sink(sinks.collect())
with Cluster.on_spark(
    spark, workers=workers, lost_after=f"{lost_after_s} s", driver_silence=f"{silence_s} s"
) as cluster:
    job = cluster.submit(app)
    while not job.metrics().rows_out:
        time.sleep(0.02)
    print("running", flush=True)
    job.wait()
    names = sorted(worker.name for worker in cluster.workers)
    print(json.dumps({"rows": job.results().num_rows, "workers": names}), flush=True)
"""


def test_a_paused_driver_keeps_its_workers_and_its_job(tmp_path: Path, eventually: Callable[..., object]) -> None:
    """The job has no checkpoints, so it would fail if one worker left or counted as lost."""
    out, err, gate = tmp_path / "out", tmp_path / "err", tmp_path / "gate"
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with out.open("w") as stdout, err.open("w") as stderr:
        figures = map(str, (WORKERS, EVENTS, LOST_AFTER_S, DRIVER_SILENCE_S))
        driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, *figures, str(gate)], stdout=stdout, stderr=stderr, env=environment
        )
    try:
        eventually(lambda: out.read_text() or driver.poll() is not None, what="the start of the driver")
        driver.send_signal(signal.SIGSTOP)
        # Each worker says so when the driver has been silent for too long.
        eventually(lambda: err.read_text().count("waits: the driver is paused") >= WORKERS, what="the workers' notice")
        driver.send_signal(signal.SIGCONT)
        gate.unlink()
        eventually(lambda: driver.poll() is not None, what="the end of the driver")
    finally:
        driver.kill()
        driver.wait()
    assert driver.returncode == 0, err.read_text()[-3000:]
    found = json.loads(out.read_text().splitlines()[-1])
    assert found == {"rows": EVENTS * 46 // 50, "workers": ["w0~1", "w1~1"]}
