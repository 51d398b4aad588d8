"""A Spark DataFrame as a source, batch or streaming, so that Kafka, Delta and JDBC can be read through Spark's
connectors.

The rows go through the driver: Spark's tasks turn them into Arrow's IPC bytes, and the driver fetches one Spark
partition at a time. A streaming DataFrame runs as its own query, whose batches wait in a bounded queue; while it is
full, `foreachBatch` blocks, and so does the query.
"""

from __future__ import annotations

import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stretto.actors.source import Reading, Source, SourceReader
from stretto.api.memory import canonical_schema, conform
from stretto.errors import SourceError, StrettoError
from stretto.runtime.scratch import scratch_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

QUEUED_BATCHES_MAX = 32
"""The maximum number of record batches of a streaming query in the driver; Spark makes them of at most 10,000 rows."""
POLL_NS = 5_000_000
"""The delay before an empty queue is read again."""
WAIT_S = 0.1
"""How often a writer to a full queue checks whether it was closed."""


class DataFrameSource(Source):
    """All rows of a DataFrame. The first partition reads them; others have none, so parallelism 1 is enough.

    A batch DataFrame can be read again from a position if Spark returns its rows in the same order; a streaming one
    cannot seek.
    """

    on_driver = True
    needs_spark_slot = True
    """Its Spark tasks need a slot in addition to those of the workers."""

    def __init__(self, df: DataFrame) -> None:
        from pyspark.errors import PySparkException
        from pyspark.sql.pandas.types import to_arrow_schema

        self.dataframe: DataFrame | None = df
        self.streaming = df.isStreaming
        try:
            self.schema = canonical_schema(to_arrow_schema(df.schema, timezone="UTC"))
        except (PySparkException, StrettoError) as error:
            raise SourceError("a column of a DataFrame has no Arrow type", str(error), "Cast or drop it.") from error

    def reader(self, partition: int, partitions: int) -> SourceReader:
        if self.dataframe is None:
            raise SourceError("a DataFrame can only be read in the driver", None, "Its source must not be shipped.")
        if partition > 0:
            return _NoRows()
        if self.streaming:
            return StreamingReader(self.dataframe, self.schema)
        return BatchReader(self.dataframe, self.schema)

    def describe(self) -> str:
        return f"{'streaming' if self.streaming else 'batch'} DataFrame ({', '.join(self.schema.names)})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "dataframe": None}


class _NoRows(SourceReader):
    def read(self, now_ns: int, max_rows: int) -> Reading:
        return Reading(None, now_ns, done=True)

    def seek(self, position: int) -> None:
        self.position = position


class BatchReader(SourceReader):
    """Runs the query at the first read, which therefore waits for Spark; later ones wait at most for one partition."""

    def __init__(self, dataframe: DataFrame, schema: pa.Schema) -> None:
        self._dataframe = dataframe
        self._schema = schema
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._rest: pa.RecordBatch | None = None
        self.position = 0

    def read(self, now_ns: int, max_rows: int) -> Reading:
        if self._batches is None:
            self._batches = _after(_arrow_batches(self._dataframe, self._schema), self.position)
        while self._rest is None or self._rest.num_rows == 0:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return Reading(None, now_ns, done=True)
        batch, self._rest = self._rest.slice(0, max_rows), self._rest.slice(max_rows)
        self.position += batch.num_rows
        return Reading(batch, now_ns)

    def seek(self, position: int) -> None:
        self.close()
        self.position = position

    def close(self) -> None:
        batches, self._batches, self._rest = self._batches, None, None
        if batches is not None:
            batches.close()  # type: ignore[attr-defined]


class StreamingReader(SourceReader):
    """Starts the streaming query at the first read and stops it when closed."""

    def __init__(self, dataframe: DataFrame, schema: pa.Schema) -> None:
        self._dataframe = dataframe
        self._schema = schema
        self._queue: queue.Queue[tuple[pa.RecordBatch, int]] = queue.Queue(QUEUED_BATCHES_MAX)
        self._closed = threading.Event()
        self._query: StreamingQuery | None = None
        self._checkpoint: str | None = None
        self._rest: pa.RecordBatch | None = None
        self._waited_since_ns = 0
        self.position = 0

    def read(self, now_ns: int, max_rows: int) -> Reading:
        if self._query is None:
            self._start()
        if self._rest is None or self._rest.num_rows == 0:
            # Checked before the queue is read: a query that ends after that may leave batches in it.
            ended = not self._running()
            try:
                self._rest, self._waited_since_ns = self._queue.get_nowait()
            except queue.Empty:
                if ended:
                    self._raise_failure()
                    return Reading(None, now_ns, done=True)
                return Reading(None, now_ns, next_ns=now_ns + POLL_NS)
        batch, self._rest = self._rest.slice(0, max_rows), self._rest.slice(max_rows)
        self.position += batch.num_rows
        waited_ns = time.monotonic_ns() - self._waited_since_ns
        return Reading(batch, now_ns - waited_ns)

    def held_back(self) -> bool:
        """Whether the query is blocked because the queue is not read."""
        return self._queue.full()

    def seek(self, position: int) -> None:
        if position != self.position:
            raise SourceError(
                "a streaming DataFrame cannot seek",
                f"at row {self.position}, asked to resume from row {position}",
                "Read from a source that can be replayed, or start the app from scratch.",
            )

    def close(self) -> None:
        self._closed.set()
        if self._query is not None:
            self._query.stop()
        if self._checkpoint is not None:
            shutil.rmtree(self._checkpoint, ignore_errors=True)
            self._checkpoint = None

    def _start(self) -> None:
        if self._closed.is_set():
            raise SourceError("a streaming DataFrame was read after it was closed")
        self._checkpoint = str(scratch_directory("dataframe"))
        writer = self._dataframe.writeStream.foreachBatch(self._feed)
        self._query = writer.option("checkpointLocation", self._checkpoint).start()

    def _feed(self, dataframe: DataFrame, number: int) -> None:
        """Called by Spark for each micro-batch, in one of Spark's threads."""
        batches = _arrow_batches(dataframe, self._schema)
        for batch in batches:
            while not self._closed.is_set():
                try:
                    self._queue.put((batch, time.monotonic_ns()), timeout=WAIT_S)
                    break
                except queue.Full:
                    continue
            if self._closed.is_set():
                batches.close()  # type: ignore[attr-defined]
                return

    def _running(self) -> bool:
        assert self._query is not None
        return self._query.isActive

    def _raise_failure(self) -> None:
        assert self._query is not None
        failure = self._query.exception()
        if failure is not None:
            raise SourceError("the streaming query of a DataFrame failed", _cause(failure))


def _arrow_batches(dataframe: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the rows as Arrow batches; at most one Spark partition is in the driver at a time."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        if _is_local(dataframe):
            yield from (conform(batch, schema) for batch in dataframe.toArrow().to_batches())
            return
        for row in dataframe.mapInArrow(_ipc_writer(), "ipc binary").toLocalIterator():
            with pa.ipc.open_stream(pa.BufferReader(row.ipc)) as stream:
                yield from (conform(batch, schema) for batch in stream)
    except (PySparkException, Py4JError) as error:
        raise SourceError("Spark could not run the query of a DataFrame", _cause(error)) from error


def _cause(error: Exception) -> str:
    """Returns the innermost cause of a Java exception, in one line."""
    lines = str(error).splitlines() or [type(error).__name__]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return causes[-1].removeprefix("Caused by: ") if causes else lines[0]


def _is_local(dataframe: DataFrame) -> bool:
    """Whether the rows are already in the driver, so that no Python worker is needed to fetch them."""
    plan = getattr(dataframe, "_jdf", None)
    return plan is not None and plan.queryExecution().optimizedPlan().getClass().getSimpleName() == "LocalRelation"


def _ipc_writer() -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns what Spark's tasks run: each batch becomes one row of bytes.

    A nested function is pickled by value, so the tasks need Arrow but not this package.
    """

    def to_ipc(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            out = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(out, batch.schema) as stream:
                stream.write_batch(batch)
            column = pyarrow.array([out.getvalue().to_pybytes()], pyarrow.binary())
            yield pyarrow.RecordBatch.from_arrays([column], ["ipc"])

    return to_ipc


def _after(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yields all but the first rows."""
    try:
        for batch in batches:
            passed = min(rows, batch.num_rows)
            rows -= passed
            yield batch.slice(passed)
    finally:
        batches.close()  # type: ignore[attr-defined]
    if rows:
        raise SourceError(
            "a DataFrame has fewer rows than when it was first read",
            f"{rows} rows fewer than the position to resume from",
        )
