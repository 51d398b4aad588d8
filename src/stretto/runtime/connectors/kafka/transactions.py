"""Rows to a topic exactly once: those of a checkpoint in one transaction, when the checkpoint is complete.

Kafka has no two-phase commit for clients: a transaction that was prepared and not committed cannot be taken over by
another process. So the rows are a part of the checkpoint, and are written after it. The transaction also commits an
offset: that of a consumer group of its own, whose offset is no position in the topic, but the number of the checkpoint
whose rows are in. Whoever comes after a failure reads it, and knows whether to write them (ARCHITECTURE.md has the
proof).

A line is all that one partition of a sink has ever written, whoever writes it: its transactional id and its group have
one name. Beginning on a line fences whoever was on it before, and aborts what they had not committed.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pyarrow as pa

from stretto.actors.sink import BackgroundWriter
from stretto.errors import StorageError
from stretto.runtime.connectors.kafka.client import LASTING, Settings, consumer, library, producer, text_of
from stretto.runtime.connectors.kafka.encoding import Encoder
from stretto.runtime.connectors.sealed_rows import SealedPart, SealedRows

PATIENCE_S = 300.0
"""How long Kafka may not take the rows of a checkpoint before the job fails; it can be resumed."""

CALL_S = 30.0
"""How long one call of the client may take."""
RETRY_S = 0.2


class TransactionalWriter(SealedRows, BackgroundWriter):
    """Holds the rows of one partition until a checkpoint has them, and writes them in the background."""

    def __init__(
        self, settings: Settings, topic: str, encoder: Encoder, schema: pa.Schema, name: str, partition: int
    ) -> None:
        super().__init__(schema, partition)
        self._settings = settings
        self._topic = topic
        self._encoder = encoder
        self._name = name
        self._lines: dict[int, Line] = {}
        self._closed = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"stretto-{topic}")
        self._underway: Future[None] | None = None
        self._since = 0.0

    def publishes(self, checkpoint: int, part: SealedPart) -> bool:
        if self._underway is None:
            partition, rows = part
            self._since = time.monotonic()
            self._underway = self._pool.submit(self._publish, partition, checkpoint, rows)
            return False
        if self._underway.done():
            self._underway.result()
            self._underway = None
            return True
        if time.monotonic() - self._since > PATIENCE_S:
            raise self._stuck(checkpoint, part[0])
        return False

    def close(self) -> None:
        self._closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _publish(self, partition: int, checkpoint: int, rows: pa.Table) -> None:
        line = self._lines.get(partition)
        if line is None:
            line = self._lines[partition] = Line(self._settings, self._topic, f"{self._name}-{partition}", self._closed)
        line.publish(checkpoint, rows, self._encoder)

    def _stuck(self, checkpoint: int, partition: int) -> StorageError:
        line = self._lines.get(partition)
        return StorageError(
            f"Kafka has not taken the rows of checkpoint {checkpoint} for {PATIENCE_S:.0f} s",
            f"topic '{self._topic}' at {self._settings['bootstrap.servers']}: {line.trouble if line else 'no answer'}",
            "When Kafka is back, submit the app again with the same checkpoint directory: no row is lost.",
        )


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
        self.trouble = "no answer"

    def publish(self, checkpoint: int, rows: pa.Table, encoder: Encoder) -> None:
        """Returns when the rows of a checkpoint are in; they are written unless they were in already."""
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
                self.trouble = text_of(error)
                if error.args[0].name() in LASTING:
                    raise StorageError(
                        f"topic '{self._topic}' does not take the rows of checkpoint {checkpoint}",
                        self.trouble,
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
