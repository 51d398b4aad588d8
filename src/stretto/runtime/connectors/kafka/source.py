"""A topic as a source: one split per partition of the topic, read inside the workers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stretto.actors.sink import Sink
from stretto.actors.source import GrowingSource
from stretto.api.memory import as_schema
from stretto.errors import SourceError
from stretto.operators.windows import Duration, duration_us
from stretto.runtime.connectors.kafka.avro import AvroDecoder, SchemaDirectory
from stretto.runtime.connectors.kafka.client import Settings, partitions_of
from stretto.runtime.connectors.kafka.decoding import ArrowDecoder, Decoder, JsonDecoder, RawDecoder, ValueFormat
from stretto.runtime.connectors.kafka.reader import KafkaReader, Stretch, TopicLookout
from stretto.runtime.connectors.kafka.rows import Columns, RowMaker
from stretto.runtime.connectors.kafka.starting import Start, checked_start, stretches

POLL = "2 ms"
DISCOVER = "10 seconds"
RAW = pa.schema([("value", pa.binary())])


class KafkaSource(GrowingSource):
    """The records of a topic. Offsets are worked out when it is checked, and are in checkpoints from then on."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        decoder: Decoder,
        columns: Columns,
        start: Start = "earliest",
        ends: bool = False,
        dead_letters: Sink | None = None,
        poll: Duration = POLL,
        discover: Duration = DISCOVER,
    ) -> None:
        self.settings = dict(settings)
        self.topic = topic
        self.start = checked_start(start)
        self.is_endless = not ends
        self.dead_letters = dead_letters
        self._rows = RowMaker(decoder, columns, dead_letters is not None)
        self._poll_ns = _positive_ns(poll, "the poll interval of a topic")
        self._discover_s = _positive_ns(discover, "the interval of looking for new partitions") / 1e9
        self._stretches: list[Stretch] | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    def check(self) -> None:
        if self._stretches is None:
            self._rows.check()
            partitions = partitions_of(self.settings, self.topic)
            self._stretches = stretches(self.settings, self.topic, partitions, self.start, not self.is_endless)

    def splits(self) -> int:
        return len(self._known())

    def reader(self, partition: int, partitions: int) -> KafkaReader:
        return self._reader(partition, self._known()[partition])

    def newcomer(self, number: int) -> KafkaReader:
        return self._reader(number, Stretch(None))

    def lookout(self) -> TopicLookout:
        return TopicLookout(self.settings, self.topic, self._discover_s)

    def describe(self) -> str:
        return f"topic '{self.topic}' of Kafka at {self.settings['bootstrap.servers']}"

    def _reader(self, number: int, stretch: Stretch) -> KafkaReader:
        return KafkaReader(self.settings, self.topic, number, stretch, self._rows, self._poll_ns)

    def _known(self) -> list[Stretch]:
        self.check()
        assert self._stretches is not None
        return self._stretches


def decoder_of(value: ValueFormat, schema: pa.Schema | str | None, schemas: Any) -> Decoder:
    """Returns the decoder of a format; raises a SourceError if it needs a schema and has none."""
    columns = as_schema(schema)
    if value == "avro":
        if schemas is None:
            raise SourceError("Avro needs the directory of its schemas", None, "Name it with schemas=.")
        return AvroDecoder(columns, SchemaDirectory(schemas))
    if value == "raw":
        return RawDecoder(columns or RAW)
    kinds: dict[str, type[Decoder]] = {"json": JsonDecoder, "arrow": ArrowDecoder}
    if value not in kinds:
        raise SourceError("unknown format of values", repr(value), "Use 'json', 'avro', 'arrow' or 'raw'.")
    if columns is None:
        raise SourceError(
            f"values of {value} need a schema", None, 'Give it with schema=, such as "auction bigint, price bigint".'
        )
    return kinds[value](columns)


def _positive_ns(duration: Duration, what: str) -> int:
    ns = duration_us(duration, what) * 1_000
    if ns <= 0:
        raise SourceError(f"{what} must be positive", f"it is {duration!r}")
    return ns
