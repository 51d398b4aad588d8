"""NEXMark on Spark Structured Streaming: micro-batches without a trigger interval.

State is in the RocksDB store with changelog checkpointing; offsets and commits go to a checkpoint directory on local
disk, as in every streaming query of Spark. There are as many shuffle partitions as cores, and a batch takes all present
files. Windows are emitted in append mode, once each, when the watermark has passed them.

Notes for a fair comparison:

- A batch's rows count as received when they are in the driver (windows, by Arrow), or when the batch has ended (queries
  that emit every event, into the `noop` sink; the batch's own metrics contain its event times).
- Query 7 keeps the sixteen highest bids of each window (`max_by` with a number) and emits those that equal the highest,
  which is several times faster than joining bids with the maximum; more than sixteen equal highest bids would be cut.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from talk import Peer, Task, Unsupported, serve

CORES = int(os.environ.get("STRETTO_PEER_CORES", "2"))
NO_DELAY = "0 seconds"
TIES_MAX = 16
POINTS_PER_BATCH = 20
"""A batch that emits all its events is represented by this many of their times."""

INPUTS = {
    "q1": {"bid": "auction long, bidder long, price long, dateTime timestamp, extra string"},
    "q2": {"bid": "auction long, price long, dateTime timestamp"},
    "q5": {"bid": "auction long, dateTime timestamp"},
    "q7": {"bid": "auction long, bidder long, price long, dateTime timestamp"},
    "q8": {"person": "id long, name string, dateTime timestamp", "auction": "seller long, dateTime timestamp"},
    "q11": {"bid": "bidder long, dateTime timestamp"},
    "q12": {"bid": "bidder long, dateTime timestamp"},
}
BY_ROW = ("q1", "q2")


def answer(query: str, inputs: dict[str, DataFrame]) -> DataFrame:
    """Returns the query over its inputs, which have watermarks."""
    bids = inputs.get("bid")
    if query == "q8":
        return _newcomers_who_sell(inputs["person"], inputs["auction"])
    assert bids is not None
    if query == "q1":
        return bids.selectExpr("auction", "bidder", "0.908 * price AS price", "dateTime", "extra")
    if query == "q2":
        return bids.where("auction % 123 = 0").select("auction", "price", "dateTime")
    if query == "q5":
        return _hot_items(bids)
    if query == "q7":
        return _highest_bids(bids)
    if query == "q11":
        return _counted(bids.groupBy("bidder", F.session_window("dateTime", "10 seconds").alias("w")))
    stamped = bids.withColumn("arrived", F.current_timestamp()).withWatermark("arrived", NO_DELAY)
    return _counted(stamped.groupBy("bidder", F.window("arrived", "10 seconds").alias("w")))


def _counted(grouped: Any) -> DataFrame:
    counted: DataFrame = grouped.agg(F.count("*").alias("bids"))
    return counted.selectExpr("bidder", "w.start AS window_start", "w.end AS window_end", "bids")


def _hot_items(bids: DataFrame) -> DataFrame:
    counts = bids.groupBy(F.window("dateTime", "10 seconds", "2 seconds").alias("w"), "auction").agg(
        F.count("*").alias("num")
    )
    # The windows of the second step correspond to those of the first: each ends with the slide that it is assigned to.
    by_window = counts.groupBy(F.window(F.window_time("w"), "2 seconds").alias("last")).agg(
        F.max("num").alias("most"), F.collect_list(F.struct("num", "auction")).alias("counted")
    )
    hottest = by_window.selectExpr("last.end AS window_end", "explode(filter(counted, c -> c.num = most)) AS c")
    return hottest.selectExpr(
        "window_end - INTERVAL 10 SECONDS AS window_start", "window_end", "c.auction AS auction", "c.num AS num"
    )


def _highest_bids(bids: DataFrame) -> DataFrame:
    row = F.struct("auction", "bidder", "price", "dateTime")
    highest = bids.groupBy(F.window("dateTime", "10 seconds").alias("w")).agg(
        F.max("price").alias("highest"), F.max_by(row, "price", TIES_MAX).alias("rows")
    )
    rows = highest.selectExpr("w", "explode(filter(rows, r -> r.price = highest)) AS r")
    return rows.selectExpr("w.start AS window_start", "w.end AS window_end", "r.*")


def _newcomers_who_sell(people: DataFrame, auctions: DataFrame) -> DataFrame:
    people = people.groupBy("id", "name", F.window("dateTime", "10 seconds").alias("w")).agg(F.count("*"))
    sellers = auctions.groupBy("seller", F.window("dateTime", "10 seconds").alias("v")).agg(F.count("*"))
    joined = people.join(sellers, (people.id == sellers.seller) & (people.w == sellers.v))
    return joined.selectExpr("id", "name", "w.start AS window_start", "w.end AS window_end")


class SparkPeer(Peer):
    """One session for all tasks; each task has a streaming query with its own checkpoint directory."""

    version = pyspark.__version__
    persists = "offsets, commits and RocksDB state of every micro-batch, on local disk"

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._task: Task | None = None
        self._query: StreamingQuery | None = None
        self._checkpoint = ""
        self._tables: list[pa.Table] = []
        self._rows = 0
        self._latest_us: int | None = None
        self._batches_seen = -1
        self._lock = threading.Lock()

    def prepare(self, task: Task) -> None:
        if task.query not in INPUTS:
            raise Unsupported(
                "the average is a running aggregate over another aggregate (the winning bid of each auction), and"
                " Structured Streaming has no output mode for both: append needs a watermark on each, update allows one"
            )
        self._task, self._tables, self._rows, self._latest_us, self._batches_seen = task, [], 0, None, -1
        self._checkpoint = tempfile.mkdtemp(prefix="spark-checkpoint-")
        result = answer(task.query, {kind: self._input(kind, ddl) for kind, ddl in INPUTS[task.query].items()})
        if task.query == "q2" and task.mode == "check":
            result = result.select("auction", "price")
        if task.query in BY_ROW and task.mode == "paced":
            times_us = F.unix_micros("dateTime")
            seen = F.count("*").alias("rows"), F.min(times_us).alias("first"), F.max(times_us).alias("last")
            result = result.observe("seen", *seen)
            writer = result.writeStream.format("noop")
        else:
            writer = result.writeStream.foreachBatch(self._take)
        # The end of the input closes no window of arrival time, so a check uses their counts so far.
        mode = "update" if task.query == "q12" and task.mode == "check" else "append"
        writer = writer.outputMode(mode).option("checkpointLocation", self._checkpoint)
        if task.mode == "check":
            writer = writer.trigger(availableNow=True)
        self._query = writer.start()
        self._wait_for_first_trigger(self._query)

    def progress(self) -> dict[str, Any]:
        query = self._running()
        if error := query.exception():
            raise error
        self._note_progress(query)
        with self._lock:
            return {"rows": self._rows, "trigger_us": self._latest_us, "ended": not query.isActive}

    def finish(self) -> dict[str, Any]:
        query, task = self._running(), self._task
        assert task is not None
        query.stop()
        self._note_progress(query)
        self._query = None
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        with self._lock:
            tables, self._tables = self._tables, []
        if tables:
            whole = pa.concat_tables(tables)
            pq.write_table(_last_updates(whole) if task.query == "q12" and task.mode == "check" else whole, task.output)
        elif task.mode == "paced":
            empty = {name: pa.array([], pa.int64()) for name in ("trigger_us", "received_ns", "bids")}
            pq.write_table(pa.table(empty), task.output)
        return {"rows": self._rows}

    def close(self) -> None:
        if self._query is not None:
            self._query.stop()
            shutil.rmtree(self._checkpoint, ignore_errors=True)
        self._spark.stop()

    def _running(self) -> StreamingQuery:
        assert self._query is not None
        return self._query

    def _input(self, kind: str, ddl: str) -> DataFrame:
        assert self._task is not None
        directory = str(Path(self._task.directory) / kind)
        stream = self._spark.readStream.schema(ddl).option("maxFileAge", "3650d").parquet(directory)
        return stream if self._task.query == "q12" else stream.withWatermark("dateTime", NO_DELAY)

    def _wait_for_first_trigger(self, query: StreamingQuery) -> None:
        """Return when the query has listed the directory once."""
        while query.isActive and query.lastProgress is None and not query.status["message"].startswith("Waiting"):
            time.sleep(0.02)

    def _take(self, batch: DataFrame, number: int) -> None:
        """Receive a batch of closed windows."""
        assert self._task is not None
        table = batch.toArrow()
        received_ns = time.time_ns()
        if not table.num_rows:
            return
        if self._task.mode == "paced":
            ends_us = table.column("window_end").cast(pa.int64())
            columns = {"trigger_us": ends_us, "received_ns": pa.array([received_ns] * table.num_rows, pa.int64())}
            if self._task.query == "q12":
                columns["bids"] = table.column("bids")
            table = pa.table(columns)
            self._add(table, pc.max(ends_us).as_py())
        else:
            self._add(table, None)

    def _note_progress(self, query: StreamingQuery) -> None:
        """Record the batches of queries that emit every event, from their metrics."""
        if self._task is None or self._task.query not in BY_ROW or self._task.mode != "paced":
            return
        for batch in query.recentProgress:
            seen = batch.observedMetrics.get("seen")
            if batch.batchId <= self._batches_seen or seen is None or not seen["rows"]:
                continue
            self._batches_seen = batch.batchId
            began = datetime.fromisoformat(batch.timestamp).timestamp()
            ended_ns = int((began + batch.durationMs["triggerExecution"] / 1000) * 1e9)
            first_us, last_us = int(seen["first"]), int(seen["last"])
            step = max(1, (last_us - first_us) // POINTS_PER_BATCH)
            times = [*range(first_us, last_us, step), last_us]
            table = pa.table({"trigger_us": times, "received_ns": [ended_ns] * len(times)})
            self._add(table, last_us)

    def _add(self, table: pa.Table, latest_us: int | None) -> None:
        with self._lock:
            self._tables.append(table)
            self._rows += table.num_rows
            if latest_us is not None:
                self._latest_us = max(self._latest_us or 0, latest_us)


def _last_updates(table: pa.Table) -> pa.Table:
    """Returns the last count of each window, which is the greatest."""
    keys = ["bidder", "window_start", "window_end"]
    return table.group_by(keys).aggregate([("bids", "max")]).rename_columns({"bids_max": "bids"})


def main() -> None:
    spark = (
        SparkSession.builder.master(f"local[{CORES}]")
        .appName("spark")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "6g")
        .config("spark.driver.maxResultSize", "4g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", str(CORES))
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        .config("spark.sql.streaming.pollingDelay", "10ms")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    serve(SparkPeer(spark))


if __name__ == "__main__":
    main()
