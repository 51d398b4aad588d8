"""NEXMark on stretto: an app on workers inside the tasks of a local Spark, as its users run it.

Rows that are not timed are discarded on the workers (`sinks.null`); timed rows reach a callback in the driver.
"""

from __future__ import annotations

import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stretto import sinks
from stretto.api.app import App
from stretto.bench.compare.peers.talk import Peer, Task, serve
from stretto.bench.compare.queries import Compared, FedStreams, compared
from stretto.bench.nexmark.queries import Workload
from stretto.coordinator.records import JobStatus
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job
from stretto.runtime.session import local_master, spark_session

BATCH_ROWS = 65_536
"""Maximum number of rows read at once: files at a high rate are larger than this."""
POLL_S = 0.01


class Receipts:
    """Records the rows at the callback with their times. The driver calls it from one thread."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.times_ns: list[int] = []
        self.rows = 0

    def __call__(self, batch: pa.RecordBatch) -> None:
        self.times_ns.append(time.time_ns())
        self.batches.append(batch)
        self.rows += batch.num_rows

    def table(self, query: Compared) -> pa.Table:
        """Returns the times for the bench."""
        table = pa.Table.from_batches(self.batches) if self.batches else pa.table({query.trigger: [], "bids": []})
        counts = np.array([batch.num_rows for batch in self.batches], np.int64)
        columns = {
            "trigger_us": table.column(query.trigger).cast(pa.int64()),
            "received_ns": np.repeat(np.array(self.times_ns, np.int64), counts),
        }
        return pa.table({**columns, "bids": table.column("bids")} if query.by_arrival else columns)


class StrettoPeer(Peer):
    """One cluster of workers for all tasks."""

    version = version("stretto")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._job: Job | None = None
        self._task: Task | None = None
        self._query: Compared | None = None
        self._receipts = Receipts()

    def prepare(self, task: Task) -> None:
        self._task, self._query, self._receipts = task, compared(task.query), Receipts()
        self._job = self._cluster.submit(self._app(task, self._query))
        while self._job.status in (JobStatus.WAITING, JobStatus.DEPLOYING):
            time.sleep(POLL_S)

    def progress(self) -> dict[str, Any]:
        assert self._job is not None
        assert self._query is not None
        error = self._job.error
        if error is not None:
            raise error
        latest = None
        if self._receipts.batches:
            latest = pc.max(self._receipts.batches[-1].column(self._query.trigger)).cast(pa.int64()).as_py()
        return {"rows": self._receipts.rows, "trigger_us": latest, "ended": self._job.status.ended}

    def finish(self) -> dict[str, Any]:
        job, task, query = self._job, self._task, self._query
        assert job is not None
        assert task is not None
        assert query is not None
        if not job.status.ended:
            job.stop()
        self._job = None
        table = job.results("out") if task.mode == "check" else self._receipts.table(query)
        pq.write_table(table, task.output)
        return {"rows": table.num_rows}

    def _app(self, task: Task, query: Compared) -> App:
        # At a low rate one reader is enough, and a window need not wait for the watermark of a second one.
        parallelism, poll = (1, "1 ms") if task.low_latency else (task.parallelism, "2 ms")
        workload = Workload(parallelism=parallelism, batch=BATCH_ROWS)
        streams = FedStreams(task.query, workload, Path(task.directory), query.columns, poll)
        if task.mode == "check":
            query.answer(streams).sink(sinks.collect(), name="out")
            return streams.app
        timed = query.timed(streams)
        if query.by_row and task.sample_ms > 1:
            timed.sink(sinks.null(), name="out")
            timed = timed.filter(f"unix_millis({query.trigger}) % {task.sample_ms} = 0").select(query.trigger)
        timed.sink(sinks.callback(self._receipts), name="timed")
        return streams.app


def main() -> None:
    workers = 2
    with (
        spark_session("stretto bench compare", local_master(workers)) as spark,
        Cluster.on_spark(spark, workers=workers) as cluster,
    ):
        serve(StrettoPeer(cluster))


if __name__ == "__main__":
    main()
