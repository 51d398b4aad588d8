"""The protocol between bench and system under test: one JSON object per line, requests on stdin, answers on stdout.

A script makes a `Peer` and calls `serve`. The bench puts Parquet files `NNNNNN.parquet` into `directory/<kind>/` (by an
atomic link, in order of their numbers, all kinds of one number together), and sends:

- `prepare` (a `Task`): start the query on that directory. Answered when the query runs and waits for files.
- `progress`: return the number of rows emitted so far, and the latest trigger time among them.
- `finish`: stop the query and write its output with times to `task.output`.

In `check` mode every file exists before `prepare`, marked by a file `_SUCCESS`; the query reads them all, and then ends
by itself. The written table has the columns of the query's answer; in `paced` mode only two are needed:
`trigger_us`, the event time (microseconds) that an output waited for, and `received_ns`, the wall clock when the system
handed it over. This module is imported by interpreters without stretto and must stay within the standard library.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from dataclasses import dataclass
from typing import Any, TextIO


@dataclass(frozen=True)
class Task:
    """What to run. `sample_ms` is for queries that emit a row for every event: all rows go to a sink that discards
    them, and those whose `dateTime` in milliseconds is a multiple of it are reported; 1 reports every row."""

    query: str
    directory: str
    output: str
    mode: str  # check | paced
    parallelism: int
    sample_ms: int
    low_latency: bool  # the run measures latency at a low rate; otherwise it measures throughput


class Unsupported(Exception):
    """The system cannot express the query; the message says why."""


class Peer:
    """One system. `prepare` may be called again after `finish`."""

    version = ""
    persists = "nothing"
    """What the system writes to disk for recovery while the query runs."""

    cores: int | None = None
    """The number of cores it can use, if fewer than it is given."""

    def prepare(self, task: Task) -> None:
        raise NotImplementedError

    def progress(self) -> dict[str, Any]:
        """Return {"rows": int, "trigger_us": int or None, "ended": bool}; called several times a second."""
        raise NotImplementedError

    def finish(self) -> dict[str, Any]:
        """Stop, write `task.output`, and return {"rows": int}."""
        raise NotImplementedError

    def close(self) -> None:
        """Release all resources."""


def serve(peer: Peer) -> None:
    """Answer requests until stdin ends. Output of libraries goes to stderr; stdout is for answers only."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    _say(answers, {"ok": True, "version": peer.version, "persists": peer.persists, "cores": peer.cores})
    try:
        for line in sys.stdin:
            _say(answers, _answered(peer, json.loads(line)))
    finally:
        peer.close()


def _answered(peer: Peer, question: dict[str, Any]) -> dict[str, Any]:
    try:
        match question.pop("do"):
            case "prepare":
                peer.prepare(Task(**question))
                return {"ok": True}
            case "progress":
                return {"ok": True, **peer.progress()}
            case "finish":
                return {"ok": True, **peer.finish()}
            case unknown:
                return {"ok": False, "error": f"unknown request: {unknown}"}
    except Unsupported as error:
        return {"ok": False, "unsupported": str(error)}
    except Exception as error:
        traceback.print_exc()
        return {"ok": False, "error": f"{type(error).__name__}: {error}"}


def _say(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
