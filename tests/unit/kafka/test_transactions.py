"""Rows of checkpoints are in a topic once, whatever fails and whoever else writes them: against a model of Kafka.

The model is Kafka's own contract: beginning on a transactional id ends what its last owner had under way (what was
committed stays, what was not is aborted) and refuses whatever that owner does later; records and offsets of a
transaction become visible together. Any call may fail, before or after it took effect.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from stretto.errors import StorageError
from stretto.runtime.connectors.kafka import transactions
from stretto.runtime.connectors.kafka.encoding import Encoder, Layout
from stretto.runtime.connectors.kafka.transactions import Line, TransactionalWriter

SCHEMA = pa.schema([("n", pa.int64())])
SETTINGS = {"bootstrap.servers": "model"}


class KafkaError:
    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        return self._name

    def str(self) -> str:
        return self._name.lower()


class KafkaException(Exception):
    pass


class TopicPartition:
    def __init__(self, topic: str, partition: int, offset: int = -1001, metadata: str = "") -> None:
        self.topic, self.partition, self.offset, self.error = topic, partition, offset, None


class Model:
    """Kafka, and the module confluent_kafka."""

    KafkaException = KafkaException
    TopicPartition = TopicPartition

    def __init__(self, chance: random.Random, faults: float) -> None:
        self.chance, self.faults = chance, faults
        self.records: list[bytes] = []
        self.markers: dict[str, int] = {}
        self.owners: dict[str, int] = {}
        self.lasting: str | None = None

    def trouble(self) -> None:
        if self.lasting is not None:
            raise KafkaException(KafkaError(self.lasting))
        if self.chance.random() < self.faults:
            raise KafkaException(KafkaError("_TRANSPORT"))

    def producer(self, settings: dict[str, Any]) -> Producer:
        return Producer(self, settings["transactional.id"])

    def consumer(self, settings: dict[str, Any]) -> Group:
        return Group(self, settings["group.id"])


class Group:
    def __init__(self, model: Model, name: str) -> None:
        self._model, self.name = model, name

    def committed(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self._model.trouble()
        return [TopicPartition(each.topic, 0, self._model.markers.get(self.name, -1001)) for each in asked]

    def consumer_group_metadata(self) -> str:
        return self.name

    def close(self) -> None:
        pass


class Producer:
    def __init__(self, model: Model, name: str) -> None:
        self._model, self._name, self._epoch = model, name, 0
        self._records: list[bytes] = []
        self._markers: dict[str, int] = {}

    def init_transactions(self, timeout: float) -> None:
        self._model.trouble()
        self._epoch = self._model.owners[self._name] = self._model.owners.get(self._name, 0) + 1
        self._model.trouble()

    def begin_transaction(self) -> None:
        self._records, self._markers = [], {}

    def produce(self, topic: str, value: bytes, key: Any, timestamp: int, headers: Any) -> None:
        self._check()
        self._records.append(value)

    def send_offsets_to_transaction(self, offsets: list[TopicPartition], group: str, timeout: float) -> None:
        self._check()
        self._markers[group] = offsets[0].offset

    def commit_transaction(self, timeout: float) -> None:
        self._check()
        self._model.records += self._records
        self._model.markers.update(self._markers)
        self._model.trouble()

    def _check(self) -> None:
        if self._model.owners[self._name] != self._epoch:
            raise KafkaException(KafkaError("_FENCED"))
        self._model.trouble()


def use(monkeypatch: pytest.MonkeyPatch, model: Model) -> None:
    monkeypatch.setattr(transactions, "library", lambda: model)
    monkeypatch.setattr(transactions, "producer", model.producer)
    monkeypatch.setattr(transactions, "consumer", model.consumer)
    monkeypatch.setattr(transactions, "RETRY_S", 0.0)


def rows(checkpoint: int) -> pa.Table:
    return pa.table({"n": [10 * checkpoint, 10 * checkpoint + 1]}, schema=SCHEMA)


def encoder() -> Encoder:
    return Encoder(Layout("json"), SCHEMA, None)


def line(closed: threading.Event | None = None) -> Line:
    return Line(SETTINGS, "out", "stretto-0123abcd-out-0", closed or threading.Event())


@pytest.mark.parametrize("seed", range(60))
def test_rows_are_in_once_whatever_fails_and_whoever_else_writes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    model = Model(chance, faults=0.2)
    use(monkeypatch, model)
    writers = [line()]
    for checkpoint in range(1, 12):
        # Some process has this checkpoint to publish; others, that were replaced, publish it and earlier ones too.
        for _ in range(chance.randint(1, 3)):
            if chance.random() < 0.3:
                writers.append(line())
            chance.choice(writers).publish(checkpoint, rows(checkpoint), encoder())
        late = chance.randint(1, checkpoint)
        chance.choice(writers).publish(late, rows(late), encoder())
    expected = [f'{{"n":{n}}}'.encode() for c in range(1, 12) for n in (10 * c, 10 * c + 1)]
    assert model.records == expected


def test_a_marker_that_is_no_part_of_the_transaction_would_repeat_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model can tell: with the marker left out of transactions, some seed has rows twice."""
    twice = 0
    for seed in range(20):
        model = Model(random.Random(seed), faults=0.2)
        use(monkeypatch, model)
        monkeypatch.setattr(Producer, "send_offsets_to_transaction", lambda *_: None)
        for checkpoint in (1, 2, 3):
            line().publish(checkpoint, rows(checkpoint), encoder())
            line().publish(checkpoint, rows(checkpoint), encoder())
        twice += max(Counter(model.records).values()) > 1
    assert twice


def test_what_trying_again_cannot_help_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(random.Random(1), faults=0.0)
    use(monkeypatch, model)
    model.lasting = "TOPIC_AUTHORIZATION_FAILED"
    with pytest.raises(StorageError, match="topic 'out' does not take the rows of checkpoint 1"):
        line().publish(1, rows(1), encoder())


def test_a_writer_that_is_closed_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(random.Random(1), faults=1.0)
    use(monkeypatch, model)
    closed = threading.Event()
    trying = threading.Thread(target=line(closed).publish, args=(1, rows(1), encoder()))
    trying.start()
    closed.set()
    trying.join(600)
    assert not trying.is_alive()
    assert model.records == []


def test_a_part_is_written_on_the_line_of_the_partition_that_sealed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(random.Random(1), faults=0.1)
    use(monkeypatch, model)
    former = TransactionalWriter(SETTINGS, "out", encoder(), SCHEMA, "job", 3)
    former.write(rows(1).to_batches()[0])
    part = former.seal(1)
    assert former.seal(2) is None
    follower = TransactionalWriter(SETTINGS, "out", encoder(), SCHEMA, "job", 1)
    follower.check_part(part)
    for writer in (follower, former):  # The former one does not know that it was replaced.
        while not writer.publishes(1, part):
            pass
        writer.close()
    assert model.records == [b'{"n":10}', b'{"n":11}']
    assert model.markers == {"job-3": 1}


@pytest.mark.parametrize("part", [None, [1], [-1, rows(1)], [0, pa.table({"m": [1]})]], ids=str)
def test_a_part_of_a_checkpoint_that_is_not_its_own_is_refused(part: Any) -> None:
    writer = TransactionalWriter(SETTINGS, "out", encoder(), SCHEMA, "job", 0)
    with pytest.raises(Exception):  # noqa: B017, PT011
        writer.check_part(part)
