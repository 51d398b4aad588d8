"""Compares a system's answer with that of Spark SQL over the same files.

Some systems cannot close their last windows when the input ends, so only windows that ended well before the last event
are compared, on both sides. Windows of processing time differ by run: there, the events of each key must add up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from stretto.bench.compare.feed import Rendered
from stretto.bench.compare.queries import Compared
from stretto.bench.nexmark import oracle
from stretto.bench.verify import Match, compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLOSED_BEFORE_END_S = 30
WINDOW_END = "window_end"
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_TOTALS = "SELECT bidder, count(*) AS bids FROM bid GROUP BY bidder"


class Judge:
    """Has the right answer to one query."""

    def __init__(self, spark: SparkSession, name: str, query: Compared, rendered: Rendered) -> None:
        self._query = query
        self._closed_us = rendered.end_us - CLOSED_BEFORE_END_S * 1_000_000
        if query.by_arrival:
            session = spark.newSession()
            oracle.load_views(session, rendered.directory)
            self._expected = session.sql(_TOTALS).toArrow()
        else:
            self._expected = self._closed(oracle.answer(spark, name, rendered.directory))

    @property
    def rows(self) -> int:
        rows: int = self._expected.num_rows
        return rows

    def complaint(self, answer: pa.Table) -> str | None:
        """Returns what is wrong with an answer, or None."""
        try:
            actual = self._comparable(answer)
        except (pa.ArrowException, KeyError) as error:
            return f"its rows have a different schema: {error}"
        verdict = compare(actual, self._expected)
        return None if verdict.match is Match.MATCH else verdict.describe()

    def _comparable(self, answer: pa.Table) -> pa.Table:
        if self._query.by_arrival:
            summed = answer.group_by("bidder").aggregate([("bids", "sum")])
            answer = summed.rename_columns({"bids_sum": "bids"})
        return self._closed(answer.select(self._expected.column_names).cast(self._expected.schema))

    def _closed(self, table: pa.Table) -> pa.Table:
        if self._query.by_arrival or WINDOW_END not in table.column_names:
            return table
        ends_us = table.column(WINDOW_END).cast(_TIMESTAMP).cast(pa.int64())
        return table.filter(pc.less_equal(ends_us, self._closed_us))
