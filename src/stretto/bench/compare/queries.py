"""The queries of a comparison: the columns they read, what an output waits for, and how stretto runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from stretto.api.stream import Stream
from stretto.bench.nexmark import further_queries
from stretto.bench.nexmark import queries as nexmark
from stretto.bench.nexmark.events import SCHEMAS, Kind
from stretto.bench.nexmark.queries import Streams, Workload
from stretto.errors import UserError
from stretto.operators.windows import tumbling
from stretto.runtime.connectors.watched import WatchedFiles

PROCESSING_TIME_WINDOW_S = 10


@dataclass(frozen=True, slots=True)
class Compared:
    """One query. `columns` are those that it reads of each kind of event. `trigger` is the column of its timed output
    with the event time that the output waited for; `timed` returns a stream with that column.

    `by_row` marks queries that emit a row for each event, of which only a sample is timed; `by_arrival` marks windows
    of processing time, whose outputs wait for the clock."""

    columns: dict[str, tuple[str, ...]]
    answer: Callable[[Streams], Stream]
    timed: Callable[[Streams], Stream]
    trigger: str = "window_end"
    by_row: bool = False
    by_arrival: bool = False

    @property
    def about(self) -> str:
        return (self.answer.__doc__ or "").strip()


def _chosen_bids(streams: Streams) -> Stream:
    bids = streams.of("bid", ["auction", "price", "dateTime"])
    return bids.filter("auction % 123 = 0").select("auction", "price", "dateTime")


def _winning_averages(streams: Streams) -> Stream:
    by_category = nexmark.winning_prices(streams).key_by("category")
    return by_category.aggregate(avg_price="avg(final)", closed="max(window_end)")


def _bids_by_arrival(streams: Streams) -> Stream:
    """Bids of each bidder per ten seconds of processing time."""
    bids = streams.of("bid", ["bidder", "dateTime"], time="ingestTime", stamp="ingestTime")
    counted = bids.key_by("bidder").window(tumbling("10 seconds")).aggregate(bids="count(*)")
    return counted.select("bidder", "window_start", "window_end", "bids")


_BID = ("auction", "bidder", "price", "dateTime")

QUERIES: dict[str, Compared] = {
    "q1": Compared({"bid": (*_BID, "extra")}, nexmark.q1, nexmark.q1, "dateTime", by_row=True),
    "q2": Compared({"bid": ("auction", "price", "dateTime")}, nexmark.q2, _chosen_bids, "dateTime", by_row=True),
    "q4": Compared(
        {
            "auction": ("id", "seller", "category", "reserve", "dateTime", "expires"),
            "bid": ("auction", "price", "dateTime"),
        },
        nexmark.q4,
        _winning_averages,
        "closed",
    ),
    "q5": Compared({"bid": ("auction", "dateTime")}, nexmark.q5, nexmark.q5),
    "q7": Compared({"bid": _BID}, nexmark.q7, nexmark.q7),
    "q8": Compared({"person": ("id", "name", "dateTime"), "auction": ("seller", "dateTime")}, nexmark.q8, nexmark.q8),
    "q11": Compared({"bid": ("bidder", "dateTime")}, further_queries.q11, further_queries.q11),
    "q12": Compared({"bid": ("bidder", "dateTime")}, _bids_by_arrival, _bids_by_arrival, by_arrival=True),
}


def compared(name: str) -> Compared:
    """Returns the query with this name."""
    if name not in QUERIES:
        raise UserError(f"there is no comparison of '{name}'", None, f"Choose one of {', '.join(QUERIES)}.")
    return QUERIES[name]


class FedStreams(Streams):
    """Streams that read files as they appear in a directory."""

    def __init__(
        self, name: str, workload: Workload, directory: Path, columns: dict[str, tuple[str, ...]], poll: str
    ) -> None:
        super().__init__(name, workload)
        self._poll = poll
        self._directory = directory
        self._columns = columns

    def source(self, kind: str, columns: Sequence[str]) -> WatchedFiles:
        assert tuple(columns) == self._columns[kind], f"{kind} has {self._columns[kind]}, not {columns}"
        whole = SCHEMAS[Kind(kind)]
        schema = pa.schema([whole.field(name) for name in columns])
        return WatchedFiles(self._directory / kind, schema=schema, poll=self._poll)
