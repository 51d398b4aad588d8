"""A NEXMark query under a driver of its own, `stretto run`, that can be killed and started again.

`app` is what that process runs; it finds its settings in the directory that an environment variable names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from stretto import sinks
from stretto.actors.source import Source
from stretto.api.app import App
from stretto.bench.gates import GatedSource
from stretto.bench.nexmark.queries import Workload, build
from stretto.bench.standalone import kill_tree
from stretto.errors import ClusterError, StrettoError
from stretto.protocol.control import AskScale, AskStatus, Status
from stretto.runtime.control_socket import Running, ask, the_driver
from stretto.runtime.storage import store_at

DIRECTORY = "STRETTO_DRIVEN"
WORKERS = 2
POLL_S = 0.02
ASK_S = 30.0
END_S = 30.0
"""How long the processes of a killed driver have to end by themselves."""


@dataclass(frozen=True)
class _Held:
    """The gate in a file that another process has made."""

    path: Path

    def before(self, source: Source) -> GatedSource:
        return GatedSource(source, self.path)


def app() -> App:
    """Returns the query of the directory in the environment."""
    directory = Path(os.environ[DIRECTORY])
    asked = json.loads((directory / "asked.json").read_text())
    base = Workload()
    workload = replace(
        base,
        config=replace(base.config, events=asked["events"], seed=asked["seed"]),
        rate=asked["rate"],
        parallelism=WORKERS,
        gate=_Held(directory / "gate"),
        sink=lambda: sinks.parquet(directory / "out"),
    )
    return build(asked["query"], workload)


class Driven:
    """The drivers of one query, one after the other, with the same checkpoints. At the end of a `with` block nothing
    of them runs any more."""

    def __init__(self, query: str, workload: Workload, directory: Path, every: str = "500 ms") -> None:
        asked = {
            "query": query,
            "events": workload.config.events,
            "seed": workload.config.seed,
            "rate": workload.rate,
        }
        (directory / "asked.json").write_text(json.dumps(asked))
        self._directory = directory
        self._every = every
        self._program: subprocess.Popen[bytes] | None = None
        self._started: list[psutil.Process] = []

    def __enter__(self) -> Driven:
        return self

    def __exit__(self, *raised: object) -> None:
        self.kill()
        _, alive = psutil.wait_procs(self._started, END_S)
        for process in alive:
            kill_tree(process.pid)

    def start(self) -> None:
        """Starts a driver, which resumes from the last checkpoint."""
        command = [sys.executable, "-m", "stretto", "run", f"{__name__}:app", "--json", "--elasticity", "off"]
        command += ["--workers", str(WORKERS), "--checkpoint", str(self._checkpoints), "--every", self._every]
        environment = {**os.environ, DIRECTORY: str(self._directory)}
        with self._log.open("wb") as log, (self._directory / "report").open("wb") as told:
            self._program = subprocess.Popen(command, stdout=told, stderr=log, env=environment)

    def add_worker(self) -> threading.Event:
        """Has the driver add a worker, and returns when it has begun; the event says that the worker has joined."""
        running, joined = self._running(), threading.Event()

        def add() -> None:
            with suppress(StrettoError):  # The driver is killed meanwhile.
                ask(running.path, AskScale(add=1), None)
                joined.set()

        threading.Thread(target=add, name="stretto-add", daemon=True).start()
        self._await(lambda: joined.is_set() or self._workers_wanted(running) > WORKERS)
        return joined

    def kill(self) -> None:
        """Kills the driver's process. Its JVM and its workers end by themselves."""
        program, self._program = self._program, None
        if program is None:
            return
        with suppress(psutil.NoSuchProcess):
            self._started += psutil.Process(program.pid).children(recursive=True)
        program.kill()
        program.wait()

    def finish(self, timeout_s: float) -> pa.Table:
        """Runs the query to its end under another driver, and returns all rows that were published."""
        self.start()
        assert self._program is not None
        try:
            code = self._program.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise self._failed(f"it did not end in {timeout_s:g} s") from None
        if code:
            raise self._failed(f"its exit code is {code}")
        return pq.read_table(self._directory / "out")

    def last_checkpoint(self) -> tuple[int, int]:
        """Returns the owner and the number of the last complete checkpoint; zeros if there is none."""
        complete = store_at(str(self._checkpoints)).manifests()[0] if self._checkpoints.exists() else []
        return (complete[-1].owner, complete[-1].checkpoint) if complete else (0, 0)

    def check_runs(self) -> None:
        """Raises an error if the driver has ended."""
        if self._program is None or self._program.poll() is not None:
            raise self._failed("it has ended")

    @property
    def _checkpoints(self) -> Path:
        return self._directory / "checkpoints"

    @property
    def _log(self) -> Path:
        return self._directory / "log"

    def _failed(self, detail: str) -> ClusterError:
        last = self._log.read_text(errors="replace").strip().splitlines()[-5:]
        return ClusterError("a driver failed", "\n".join([detail, *last]))

    def _running(self) -> Running:
        assert self._program is not None
        return the_driver(pid=self._program.pid)

    def _workers_wanted(self, running: Running) -> int:
        status = ask(running.path, AskStatus(), ASK_S)
        return status.workers_wanted if isinstance(status, Status) else 0

    def _await(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.check_runs()
            time.sleep(POLL_S)
