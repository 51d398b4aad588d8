"""NEXMark's bids as records of a topic: JSON, in the order of their numbers, dealt to the partitions in turn."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from stretto.actors.source import Source
from stretto.bench.kafka.topics import write
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.generator import generate
from stretto.bench.nexmark.workload import Streams, Workload
from stretto.runtime.connectors.kafka.encoding import Encoder, Layout
from stretto.sources import kafka

COLUMNS = ("auction", "dateTime")
SCHEMA = "auction bigint, dateTime timestamp"
EVENTS_AT_ONCE = 50_000


def bids(config: NexmarkConfig, first: int, end: int, columns: Sequence[str] = COLUMNS) -> Iterator[bytes]:
    """Yields the bids among the events with these numbers, as JSON."""
    for start in range(first, end, EVENTS_AT_ONCE):
        rows = generate(config, "bid", start, min(end, start + EVENTS_AT_ONCE), list(columns))
        for _, value, _, _ in Encoder(Layout("json"), rows.schema, None).records(rows):
            yield value


def feed(address: str, topic: str, partitions: int, values: Iterator[bytes]) -> int:
    """Writes records to the partitions in turn, and returns how many there were."""
    counted = itertools.count()
    write(address, topic, ((value, next(counted) % partitions) for value in values))
    return next(counted)


class KafkaStreams(Streams):
    """The sources of an app whose bids come from a topic."""

    def __init__(self, name: str, workload: Workload, address: str, topic: str) -> None:
        super().__init__(name, workload)
        self._address = address
        self._topic = topic

    def source(self, kind: str, columns: Sequence[str]) -> Source:
        return kafka(self._address, self._topic, schema=SCHEMA)
