"""A topic as a sink: exactly once through transactions, or at least once without delay."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa

from stretto.actors.address import Attempt
from stretto.actors.sink import BackgroundWriter, Sink, SinkWriter
from stretto.errors import UserError
from stretto.runtime.connectors.kafka.avro import SchemaDirectory
from stretto.runtime.connectors.kafka.client import Settings, partitions_of
from stretto.runtime.connectors.kafka.encoding import Encoder, Layout
from stretto.runtime.connectors.kafka.sending import SendingCheckpointed, SendingWriter
from stretto.runtime.connectors.kafka.transactions import TransactionalWriter

Guarantee = Literal["exactly-once", "at-least-once"]


class KafkaSink(Sink):
    """Writes rows as records of a topic."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        layout: Layout,
        guarantee: Guarantee = "exactly-once",
        schemas: SchemaDirectory | None = None,
        schema_number: int | None = None,
        function: str = "",
    ) -> None:
        if guarantee not in ("exactly-once", "at-least-once"):
            raise UserError("unknown guarantee", repr(guarantee), "Use 'exactly-once' or 'at-least-once'.")
        if layout.value not in ("json", "avro", "arrow", "raw"):
            raise UserError("unknown format of values", repr(layout.value), "Use 'json', 'avro', 'arrow' or 'raw'.")
        if layout.value == "avro" and schemas is None:
            raise UserError("Avro needs the directory of its schemas", None, "Name it with schemas=.")
        self.settings = dict(settings)
        self.topic = topic
        self.layout = layout
        self.guarantee = guarantee
        self.function = function
        self.takes_updates = bool(layout.key)
        self.irrevocable = guarantee == "exactly-once"
        self._schemas = schemas
        self._schema_number = schema_number

    def check(self, schema: pa.Schema) -> None:
        self._encoder(schema)
        partitions_of(self.settings, self.topic)

    def within(self, function: str) -> KafkaSink:
        return KafkaSink(
            self.settings, self.topic, self.layout, self.guarantee, self._schemas, self._schema_number, function
        )

    def writer(self, schema: pa.Schema, partition: int, partitions: int) -> SinkWriter:
        if self.guarantee == "exactly-once":
            raise UserError(
                f"exactly once to topic '{self.topic}' needs checkpoints",
                "a transaction is committed with a checkpoint",
                "Submit with checkpoint=, or use guarantee='at-least-once'.",
            )
        return SendingWriter(self.settings, self.topic, self._encoder(schema))

    def checkpointed_writer(
        self, schema: pa.Schema, partition: int, partitions: int, attempt: Attempt
    ) -> BackgroundWriter:
        if self.guarantee == "at-least-once":
            return SendingCheckpointed(self.settings, self.topic, self._encoder(schema), schema)
        name = f"stretto-{attempt.lineage}-{self.function}"
        return TransactionalWriter(self.settings, self.topic, self._encoder(schema), schema, name, partition)

    def _encoder(self, schema: pa.Schema) -> Encoder:
        return Encoder(self.layout, schema, self._schemas, self._schema_number)

    def describe(self) -> str:
        return f"topic '{self.topic}' of Kafka at {self.settings['bootstrap.servers']} ({self.guarantee})"
