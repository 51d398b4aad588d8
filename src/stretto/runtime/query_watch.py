"""One sink's query of a job in micro-batches: what it wrote, what it reported, and whether it has ended.

Spark allows the Python process that plans a source ten seconds to start, and no setting changes that (4.3,
`PythonWorkerFactory.createSimpleWorker`). On a loaded machine that may be too short, so a query that failed for this
reason before its first rows is started again from its own checkpoint, a few times.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from stretto.actors.metrics import LatencySketch
from stretto.actors.sink import SinkWriter
from stretto.api.memory import conform
from stretto.api.plan import Plan, SinkNode
from stretto.errors import FunctionError, StrettoError
from stretto.rendering import error_text, traceback_of
from stretto.runtime.spark_sources import is_staged, is_stream

log = logging.getLogger("stretto.microbatch")

POLL_S = 0.05
PLANNER_S_MAX = 20.0
STARTS_MAX = 20
"""How often a query is started at most, if Spark does not wait for its planner."""
_PLANNER_TOO_SLOW = "Python worker failed to connect back"


class QueryWatch:
    """`begin` with what starts the query, then `poll` until it `has_ended`."""

    query: StreamingQuery

    def __init__(self, node: SinkNode, writer: SinkWriter, plan: Plan) -> None:
        self.sink = node.name
        self.schema = node.schema
        self.writer = writer
        self.output_rows = 0
        self.input_rows: dict[str, int] = {}
        self.trigger_ms: list[float] = []
        self.latency = LatencySketch()
        self._read_from_ms = 0.0
        self._wrote: dict[int, int] = {}
        self.error: BaseException | None = None
        self._start: Callable[[], StreamingQuery] | None = None
        self._starts = 0
        self._has_written = False
        self._batch = -1
        self._is_bounded = not any(is_stream(source) for source in plan.sources)
        # Staged rows are complete from the start; the offsets of other sources say when they have ended.
        self._at_end = all(is_staged(source) for source in plan.sources)

    def begin(self, start: Callable[[], StreamingQuery]) -> None:
        """Starts the query; `start` is called again if Spark did not wait for its planner."""
        self._start = start
        self._starts += 1
        self.query = start()

    def write(self, frame: DataFrame, batch: int) -> None:
        """Called by Spark with the rows of a micro-batch."""
        self._has_written = True
        try:
            table = frame.toArrow()
            for rows in table.to_batches():
                if rows.num_rows:
                    self.writer.write(conform(rows, self.schema))
        except BaseException as error:
            # Spark would return it as text, inside its own message.
            self.error = error if isinstance(error, StrettoError | PySparkException) else self._sink_error(error)
            raise
        self._wrote[batch] = table.num_rows
        self.output_rows += table.num_rows

    def _sink_error(self, error: BaseException) -> FunctionError:
        return FunctionError(
            f"sink '{self.sink}' raised {error_text(error)}",
            traceback_of(error).rstrip(),
        )

    def await_planner(self) -> None:
        """Waits until the query's own Python processes have started. Spark allows each ten seconds, which may be too
        short for many at once on few cores."""
        deadline = time.monotonic() + PLANNER_S_MAX
        while self.query.isActive and time.monotonic() < deadline:
            if not self.query.status["message"].startswith(("Initializing", "Getting offsets")):
                return
            time.sleep(POLL_S)

    def poll(self) -> None:
        """Collects what the query has reported since the last call; raises its error if it failed."""
        for progress in self.query.recentProgress:
            if progress.batchId > self._batch:
                self._batch = progress.batchId
                self._note(progress)
        if not self.query.isActive:
            error = self.query.exception()
            if error is not None and not self._began_again(error):
                raise error

    def _began_again(self, error: StreamingQueryException) -> bool:
        """Starts the query again if its planner was too slow for Spark and no row has been written, which could then be
        written twice. Returns whether it did."""
        if _PLANNER_TOO_SLOW not in str(error) or self._has_written or self._starts >= STARTS_MAX:
            return False
        assert self._start is not None
        log.warning("the query of sink '%s' starts again: Spark did not wait for its Python process", self.sink)
        self.begin(self._start)
        return True

    def _note(self, progress: StreamingQueryProgress) -> None:
        rows: dict[str, int] = {}
        ends = []
        for source in progress.sources:
            start, end = _offset(source.startOffset), _offset(source.endOffset)
            ends.append(end.get("ended", True))
            name = end.get("source", source.description)
            given = source.numInputRows - (end.get("end_rows", 0) - start.get("end_rows", 0))
            rows[name] = max(rows.get(name, 0), given)
        for name, number in rows.items():
            self.input_rows[name] = self.input_rows.get(name, 0) + number
        self._at_end = self._is_bounded and all(ends)
        self._time(progress)

    def _time(self, progress: StreamingQueryProgress) -> None:
        took_ms = float(progress.durationMs.get("triggerExecution", 0))
        self.trigger_ms.append(took_ms)
        start_ms = datetime.fromisoformat(progress.timestamp).timestamp() * 1000
        if progress.numInputRows:
            self._read_from_ms = start_ms
        wrote = self._wrote.pop(progress.batchId, 0)
        if wrote and self._read_from_ms:
            self.latency.add(round((start_ms + took_ms - self._read_from_ms) * 1e6), wrote)

    def has_ended(self) -> bool:
        """Whether all sources have ended and all windows are closed."""
        if not self._at_end:
            # One that failed since the last poll is left to the next one, which raises its error.
            return not self.query.isActive and self.query.exception() is None
        # Returns when there is neither data nor a window to close.
        self.query.processAllAvailable()
        self.poll()
        return True

    def stop(self) -> None:
        query = getattr(self, "query", None)
        if query is not None and query.isActive:
            query.stop()


def _offset(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
