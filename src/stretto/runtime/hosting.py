"""Hosting workers in Spark: one long-running task in its own job per worker, so that each can end alone."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from py4j.protocol import Py4JError
from pyspark import InheritableThread, TaskContext
from pyspark.sql import SparkSession

from stretto.errors import ClusterError
from stretto.runtime.process_guard import Ending
from stretto.runtime.worker_process import WorkerSettings, host_worker

log = logging.getLogger("stretto.hosting")

LINE_CHARS_MAX = 300
REGISTER_TIMEOUT_S = 120.0
"""How long executors may take to register, from the start of the session and from one to the next."""
REGISTER_POLL_S = 0.2


def slots_of(spark: SparkSession) -> int | None:
    """Returns how many tasks Spark can run at once, or None if it can grow on demand or the number is unknown."""
    context = spark.sparkContext
    if context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        return None
    per_task = int(context.getConf().get("spark.task.cpus", "1"))
    local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", context.master or "")
    if local is not None:
        if local.group(1) is None:
            return 1
        return context.defaultParallelism if local.group(1) == "*" else int(local.group(1)) // per_task
    try:
        # Of the registered executors; Py4J converts the AtomicInteger to a number.
        return int(context._jsc.sc().schedulerBackend().totalCoreCount()) // per_task
    except Py4JError:
        return context.defaultParallelism // per_task


def active_tasks(spark: SparkSession, stages: Iterable[int] | None = None) -> int:
    """Returns how many tasks of these stages run now; by default of all stages."""
    tracker = spark.sparkContext.statusTracker()
    found = map(tracker.getStageInfo, tracker.getActiveStageIds() if stages is None else stages)
    return sum(stage.numActiveTasks for stage in found if stage is not None)


def check_slots(spark: SparkSession, workers: int) -> None:
    """Refuses more workers than Spark has slots, before any job starts."""
    if workers < 1:
        raise ClusterError("a cluster needs at least one worker", f"workers={workers}", "Use one or more.")
    slots = slots_of(spark)
    deadline = time.monotonic() + REGISTER_TIMEOUT_S
    while slots is not None and workers > slots and not _is_local(spark) and time.monotonic() < deadline:
        time.sleep(REGISTER_POLL_S)  # Executors register one by one after the session has started.
        before, slots = slots, slots_of(spark)
        if slots is not None and slots > before:
            deadline = time.monotonic() + REGISTER_TIMEOUT_S
    if slots is not None and workers > slots:
        raise ClusterError(
            f"{workers} workers were asked for, and Spark has {slots} slot{'s' if slots != 1 else ''}",
            f"master {spark.sparkContext.master}",
            f"Use workers={slots} or fewer, or start Spark with more slots, such as local[{workers + 1}].",
        )


def _is_local(spark: SparkSession) -> bool:
    """Whether tasks run in the driver's own JVM, so that all slots exist from the start."""
    return (spark.sparkContext.master or "").split("[")[0] == "local"


class WorkerHost:
    """The Spark job that holds one worker. `on_ended` is called when the task has returned or failed."""

    def __init__(self, spark: SparkSession, settings: WorkerSettings, on_ended: Callable[[str, Ending], None]) -> None:
        self.member = settings.member
        self._spark = spark
        self._settings = settings
        self._on_ended = on_ended
        self._group = f"stretto-{settings.cluster}-{settings.member}"
        self._thread = InheritableThread(target=self._run, name=f"stretto-host-{settings.member}", session=spark)
        self._thread.daemon = True

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        """Waits for the task, and returns whether it ended within the time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def is_launched(self) -> bool:
        """Whether Spark runs its task, so that it holds a slot."""
        tracker = self._spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
        return active_tasks(self._spark, [stage for job in jobs if job is not None for stage in job.stageIds]) > 0

    def cancel(self) -> None:
        """Cancels a task that did not leave by itself."""
        # Future jobs too: the thread may not have submitted its job yet.
        self._spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self._group)

    def _run(self) -> None:
        context = self._spark.sparkContext
        context.setJobGroup(self._group, f"stretto worker {self.member}", interruptOnCancel=False)
        try:
            endings = context.parallelize([0], 1).mapPartitions(partial(_task, self._settings)).collect()
            ending = endings[0] if endings else Ending("its task returned nothing")
        except Exception as error:
            ending = Ending(f"its Spark task failed: {failure_line(error)}")
            log.debug("the Spark task of %s failed", self.member, exc_info=True)
        self._on_ended(self.member, ending)


def _task(settings: WorkerSettings, rows: Iterable[object]) -> Iterator[Ending]:
    context = TaskContext.get()
    attempt = context.attemptNumber() if context is not None else 0
    if attempt:
        # Spark's own retry would join under a name that has already left.
        return iter([Ending("Spark tried the task again; a replacement joins as a new incarnation")])
    return host_worker(settings, rows)


def failure_line(error: Exception) -> str:
    """Returns the one line of Spark's message that says why a job failed.

    It is the last line before Java's stack: Python's own message when there is one, else that of the lost task."""
    text = str(error)
    message = text.partition("most recent failure: ")[2] or text.removeprefix("An error occurred while calling ")
    lines = [line.strip() for line in message.split("\n\tat ")[0].splitlines() if line.strip()]
    line = re.sub(r"^(Lost task .*?\): |z:.*?: |: )", "", lines[-1]) if lines else ""
    return line[:LINE_CHARS_MAX] or type(error).__name__
