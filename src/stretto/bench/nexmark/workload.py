"""What a NEXMark query runs on: its events, their rate, how it is spread, and its sources and sinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from stretto import sinks
from stretto.actors.sink import Sink
from stretto.actors.source import Source
from stretto.api.app import App
from stretto.api.memory import CollectSink
from stretto.api.slo import SLO
from stretto.api.stream import Stream
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.source import NexmarkSource


class Holding(Protocol):
    """A gate or a tap in front of sources."""

    def before(self, source: Source) -> Source: ...


@dataclass(frozen=True)
class Workload:
    """The events of a query, their rate, and how the query is spread."""

    config: NexmarkConfig = field(default_factory=lambda: NexmarkConfig(events=200_000))
    rate: float | None = None
    parallelism: int | None = None
    batch: int = 4096
    block: int = 4096
    """So many events in a row are read by one partition of a source."""
    begins_ns: int | None = None
    """When the first event comes, if there is a rate; None: when it is first read."""
    sink: Callable[[], Sink] = CollectSink
    slo: SLO | None = None
    engine: str = "actors"
    lessees: int = 0
    """If not 0, every function that allows it has this many lessees, which get all of its messages ..."""
    strategy: str | None = None
    """... or those that this strategy assigns to them."""
    elastic: bool = False
    """Whether every keyed function may have its shards on several workers."""
    gate: Holding | None = None
    """Holds the events of all kinds back."""
    files: Path | None = None
    """Where query 10 writes its files; if it is None, the query has the sink of the others."""
    timezone: str = "UTC"
    sql: bool = False
    """Whether the query is the one that is written as SQL text."""


class Streams:
    """The sources of one app, made on demand."""

    def __init__(self, name: str, workload: Workload) -> None:
        self.workload = workload
        self.app = App(
            name,
            slo=workload.slo,
            timezone=workload.timezone,
            engine=workload.engine,
            parallelism=workload.parallelism,
            batch_rows=workload.batch,
        )

    def of(self, kind: str, columns: Sequence[str], **options: Any) -> Stream:
        # The source emits its own watermark; the delay is for micro-batches, which only know the greatest time.
        delay = self.workload.config.disorder_s
        return self.app.source(kind, self.source(kind, columns), **{"time": "dateTime", "delay": delay, **options})

    def source(self, kind: str, columns: Sequence[str]) -> Source:
        """Returns the source of the events of one kind."""
        asked = self.workload
        source = NexmarkSource(kind, asked.config, asked.rate, columns, asked.block, asked.begins_ns)
        return source if asked.gate is None else asked.gate.before(source)

    def record(self, bids: Stream) -> None:
        """Record bids with their ingestion time."""
        self.end(bids, "ingested")

    def end(self, stream: Stream, name: str = "out", partition_by: Sequence[str] = ()) -> None:
        files = self.workload.files if partition_by else None
        stream.sink(
            self.workload.sink() if files is None else sinks.parquet(files, partition_by=partition_by), name=name
        )
