"""Reads the rows of a query from Spark, without a job where its optimizer has evaluated them already.

A projection of rows at hand is evaluated while it is optimized, which leaves rows. Spark would then plan a scan of
them, and run a job to send them, which takes longer than the evaluation of many expressions.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_EVALUATED = "LocalRelation"
_ROWS_MAX = 1_000_000
_BYTES_MAX = 1 << 30


class Collector:
    """Reads rows as Arrow tables."""

    def __init__(self, jvm: Any, timezone: str, without_jobs: bool) -> None:
        """`without_jobs` is whether the session evaluates rows at hand while it optimizes a query."""
        self._timezone = timezone
        self._without_jobs = without_jobs
        # Each name of a path is looked up by Java in all its archives, so this is done once.
        converters = jvm.org.apache.spark.sql.execution.arrow
        self._converters = getattr(getattr(converters, "ArrowConverters$"), "MODULE$")

    def table(self, selected: Any) -> pa.Table:
        """Returns the rows of a DataFrame; `toArrow` would refuse structs with two fields of one name."""
        if self._without_jobs:
            frame = getattr(selected, "_jdf", None)
            assert frame is not None
            plan = frame.queryExecution().optimizedPlan()
            if plan.nodeName() == _EVALUATED and not plan.data().isEmpty():
                return self._written(plan.data().iterator(), frame.schema())
        return pa.Table.from_batches(selected._collect_as_arrow(empty_list_if_zero_records=False))

    def _written(self, rows: Any, schema: Any) -> pa.Table:
        # Fields of one name are no error, and texts have offsets of 32 bits.
        batches = self._converters.toBatchWithSchemaIterator(
            rows, schema, _ROWS_MAX, _BYTES_MAX, self._timezone, False, False
        )
        try:
            return pa.ipc.open_stream(batches.next()).read_all()
        finally:
            # A job closes them at its end. They are outside of Java's heap, some megabytes for each query.
            batches.close()
