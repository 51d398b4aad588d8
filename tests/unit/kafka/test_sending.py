"""Rows sent at least once: what is not acknowledged is in the checkpoint, and whoever resumes sends it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from stretto.errors import StorageError
from stretto.runtime.connectors.kafka import sending
from stretto.runtime.connectors.kafka.encoding import Encoder, Layout
from stretto.runtime.connectors.kafka.sending import SendingCheckpointed, SendingWriter

SCHEMA = pa.schema([("n", pa.int64())])


class Refusal:
    def name(self) -> str:
        return "MSG_SIZE_TOO_LARGE"

    def str(self) -> str:
        return "too large"


class Client:
    """A producer with room for `room` records, whose broker acknowledges when it is told to."""

    def __init__(self, room: int = 1_000) -> None:
        self.sent: list[bytes] = []
        self._open: list[Callable[[Any, Any], None]] = []
        self._room = room
        self.answers = False
        self.refusal: Refusal | None = None

    def produce(self, topic: str, value: bytes, key: Any, timestamp: int, headers: Any, on_delivery: Any) -> None:
        if len(self._open) >= self._room:
            raise BufferError
        self.sent.append(value)
        self._open.append(on_delivery)

    def poll(self, timeout: float) -> None:
        if self.answers or timeout:
            due, self._open = self._open, []
            for acknowledge in due:
                acknowledge(self.refusal, None)

    flush = poll


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()
    monkeypatch.setattr(sending, "producer", lambda settings: made)
    return made


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([list(numbers)], schema=SCHEMA)


def writer() -> SendingCheckpointed:
    return SendingCheckpointed({"bootstrap.servers": "none"}, "out", Encoder(Layout("json"), SCHEMA, None), SCHEMA)


def test_rows_are_sent_at_once_and_are_in_the_checkpoint_until_they_are_acknowledged(client: Client) -> None:
    sender = writer()
    sender.write(batch(1, 2))
    assert client.sent == [b'{"n":1}', b'{"n":2}']
    part = sender.seal(1)
    assert part is not None
    sender.check_part(part)
    assert part.to_pylist() == [{"n": 1}, {"n": 2}]
    assert not sender.publishes(1, part)
    sender.write(batch(3))
    client.answers = True
    assert sender.publishes(1, part)
    assert sender.seal(2) is None
    assert len(client.sent) == 3, "the same process sends nothing again"


def test_whoever_resumes_sends_what_was_not_acknowledged_again(client: Client) -> None:
    former, later = writer(), writer()
    former.write(batch(1))
    part = former.seal(1)
    assert part is not None
    assert not later.publishes(1, part)
    assert not later.publishes(1, part)
    client.answers = True
    assert later.publishes(1, part)
    assert client.sent == [b'{"n":1}'] * 2


def test_a_full_client_makes_the_writer_wait_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Client(room=2)
    monkeypatch.setattr(sending, "producer", lambda settings: small)
    sender = SendingWriter({"bootstrap.servers": "none"}, "out", Encoder(Layout("json"), SCHEMA, None))
    sender.write(batch(*range(7)))
    sender.finish()
    assert small.sent == [b'{"n":%d}' % number for number in range(7)]


def test_a_record_that_is_refused_fails_the_job(client: Client) -> None:
    client.refusal, client.answers = Refusal(), True
    with pytest.raises(StorageError, match=r"topic 'out' does not take a record: too large \(MSG_SIZE_TOO_LARGE\)"):
        writer().write(batch(1))
