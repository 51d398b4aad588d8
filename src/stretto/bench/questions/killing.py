"""Workers are killed while clients ask: no question fails, and no answer has a row twice or leaves one out."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from stretto.api.app import App
from stretto.bench.questions.measuring import TIMEOUT_S, percentiles
from stretto.bench.questions.ticking import Ticks
from stretto.errors import ClusterError, StrettoError
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job

TABLE = "survivors"
EVERY_MS = 5
RECOVERY_S = 240.0
POLL_S = 0.05
QUESTION = f"SELECT part, count(*) AS c, min(place) AS first, max(place) AS last FROM {TABLE} GROUP BY part"


@dataclass
class Killing:
    """What was found."""

    partitions: int
    kills: int = 0
    recoveries: int = 0
    questions: int = 0
    latencies_ms: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def match(self) -> bool:
        return not self.failed and not self.wrong

    def as_dict(self) -> dict[str, Any]:
        return {
            "kills": self.kills,
            "recoveries": self.recoveries,
            "questions": self.questions,
            "latency_ms": {**percentiles(self.latencies_ms), "max": max(map(round, self.latencies_ms), default=None)},
            "failed": len(self.failed),
            "wrong": len(self.wrong),
            "examples": [*self.failed[:2], *self.wrong[:2]],
        }


def measure_kills(
    cluster: Cluster, workers: int, kills: int, clients: int, seed: int, directory: Path, told: Callable[[str], None]
) -> Killing:
    """Kills one worker after the other, each when the loss of the one before is over."""
    app = App("killed", parallelism=workers)
    app.source("ticks", Ticks(EVERY_MS), time="at").publish(TABLE, segment="1 minute")
    job = cluster.submit(app, checkpoint=directory, every="500 ms")
    report, rng, ended = Killing(workers), Random(seed), threading.Event()
    _await_durable(cluster, job, workers)
    lock = threading.Lock()
    threads = [
        threading.Thread(target=_client, args=(cluster, ended, lock, report), daemon=True) for _ in range(clients)
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in range(kills):
            _kill_one(cluster, workers, rng)
            report.kills += 1
            told(f"{report.kills} workers were killed, {report.questions} questions asked")
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    report.recoveries = job.checkpoints.recoveries
    job.stop()
    return report


def _await_durable(cluster: Cluster, job: Job, partitions: int) -> None:
    """Returns when a checkpoint has rows of every partition: from then on, no answer may be without one."""
    while cluster.query(QUESTION, timeout=TIMEOUT_S).num_rows < partitions:
        time.sleep(POLL_S)
    under_way = max(job.checkpoints.complete, default=0) + 1
    _eventually(lambda: max(job.checkpoints.complete, default=0) > under_way, "no checkpoint was complete")


def _kill_one(cluster: Cluster, workers: int, rng: Random) -> None:
    """Kills a worker, and returns when another one is there and a question is answered without the lost one."""
    victim = rng.choice(cluster.workers)
    os.kill(victim.pid, signal.SIGKILL)
    _eventually(
        lambda: len(cluster.workers) >= workers and victim.name not in [each.name for each in cluster.workers],
        "a killed worker was not replaced",
    )
    cluster.query(QUESTION, timeout=RECOVERY_S)


def _eventually(condition: Callable[[], bool], otherwise: str) -> None:
    ends = time.monotonic() + RECOVERY_S
    while not condition():
        if time.monotonic() > ends:
            raise ClusterError(otherwise, f"within {RECOVERY_S:g} s", "Is the machine overloaded?")
        time.sleep(POLL_S)


def _client(cluster: Cluster, ended: threading.Event, lock: threading.Lock, report: Killing) -> None:
    while not ended.is_set():
        began = time.perf_counter()
        try:
            rows = cluster.query(QUESTION, timeout=TIMEOUT_S).to_pylist()
        except StrettoError as error:
            with lock:
                report.questions += 1
                report.failed.append(str(error))
            continue
        wrong = [row for row in rows if row["first"] != 0 or row["c"] != row["last"] + 1]
        wrong += [{"partitions": len(rows)}] if len(rows) != report.partitions else []
        with lock:
            report.questions += 1
            report.latencies_ms.append((time.perf_counter() - began) * 1_000)
            if wrong:
                report.wrong.append(str(wrong))
