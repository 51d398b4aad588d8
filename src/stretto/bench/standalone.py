"""Starts a standalone Spark cluster on this machine: a master and workers, each its own process, for the time of a
`with` block. Killing a worker's process tree simulates the loss of a machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from pyspark.find_spark_home import _find_spark_home

from stretto.errors import ClusterError

STARTED_WITHIN_S = 300.0
POLL_S = 0.05
WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
MASTER_CLASS = "org.apache.spark.deploy.master.Master"


@contextmanager
def standalone_cluster(workers: int, slots: int, memory: str = "1g") -> Iterator[str]:
    """Starts `workers` Spark workers with `slots` slots each; yields the master's URL."""
    started: list[_Process] = []
    with _own_environment(), tempfile.TemporaryDirectory(prefix="stretto-standalone-") as directory:
        try:
            place = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            master = _Process(Path(directory) / "master.log", [MASTER_CLASS, *place])
            started.append(master)
            url = master.wait_for_line(r"Starting Spark master at (spark://\S+)")
            for number in range(workers):
                room = ["--cores", str(slots), "--memory", memory, "--work-dir", f"{directory}/work{number}"]
                log = Path(directory) / f"worker{number}.log"
                started.append(_Process(log, [WORKER_CLASS, *place, *room, url]))
            for worker in started[1:]:
                worker.wait_for_line(r"(Successfully registered with master)")
            yield url
        finally:
            for process in reversed(started):
                process.end()


@contextmanager
def _own_environment() -> Iterator[None]:
    """Has sessions of this block run their tasks under this interpreter, at the loopback address."""
    added = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    missing = [name for name in added if name not in os.environ]
    os.environ.update({name: added[name] for name in missing})
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


class _Process:
    """A process of the cluster, with its log."""

    def __init__(self, log: Path, command: list[str]) -> None:
        self._log = log
        self._command = command
        with open(log, "wb") as output:
            self._process = subprocess.Popen(
                [f"{_find_spark_home()}/bin/spark-class", *command],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def end(self) -> None:
        kill_tree(self._process.pid)
        self._process.wait()

    def wait_for_line(self, pattern: str) -> str:
        """Wait until the log matches a pattern; returns its first group."""
        deadline = time.monotonic() + STARTED_WITHIN_S
        while time.monotonic() < deadline and self._process.poll() is None:
            found = re.search(pattern, self._log.read_text(errors="replace"))
            if found is not None:
                return found[1]
            time.sleep(POLL_S)
        last = self._log.read_text(errors="replace").splitlines()[-3:]
        raise ClusterError(f"{self._command[0]} did not start", " / ".join(last))


def kill_tree(pid: int) -> None:
    """SIGKILL a process and all its descendants."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)


def spark_worker_of(pid: int) -> int | None:
    """Returns the process id of the standalone Spark worker that a process belongs to, if any."""
    for parent in psutil.Process(pid).parents():
        if WORKER_CLASS in parent.cmdline():
            return int(parent.pid)
    return None
