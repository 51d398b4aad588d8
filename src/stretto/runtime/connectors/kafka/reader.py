"""Reads one partition of a topic. The position is the offset of the next record.

The client fetches in the background, so a read never waits: it takes what is there, at most so many records, and
decodes them together. While brokers are away there is nothing to take, and the client connects again by itself.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stretto.actors.source import Lookout, Reading, SourceReader
from stretto.errors import SourceError, StrettoError
from stretto.runtime.connectors.kafka.client import Settings, can_mend, consumer, library, partitions_of, text_of
from stretto.runtime.connectors.kafka.rows import Records, RowMaker

LOOK_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Stretch:
    """What is read of a partition: from an offset on, or from the first one that is still there, to an end or for
    ever."""

    first: int | None
    end: int | None = None


class KafkaReader(SourceReader):
    """Reads a stretch of a partition."""

    def __init__(
        self, settings: Settings, topic: str, partition: int, stretch: Stretch, rows: RowMaker, poll_ns: int
    ) -> None:
        self.position = stretch.first or 0
        self._settings = settings
        self._topic = topic
        self._partition = partition
        self._end = stretch.end
        self._rows = rows
        self._poll_ns = poll_ns
        self._from_beginning = stretch.first is None
        self._consumer: Any = None
        self._opened_ns = 0

    def read(self, now_ns: int, max_rows: int) -> Reading:
        if self._end is not None and self.position >= self._end:
            self.close()
            return Reading(None, now_ns, done=True)
        if self._consumer is None:
            self._open(now_ns)
        messages = self._consumer.consume(max_rows, 0)
        taken = [message for message in messages if message.error() is None]
        if len(taken) < len(messages):
            for message in messages:
                if message.error() is not None:
                    self._on_error(message)
        if self._end is not None and taken and taken[-1].offset() >= self._end:
            taken = [message for message in taken if message.offset() < self._end]
            self.position = self._end
        next_ns = now_ns + self._poll_ns if len(messages) < max_rows else None
        if not taken:
            return Reading(None, now_ns, next_ns=next_ns)
        batch = self._batch(taken)
        self._from_beginning = False
        self.position = max(self.position, taken[-1].offset() + 1)
        return Reading(batch, self._arrived_ns(taken[-1], now_ns), next_ns=next_ns)

    def seek(self, position: int) -> None:
        self.close()
        self.position = position
        # Nothing has been read: then retention may have removed the first records since.
        self._from_beginning = position == 0

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _open(self, now_ns: int) -> None:
        kafka = library()
        first = kafka.OFFSET_BEGINNING if self._from_beginning else self.position
        self._consumer = consumer({**self._settings, "enable.partition.eof": self._end is not None})
        self._consumer.assign([kafka.TopicPartition(self._topic, self._partition, first)])
        self._opened_ns = now_ns

    def _batch(self, messages: list[Any]) -> pa.RecordBatch:
        rows = self._rows
        records = Records(
            self._topic,
            self._partition,
            [message.value() for message in messages],
            [message.offset() for message in messages],
            [_timestamp_ms(message) for message in messages],
        )
        if rows.wants_keys:
            records.keys = [message.key() for message in messages]
        if rows.wants_headers:
            records.headers = [message.headers() for message in messages]
        return rows.rows(records)

    def _arrived_ns(self, message: Any, now_ns: int) -> int:
        """Returns when a record arrived: its timestamp, if that can be. Timestamps of producers may be of any time, as
        in a replay; one from before this reader was opened says nothing of when its record was due."""
        stamp_ms = _timestamp_ms(message)
        stamp_ns = 0 if stamp_ms is None else stamp_ms * 1_000_000
        return stamp_ns if self._opened_ns <= stamp_ns <= now_ns else now_ns

    def _on_error(self, message: Any) -> None:
        error = message.error()
        if error.name() == "_PARTITION_EOF":
            # What lies between the last record and the end are marks of transactions.
            self.position = max(self.position, message.offset())
        elif error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
            raise SourceError(
                f"topic '{self._topic}' has no offset {self.position} in partition {self._partition}",
                f"{text_of(error)}; the records may have been removed before they were read",
                "Keep them for longer (retention.ms), or start without the checkpoint at start='earliest'.",
            )
        elif not can_mend(error):
            raise SourceError(
                f"topic '{self._topic}' cannot be read any more",
                f"partition {self._partition}, offset {self.position}: {text_of(error)}",
                "Check the topic and the permissions of the user.",
            )


def _timestamp_ms(message: Any) -> int | None:
    kind, stamp_ms = message.timestamp()
    return stamp_ms if kind else None


class TopicLookout(Lookout):
    """Asks in a thread how many partitions a topic has, every so often."""

    def __init__(self, settings: Settings, topic: str, every_s: float) -> None:
        self._settings = settings
        self._topic = topic
        self._every_s = every_s
        self._found = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._look, name=f"stretto-lookout-{topic}", daemon=True)
        self._thread.start()

    def splits(self) -> int:
        return self._found

    def close(self) -> None:
        self._closed.set()

    def _look(self) -> None:
        while not self._closed.wait(self._every_s):
            with suppress(StrettoError):  # Brokers that are away now are asked again.
                self._found = partitions_of(self._settings, self._topic, LOOK_TIMEOUT_S)
