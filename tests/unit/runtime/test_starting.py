"""The start of a cluster: slow workers are waited for, workers without a slot only for the timeout."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from stretto.errors import ClusterError
from stretto.runtime.starting import PATIENCE, Start

SLOTS = 3
TIMEOUT_S = 100.0


@dataclass
class Worker:
    member: str
    launched: bool = False

    def is_launched(self) -> bool:
        return self.launched


class Scene:
    """A start at a time that the test sets, in a session of which others hold slots."""

    def __init__(self) -> None:
        self.now_s = 5.0
        self.busy = 0
        self.workers = [Worker("w0~1"), Worker("w1~1")]
        stage = lambda number: SimpleNamespace(numActiveTasks=self.busy)  # noqa: E731
        tracker = SimpleNamespace(getActiveStageIds=lambda: [7], getStageInfo=stage)
        context = SimpleNamespace(
            master=f"local[{SLOTS}]",
            getConf=lambda: SimpleNamespace(get={}.get),
            statusTracker=lambda: tracker,
        )
        spark = cast(SparkSession, SimpleNamespace(sparkContext=context))
        self.start = Start(spark, len(self.workers), TIMEOUT_S, lambda: self.now_s)

    def at(self, seconds: float) -> None:
        self.now_s = 5.0 + seconds
        self.start.check(self.workers)


def test_workers_without_a_slot_are_refused_after_the_timeout() -> None:
    scene = Scene()
    scene.busy = SLOTS
    scene.workers[0].launched = True
    scene.at(TIMEOUT_S - 1)
    with pytest.raises(ClusterError, match=r"only 0 of 2 workers joined within 100 s.*no slot for w1~1"):
        scene.at(TIMEOUT_S)


def test_the_timeout_counts_from_when_the_last_slot_was_free() -> None:
    scene = Scene()
    scene.at(TIMEOUT_S)
    scene.busy = SLOTS
    scene.at(2 * TIMEOUT_S - 1)
    with pytest.raises(ClusterError, match="no slot for w0~1, w1~1"):
        scene.at(2 * TIMEOUT_S)


def test_a_slow_spark_with_a_free_slot_is_waited_for() -> None:
    scene = Scene()
    scene.busy = SLOTS - 1
    for seconds in range(0, int(TIMEOUT_S * (PATIENCE - 1)), 50):
        scene.at(seconds)


def test_workers_whose_tasks_run_are_waited_for_although_no_slot_is_left() -> None:
    scene = Scene()
    scene.busy = SLOTS
    for worker in scene.workers:
        worker.launched = True
    for seconds in range(0, int(TIMEOUT_S * (PATIENCE - 1)), 50):
        scene.at(seconds)
    scene.workers.pop()
    with pytest.raises(ClusterError, match=r"only 1 of 2 workers joined within 1000 s.*w0~1 did not reach the driver"):
        scene.at(TIMEOUT_S * PATIENCE)
