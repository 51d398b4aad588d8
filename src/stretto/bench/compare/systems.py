"""A system under test: a process in its own environment that answers requests.

The process and its children are pinned to the same cores, and ended together. Its output is kept in a log.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from stretto.bench.compare.environments import Environment
from stretto.bench.compare.peers.talk import Task
from stretto.errors import StrettoError

STRETTO = "stretto"
PEERS = ("spark", "flink", "bytewax", "pathway")

START_TIMEOUT_S = 900.0
PREPARE_TIMEOUT_S = 900.0
ANSWER_TIMEOUT_S = 300.0
CHECK_TIMEOUT_S = 900.0
CLOSE_TIMEOUT_S = 15.0

_SCRIPTS = Path(__file__).with_name("peers")


class SystemFailed(StrettoError):
    """A system under test failed, or did not answer in time."""


class CannotExpress(Exception):
    """A system cannot express the query; the message says why."""


class System:
    """One running system. `cores` is the number of cores it can use."""

    def __init__(
        self, name: str, environment: Environment, cores: Sequence[int], scratch: Path, script: Path | None = None
    ) -> None:
        self.name = name
        self._log = scratch / f"{name}.log"
        variables = {
            **os.environ,
            "STRETTO_PEER_JARS": os.pathsep.join(map(str, environment.jars)),
            "STRETTO_PEER_CORES": str(len(cores)),
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [environment.python, script or _SCRIPTS / f"{name}_peer.py"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=scratch,
                env=variables,
                text=True,
                start_new_session=True,
            )
        # Inherited by whatever the process starts.
        os.sched_setaffinity(self._process.pid, cores)
        assert self._process.stdout is not None
        self._answers: queue.Queue[str] = queue.Queue()
        self._listener = threading.Thread(
            target=self._listen, args=(self._process.stdout,), name=f"{name} answers", daemon=True
        )
        self._listener.start()
        answer = self._answer(START_TIMEOUT_S)
        self.version: str = answer["version"]
        self.persists: str = answer["persists"]
        self.cores: int = min(answer["cores"] or len(cores), len(cores))

    @property
    def log(self) -> Path:
        """The file with its output."""
        return self._log

    def prepare(self, task: Task) -> None:
        """Start a query; it waits for files when this returns. Raises CannotExpress if the system cannot express it."""
        self._ask({"do": "prepare", **asdict(task)}, CHECK_TIMEOUT_S if task.mode == "check" else PREPARE_TIMEOUT_S)

    def progress(self) -> dict[str, Any]:
        return self._ask({"do": "progress"}, ANSWER_TIMEOUT_S)

    def finish(self) -> int:
        """Stop the query and let it write its output; returns the number of rows."""
        rows: int = self._ask({"do": "finish"}, CHECK_TIMEOUT_S)["rows"]
        return rows

    def close(self) -> None:
        """End the process and all its children."""
        assert self._process.stdin is not None
        with suppress(subprocess.TimeoutExpired, OSError):
            self._process.stdin.close()
            self._process.wait(CLOSE_TIMEOUT_S)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._listener.join()

    def _ask(self, question: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._broken("it has ended") from error
        return self._answer(timeout_s)

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            raise self._broken(f"no answer within {timeout_s:g} s") from None
        if not line:
            raise self._broken("it has ended")
        answer: dict[str, Any] = json.loads(line)
        if "unsupported" in answer:
            raise CannotExpress(answer["unsupported"])
        if not answer["ok"]:
            raise self._broken(answer["error"])
        return answer

    def _broken(self, detail: str) -> SystemFailed:
        last = self._log.read_text(errors="replace").strip().splitlines()[-5:] if self._log.exists() else []
        return SystemFailed(f"{self.name} failed", "\n".join([detail, *last]))

    def _listen(self, answers: IO[str]) -> None:
        with answers:
            for line in answers:
                self._answers.put(line)
        self._answers.put("")
