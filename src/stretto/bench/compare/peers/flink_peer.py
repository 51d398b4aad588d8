"""NEXMark on Apache Flink SQL.

The queries are streaming SQL in the style of nexmark-flink (window table-valued functions), run by a mini-cluster in
the JVM that PyFlink starts; no row passes through Python. The setup follows its manual: object reuse, the heap state
backend, no checkpoints; for throughput the query without windows (q4) uses mini-batches, and for latency buffers and
watermarks are flushed within milliseconds.

Notes for a fair comparison:

- Flink's file source assigns the newest known file first. Without allowed disorder, rows of older files would then be
  late and be dropped; and listing a directory takes its file enumerator longer and longer. Both are public extension
  points, so the source gets a few lines of Java that look at new files only and assign the oldest first. They are
  compiled by the compiler that is part of Flink.
- The watermark is the minimum over all readers, and files are assigned round robin, so it lags by one file for each
  reader but one. For latency there is a single reader; all other operators keep the full parallelism.
- Rows leave through the `print` connector into a file of this process. Each has `CURRENT_ROW_TIMESTAMP()`, which the
  last operator before the sink evaluates for each row; it has millisecond resolution, and we add half a millisecond.

Sessions that touch are merged, as in Spark: a bid exactly ten seconds after the last one continues its session.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import socket
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyflink.common import Configuration
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.formats.parquet import ParquetColumnarRowInputFormat
from pyflink.java_gateway import get_gateway
from pyflink.table import DataTypes, Schema, StreamTableEnvironment, TableDescriptor
from pyflink.util.java_utils import to_jarray
from pyflink.version import __version__
from talk import Peer, Task, serve

# The columns that each query reads.
INPUTS: dict[str, dict[str, tuple[str, ...]]] = {
    "q1": {"bid": ("auction", "bidder", "price", "dateTime", "extra")},
    "q2": {"bid": ("auction", "price", "dateTime")},
    "q4": {"auction": ("id", "category", "reserve", "dateTime", "expires"), "bid": ("auction", "price", "dateTime")},
    "q5": {"bid": ("auction", "dateTime")},
    "q7": {"bid": ("auction", "bidder", "price", "dateTime")},
    "q8": {"person": ("id", "name", "dateTime"), "auction": ("seller", "dateTime")},
    "q11": {"bid": ("bidder", "dateTime")},
    "q12": {"bid": ("bidder", "dateTime")},
}
TEXT, TIMES = ("extra", "name"), ("dateTime", "expires")

_TUMBLE = "TABLE(TUMBLE(TABLE {0}, DESCRIPTOR(`{1}`), INTERVAL '10' SECOND))"
_COUNTS = """
  SELECT auction, count(*) AS num, window_start, window_end
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
  GROUP BY auction, window_start, window_end"""

# Each answer is a view with the columns of the answer, and before them `trigger`, the time its rows waited for.
ANSWERS = {
    "q1": "SELECT `dateTime` AS `trigger`, auction, bidder, 0.908 * price AS price, `dateTime`, extra FROM bid",
    "q2": "SELECT `dateTime` AS `trigger`, auction, price FROM bid WHERE MOD(auction, 123) = 0",
    # The average of a BIGINT is one too, hence the cast.
    "q4": """
SELECT max(seen) AS `trigger`, category, avg(CAST(final AS DOUBLE)) AS avg_price
FROM (
  SELECT A.category, max(B.price) AS final, max(B.`dateTime`) AS seen
  FROM auction A JOIN bid B ON A.id = B.auction
  WHERE B.`dateTime` >= A.`dateTime` AND B.`dateTime` < A.expires AND B.price >= A.reserve
  GROUP BY A.id, A.category
) GROUP BY category""",
    "q5": f"""
SELECT B.window_end AS `trigger`, B.window_start, B.window_end, B.auction, B.num
FROM ({_COUNTS}) B
JOIN (SELECT max(num) AS most, window_start, window_end FROM ({_COUNTS}) GROUP BY window_start, window_end) M
ON B.window_start = M.window_start AND B.window_end = M.window_end AND B.num >= M.most""",
    "q7": f"""
SELECT B.window_end AS `trigger`, B.window_start, B.window_end, B.auction, B.bidder, B.price, B.`dateTime`
FROM (SELECT * FROM {_TUMBLE.format("bid", "dateTime")}) B
JOIN (SELECT max(price) AS price, window_start, window_end FROM {_TUMBLE.format("bid", "dateTime")}
      GROUP BY window_start, window_end) M
ON B.window_start = M.window_start AND B.window_end = M.window_end AND B.price >= M.price""",
    "q8": f"""
SELECT P.window_end AS `trigger`, P.id, P.window_start, P.window_end, P.name
FROM (SELECT id, name, window_start, window_end FROM {_TUMBLE.format("person", "dateTime")}
      GROUP BY id, name, window_start, window_end) P
JOIN (SELECT seller, window_start, window_end FROM {_TUMBLE.format("auction", "dateTime")}
      GROUP BY seller, window_start, window_end) S
ON P.id = S.seller AND P.window_start = S.window_start AND P.window_end = S.window_end""",
    "q11": """
SELECT window_end AS `trigger`, bidder, window_start, window_end, count(*) AS bids
FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end""",
    "q12": f"""
SELECT window_end AS `trigger`, bidder, window_start, window_end, count(*) AS bids
FROM {_TUMBLE.format("bid", "now")} GROUP BY bidder, window_start, window_end""",
}
PASSING = ("q1", "q2")
EVENT_TIME = ("q5", "q7", "q8", "q11")
HEAP = "6g"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MARK = b"> +"  # precedes the kind in a printed row; retractions have a minus
_MILLISECONDS = (
    "CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', `trigger`) AS BIGINT) * 1000"
    " + EXTRACT(MILLISECOND FROM `trigger`)"
)

# Like Flink's own source, but it looks only at new files and assigns the oldest first.
NUMBERED_FILES = """
package peer;
import java.util.*;
import org.apache.flink.connector.file.src.FileSourceSplit;
import org.apache.flink.connector.file.src.assigners.FileSplitAssigner;
import org.apache.flink.connector.file.src.enumerate.FileEnumerator;
import org.apache.flink.core.fs.Path;
public class NumberedFiles
    implements FileEnumerator, FileEnumerator.Provider, FileSplitAssigner, FileSplitAssigner.Provider {
  private final HashSet seen = new HashSet();
  private final TreeMap waiting = new TreeMap();
  public FileEnumerator create() { return new NumberedFiles(); }
  public Collection enumerateSplits(Path[] directories, int least) {
    ArrayList found = new ArrayList();
    String[] names = new java.io.File(directories[0].getPath()).list();
    for (int i = 0; i < names.length; i++) {
      if (!names[i].endsWith(".parquet") || !seen.add(names[i])) continue;
      Path path = new Path(directories[0], names[i]);
      java.io.File file = new java.io.File(path.getPath());
      found.add(new FileSourceSplit(names[i], path, 0L, file.length(), file.lastModified(), file.length()));
    }
    return found;
  }
  public FileSplitAssigner create(Collection splits) {
    NumberedFiles assigner = new NumberedFiles();
    assigner.addSplits(splits);
    return assigner;
  }
  public void addSplits(Collection splits) {
    for (Iterator all = splits.iterator(); all.hasNext();) {
      FileSourceSplit split = (FileSourceSplit) all.next();
      waiting.put(split.path().getName(), split);
    }
  }
  public Optional getNext(String host) {
    Map.Entry oldest = waiting.pollFirstEntry();
    return oldest == null ? Optional.empty() : Optional.of(oldest.getValue());
  }
  public Collection remainingSplits() { return waiting.values(); }
}
"""


class FlinkPeer(Peer):
    version = __version__
    persists = "nothing (checkpointing off)"

    def __init__(self) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix="flink-peer-"))
        self._printed = self._scratch / "printed"
        self._jvm = _start_jvm(self._scratch, self._printed)
        self._pid = self._jvm.java.lang.ProcessHandle.current().pid()
        self._job: Any = None

    def prepare(self, task: Task) -> None:
        os.truncate(self._printed, 0)
        self._task = task
        self._rows, self._offset = 0, 0
        self._latest: int | None = None
        rest_port = _free_port()
        tables = self._environment(rest_port)
        for kind, columns in INPUTS[task.query].items():
            self._read(tables, kind, columns)
        tables.create_temporary_view("answer", tables.sql_query(ANSWERS[task.query]))
        self._columns = [
            name for name in tables.from_path("answer").get_schema().get_field_names() if name != "trigger"
        ]
        self._job = self._statements(tables).execute().get_job_client()
        self._ended = self._job.get_job_execution_result()
        self._wait_until_running(rest_port)

    def progress(self) -> dict[str, Any]:
        ended = self._ended.done()
        if ended:
            self._ended.result()  # raises if the job failed
        self._look()
        if self._task.query == "q12" and self._task.mode == "check":
            # Windows of processing time do not close when the input ends, so it stays open until all have closed.
            bids = sum(int(row[-1]) for row in self._lines())
            ended = bids == _rows_in(Path(self._task.directory) / "bid")
        return {"rows": self._rows, "trigger_us": self._latest, "ended": ended}

    def finish(self) -> dict[str, Any]:
        self._stop()
        table = self._report()
        pq.write_table(table, self._task.output)
        return {"rows": table.num_rows}

    def close(self) -> None:
        logging.disable()  # py4j would log many errors about the lost JVM
        os.kill(self._pid, signal.SIGKILL)
        shutil.rmtree(self._scratch, ignore_errors=True)

    # The job

    def _environment(self, rest_port: int) -> Any:
        task, settings = self._task, Configuration()
        paced_slowly = task.mode == "paced" and task.low_latency
        for key, value in {
            "execution.target": "local",
            "rest.bind-port": str(rest_port),
            "parallelism.default": str(task.parallelism),
            "pipeline.object-reuse": "true",
            # A reader that is cancelled in the middle of a file waits this long for its fetcher, which never ends.
            "source.reader.close.timeout": "50",
            "table.local-time-zone": "UTC",
            "execution.buffer-timeout.interval": "1 ms" if paced_slowly else "100 ms",
            "pipeline.auto-watermark-interval": "1 ms" if paced_slowly else "50 ms",
        }.items():
            settings.set_string(key, value)
        if task.query == "q4" and not paced_slowly:
            # As nexmark-flink does; its 2 s of delay would be more than the bench needs.
            settings.set_string("table.exec.mini-batch.enabled", "true")
            settings.set_string("table.exec.mini-batch.allow-latency", "200 ms")
            settings.set_string("table.exec.mini-batch.size", "50000")
        return StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment(settings))

    def _read(self, tables: Any, kind: str, columns: tuple[str, ...]) -> None:
        """Creates a view on the files of a kind, with the name of the kind."""
        task, jvm = self._task, self._jvm
        fields = [DataTypes.FIELD(name, _column_type(name)) for name in columns]
        parquet = ParquetColumnarRowInputFormat(DataTypes.ROW(fields), is_utc_timestamp=True)
        files = jvm.org.apache.flink.connector.file.src.FileSource
        path = jvm.org.apache.flink.core.fs.Path(str(Path(task.directory) / kind))
        builder = files.forBulkFileFormat(parquet._j_bulk_format, to_jarray(jvm.org.apache.flink.core.fs.Path, [path]))
        builder.setFileEnumerator(jvm.peer.NumberedFiles())
        builder.setSplitAssigner(jvm.peer.NumberedFiles())
        if task.mode == "paced" or task.query == "q12":
            builder.monitorContinuously(jvm.java.time.Duration.ofMillis(5))
        unmarked = jvm.org.apache.flink.api.common.eventtime.WatermarkStrategy.noWatermarks()
        stream = tables._j_tenv.execEnv().fromSource(builder.build(), unmarked, kind)
        if task.low_latency:
            stream = stream.setParallelism(1)
        schema = Schema.new_builder()
        for name in columns:
            schema.column(name, _column_type(name))
        if task.query == "q12":
            schema.column_by_expression("now", "PROCTIME()")
        if task.query in EVENT_TIME:
            # Several events share a millisecond: until a later one has arrived, there may be more of them.
            schema.watermark("dateTime", "`dateTime` - INTERVAL '0.001' SECOND")
        tables.create_temporary_view(kind, DataStream(stream), schema.build())

    def _statements(self, tables: Any) -> Any:
        task, statements = self._task, tables.create_statement_set()
        printed = "SELECT `trigger`, CURRENT_ROW_TIMESTAMP() AS stamp{} FROM answer{}"
        everything = "".join(f", `{name}`" for name in self._columns)
        if task.query in PASSING and task.sample_ms > 1:
            rows = tables.sql_query(f"SELECT {everything[2:]} FROM answer")
            statements.add_insert(TableDescriptor.for_connector("blackhole").build(), rows)
            printed = printed.format("", f" WHERE MOD({_MILLISECONDS}, {task.sample_ms}) = 0")
            self._columns = []
        else:
            printed = printed.format(everything, "")
        sink = TableDescriptor.for_connector("print").option("print-identifier", "answer").build()
        statements.add_insert(sink, tables.sql_query(printed))
        return statements

    def _wait_until_running(self, rest_port: int) -> None:
        """Wait until every task has started: from then on the query waits for files, or reads those present."""
        url = f"http://localhost:{rest_port}/jobs/{self._job.get_job_id()}"
        while not self._ended.done():
            with contextlib.suppress(OSError), urllib.request.urlopen(url) as answer:
                if all(task["status"] in ("RUNNING", "FINISHED") for task in json.load(answer)["vertices"]):
                    return
            time.sleep(0.02)
        self._ended.result()

    def _stop(self) -> None:
        if not self._ended.done():
            self._job.cancel().result()
        # The mini-cluster ends with the job; a cancelled job raises an exception.
        with contextlib.suppress(Exception):
            self._ended.result()
        for thread in self._jvm.java.lang.Thread.getAllStackTraces().keySet():
            if thread.getName().startswith("Source Data Fetcher"):  # see the timeout above: it waits forever
                thread.interrupt()

    # Its rows

    def _look(self) -> None:
        """Count the rows printed since the last call. Only the last line is parsed; the rest is read at the end."""
        with self._printed.open("rb") as printed:
            printed.seek(self._offset)
            new = printed.read()
        new = new[: new.rfind(b"\n") + 1]
        self._offset += len(new)
        self._rows += new.count(_MARK)
        last = new.rfind(_MARK)
        if last >= 0:
            trigger = new[last + len(_MARK) + 2 :].partition(b",")[0].decode()
            self._latest = max(self._latest or 0, _microseconds(trigger))

    def _lines(self) -> Iterator[list[str]]:
        """Yields the rows printed so far. A text field is the last of its row and may hold anything but a line end."""
        with self._printed.open(encoding="utf-8") as printed:
            for line in printed:
                head, mark, row = line.partition("> +")
                if mark and head.startswith("answer") and line.endswith("]\n"):
                    yield row[2:-2].split(", ", 1 + len(self._columns))

    def _report(self) -> pa.Table:
        task, columns = self._task, self._columns
        lines = list(self._lines())
        if task.mode == "check":
            if task.query == "q4":  # updates: the last of each category is the answer
                lines = list({row[2]: row for row in lines}.values())
            return pa.table({name: _array(name, [row[2 + i] for row in lines]) for i, name in enumerate(columns)})
        table = pa.table(
            {
                "trigger_us": pa.array([_microseconds(row[0]) for row in lines], pa.int64()),
                "received_ns": pa.array([_microseconds(row[1]) * 1000 + 500_000 for row in lines], pa.int64()),
            }
        )
        if task.query == "q12":
            table = table.append_column("bids", pa.array([int(row[-1]) for row in lines], pa.int64()))
        return table


# One column


def _column_type(name: str) -> Any:
    return DataTypes.STRING() if name in TEXT else DataTypes.TIMESTAMP(3) if name in TIMES else DataTypes.BIGINT()


def _array(name: str, values: list[str]) -> pa.Array:
    if name in TEXT:
        return pa.array(values, pa.string())
    if name in (*TIMES, "window_start", "window_end"):
        return pa.array([_microseconds(value) for value in values], pa.timestamp("us", "UTC"))
    if name == "avg_price":
        return pa.array([float(value) for value in values], pa.float64())
    if any("." in value for value in values):
        return pa.array([Decimal(value) for value in values], pa.decimal128(23, 3))
    return pa.array([int(value) for value in values], pa.int64())


@lru_cache(100_000)
def _microseconds(printed: str) -> int:
    """Parses a UTC time as printed by Java."""
    moment = datetime.fromisoformat(printed.rstrip("Z")).replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


# Processes


def _start_jvm(scratch: Path, printed: Path) -> Any:
    """Starts the JVM with its output in a file, and with the jars and the compiled assigner on its class path."""
    classes = scratch / "classes"
    (classes / "peer").mkdir(parents=True)
    # Flink's reader makes Hadoop load its defaults for every file, 5 ms each time, and needs none of them.
    for defaults in ("core", "hdfs", "mapred", "yarn"):
        (classes / f"{defaults}-default.xml").write_text("<configuration/>")
    jars = os.environ.get("STRETTO_PEER_JARS", "")
    os.environ |= {
        "HADOOP_CLASSPATH": os.pathsep.join([str(classes), jars]),
        "FLINK_LOG_DIR": str(scratch),
        "ROOT_LOG_LEVEL": "WARN",
        "JVM_ARGS": f"-Xmx{HEAP} -XX:+UseG1GC",
    }
    own = os.dup(1)
    target = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(target, 1)
    try:
        jvm = get_gateway().jvm
    finally:
        os.dup2(own, 1)
        os.close(own)
        os.close(target)
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(NUMBERED_FILES)
    for name, code in compiler.getBytecodes().items():
        (classes / name.replace(".", "/")).with_suffix(".class").write_bytes(code)
    return jvm


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def _rows_in(directory: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in directory.glob("*.parquet"))


if __name__ == "__main__":
    serve(FlinkPeer())
