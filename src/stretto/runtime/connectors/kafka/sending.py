"""Rows to a topic at least once: each is sent when it comes, and what is not acknowledged yet is in the checkpoint.

So neither a row nor a checkpoint waits for Kafka. After a failure the rows since the last checkpoint are sent again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from stretto.actors.sink import BackgroundWriter, SinkWriter
from stretto.errors import StorageError
from stretto.runtime.connectors.kafka.client import Settings, producer, text_of
from stretto.runtime.connectors.kafka.encoding import Encoder
from stretto.state.schemas import check_rows

PATIENCE_S = 300.0
"""How long rows wait for room in the client, or for their acknowledgement."""


class _Sent:
    """A batch that was sent, and how many of its records are not acknowledged yet."""

    __slots__ = ("batch", "number", "open")

    def __init__(self, number: int, batch: pa.RecordBatch) -> None:
        self.number = number
        self.batch = batch
        self.open = 0


class Outbox:
    """Sends batches in their order. Those before number `acknowledged` are in the topic."""

    def __init__(self, settings: Settings, topic: str, encoder: Encoder) -> None:
        self._settings = settings
        self._topic = topic
        self._encoder = encoder
        self._producer: Any = None
        self._sent: deque[_Sent] = deque()
        self._error: Any = None
        self.next = 0
        """The number of the next batch."""

    @property
    def acknowledged(self) -> int:
        return self._sent[0].number if self._sent else self.next

    def send(self, batch: pa.RecordBatch) -> None:
        if self._producer is None:
            self._producer = producer(self._settings)
        sent = _Sent(self.next, batch)
        self.next += 1
        # While it is being sent, its own acknowledgements must not complete it.
        sent.open = 1
        self._sent.append(sent)
        on_delivery = self._acknowledging(sent)
        for key, value, stamp_ms, headers in self._encoder.records(batch):
            sent.open += 1
            self._produce(key, value, stamp_ms, headers, on_delivery)
        sent.open -= 1
        self.serve()

    def serve(self) -> None:
        """Takes notice of acknowledgements; raises an error if Kafka has refused a record."""
        if self._producer is not None:
            self._producer.poll(0)
        if self._error is not None:
            raise self._refused()
        while self._sent and not self._sent[0].open:
            self._sent.popleft()

    def unacknowledged(self) -> list[pa.RecordBatch]:
        self.serve()
        return [sent.batch for sent in self._sent]

    def flush(self) -> None:
        """Waits until all is acknowledged."""
        deadline = time.monotonic() + PATIENCE_S
        self.serve()
        while self._sent:
            self._producer.flush(0.1)
            self.serve()
            if time.monotonic() > deadline:
                raise self._full()

    def _produce(
        self, key: bytes | None, value: bytes, stamp_ms: int, headers: Any, on_delivery: Callable[[Any, Any], None]
    ) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._producer.produce(
                    self._topic, value, key, timestamp=stamp_ms, headers=headers, on_delivery=on_delivery
                )
                return
            except BufferError:
                self._producer.poll(0.05)
                if self._error is not None or time.monotonic() > deadline:
                    raise self._refused() if self._error is not None else self._full() from None

    def _acknowledging(self, sent: _Sent) -> Callable[[Any, Any], None]:
        def acknowledged(error: Any, message: Any) -> None:
            if error is None:
                sent.open -= 1
            else:
                self._error = error

        return acknowledged

    def _refused(self) -> StorageError:
        return StorageError(
            f"topic '{self._topic}' does not take a record",
            text_of(self._error),
            "Correct the topic, or the permissions of the user; then submit the app again.",
        )

    def _full(self) -> StorageError:
        return StorageError(
            f"Kafka has not taken rows for {PATIENCE_S:.0f} s",
            f"topic '{self._topic}' at {self._settings['bootstrap.servers']}",
            "Submit the app again when Kafka is back.",
        )


class SendingWriter(SinkWriter):
    """Sends rows in a job without checkpoints."""

    def __init__(self, settings: Settings, topic: str, encoder: Encoder) -> None:
        self._outbox = Outbox(settings, topic, encoder)

    def write(self, batch: pa.RecordBatch) -> None:
        self._outbox.send(batch)

    def finish(self) -> None:
        self._outbox.flush()


class SendingCheckpointed(BackgroundWriter):
    """Sends rows in a job with checkpoints. A checkpoint has those that were not acknowledged at its mark; they are
    published when they are. Whoever resumes from it sends them again."""

    def __init__(self, settings: Settings, topic: str, encoder: Encoder, schema: pa.Schema) -> None:
        self._outbox = Outbox(settings, topic, encoder)
        self._schema = schema
        self._awaited: dict[int, tuple[Any, int]] = {}
        """By the identity of a part that is on its way: the part, and the number of the batch after it."""

    def write(self, batch: pa.RecordBatch) -> None:
        self._outbox.send(batch)

    def seal(self, checkpoint: int) -> pa.Table | None:
        open_batches = self._outbox.unacknowledged()
        if not open_batches:
            return None
        part = pa.Table.from_batches(open_batches, self._schema)
        self._awaited[id(part)] = (part, self._outbox.next)
        return part

    def check_part(self, part: Any) -> None:
        check_rows(part, self._schema)

    def publishes(self, checkpoint: int, part: pa.Table) -> bool:
        if id(part) not in self._awaited:
            for batch in part.to_batches():
                self._outbox.send(batch)
            self._awaited[id(part)] = (part, self._outbox.next)
        self._outbox.serve()
        if self._outbox.acknowledged < self._awaited[id(part)][1]:
            return False
        del self._awaited[id(part)]
        return True

    def withdraw(self, checkpoint: int) -> None:
        """What later checkpoints had sent stays: it is sent again, at least once."""

    def discard_leftovers(self) -> None:
        """What earlier attempts had sent stays."""
