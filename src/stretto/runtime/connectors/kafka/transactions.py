"""Rows to a topic exactly once: those of a checkpoint in one transaction, when the checkpoint is complete.

Kafka has no two-phase commit for clients: a transaction that was prepared and not committed cannot be taken over by
another process. So the rows are a part of the checkpoint, and are written after it. The transaction also commits an
offset: that of a consumer group of its own, whose offset is no position in the topic, but the number of the checkpoint
whose rows are in. Whoever comes after a failure reads it, and knows whether to write them (docs/design/connectors.md
has the proof).

A line is all that one partition of a sink has ever written, whoever writes it: its transactional id and its group have
one name. Beginning on a line fences whoever was on it before, and aborts what they had not committed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa

from stretto.errors import StorageError
from stretto.runtime.connectors.kafka.client import LASTING, Settings, consumer, library, producer, text_of
from stretto.runtime.connectors.kafka.encoding import Encoder
from stretto.runtime.connectors.sealed_rows import PublishedOutside

CALL_S = 30.0
"""How long one call of the client may take."""
RETRY_S = 0.2


class TransactionalWriter(PublishedOutside):
    """Writes the rows of one partition in transactions."""

    def __init__(
        self, settings: Settings, topic: str, encoder: Encoder, schema: pa.Schema, name: str, partition: int
    ) -> None:
        super().__init__(schema, partition, f"topic '{topic}' of Kafka at {settings['bootstrap.servers']}")
        self._settings = settings
        self._topic = topic
        self._encoder = encoder
        self._name = name
        self._lines: dict[int, Line] = {}

    def publish_outside(self, partition: int, checkpoint: int, rows: pa.Table) -> None:
        line = self._lines.get(partition)
        if line is None:
            line = self._lines[partition] = Line(self._settings, self._topic, f"{self._name}-{partition}", self.closed)
        line.publish(checkpoint, rows, self._encoder, self._note)

    def _note(self, trouble: str) -> None:
        self.trouble = trouble


class Line:
    """What one partition of a sink writes, in transactions; one at a time is on it."""

    def __init__(self, settings: Settings, topic: str, name: str, closed: threading.Event) -> None:
        self._settings = settings
        self._topic = topic
        self._name = name
        self._closed = closed
        self._producer: Any = None
        self._marker: Any = None
        self._written = 0
        """The last checkpoint whose rows are in; true while this is on the line."""

    def publish(
        self, checkpoint: int, rows: pa.Table, encoder: Encoder, note: Callable[[str], None] = lambda trouble: None
    ) -> None:
        """Returns when the rows of a checkpoint are in; they are written unless they were in already. `note` is told
        what went wrong before it is tried again."""
        kafka = library()
        while not self._closed.is_set():
            try:
                if self._producer is None:
                    self._begin(kafka)
                if checkpoint > self._written:
                    self._transact(kafka, checkpoint, rows, encoder)
                    self._written = checkpoint
                return
            except kafka.KafkaException as error:
                # Whether the transaction was committed is not known here. Whoever begins again learns it.
                self._leave()
                note(text_of(error))
                if error.args[0].name() in LASTING:
                    raise StorageError(
                        f"topic '{self._topic}' does not take the rows of checkpoint {checkpoint}",
                        text_of(error),
                        "Correct the topic, or the permissions of the user; then submit the app again.",
                    ) from error
                self._closed.wait(RETRY_S)

    def _begin(self, kafka: Any) -> None:
        """Begins on the line. From here on nobody else can commit on it without fencing this, so what the marker says
        now stays true until a commit fails."""
        self._producer = producer({**self._settings, "transactional.id": self._name})
        self._producer.init_transactions(CALL_S)
        self._marker = consumer({**self._settings, "group.id": self._name, "isolation.level": "read_committed"})
        (marker,) = self._marker.committed([kafka.TopicPartition(self._topic, 0)], timeout=CALL_S)
        if marker.error is not None:
            raise kafka.KafkaException(marker.error)
        self._written = max(0, marker.offset)

    def _transact(self, kafka: Any, checkpoint: int, rows: pa.Table, encoder: Encoder) -> None:
        self._producer.begin_transaction()
        for batch in rows.to_batches():
            for key, value, stamp_ms, headers in encoder.records(batch):
                self._produce(key, value, stamp_ms, headers)
        marker = kafka.TopicPartition(self._topic, 0, checkpoint, "the last checkpoint whose rows are in the topic")
        self._producer.send_offsets_to_transaction([marker], self._marker.consumer_group_metadata(), CALL_S)
        self._producer.commit_transaction(CALL_S)

    def _produce(self, key: bytes | None, value: bytes, stamp_ms: int, headers: Any) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, key, timestamp=stamp_ms, headers=headers)
                return
            except BufferError:
                self._producer.poll(0.05)

    def _leave(self) -> None:
        marker, self._marker, self._producer = self._marker, None, None
        if marker is not None:
            with suppress(RuntimeError):
                marker.close()
