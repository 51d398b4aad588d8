"""Kafka for real: a broker that is restarted, and workers that are killed. The pure twins: tests/unit/kafka."""

from __future__ import annotations

import datetime
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S, eventually

from stretto import App, Cluster, Job, sinks, sources, tumbling
from stretto.actors.source import Reading, SourceReader
from stretto.bench.kafka import latency
from stretto.bench.kafka.broker import Broker, broker
from stretto.bench.kafka.topics import read_committed, wait_for_partitions, write
from stretto.coordinator.records import JobStatus
from stretto.errors import SourceError, UserError
from stretto.runtime.connectors.kafka.client import admin_client, library
from stretto.runtime.connectors.kafka.encoding import Encoder, Layout
from stretto.runtime.connectors.kafka.source import KafkaSource
from stretto.runtime.connectors.kafka.transactions import TransactionalWriter

SCHEMA = "k bigint, v bigint, t timestamp"
NUMBERS = pa.schema([("n", pa.int64())])


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with broker() as started:
        yield started


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=2, parked=1, lost_after="30 s") as started:
        yield started


def row(number: int) -> dict[str, Any]:
    when = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=10 * number)
    return {"k": number % 7, "v": number, "t": when.isoformat()}


def put(kafka: Broker, topic: str, numbers: range, partitions: int) -> None:
    """Writes rows to the partitions in turn."""
    write(kafka.address, topic, [(json.dumps(row(each)).encode(), each % partitions) for each in numbers])


def add_partition(kafka: Broker, topic: str, partitions: int) -> None:
    """Gives a topic one more partition, so that it has so many."""
    admin = admin_client({"bootstrap.servers": kafka.address})
    admin.create_partitions([library().admin.NewPartitions(topic, partitions)])[topic].result()
    wait_for_partitions(kafka.address, topic, partitions)


def objects(kafka: Broker, topic: str) -> list[dict[str, Any]]:
    return [json.loads(value) for value in read_committed(kafka.address, topic)]


def kill_a_busy_worker(cluster: Cluster, job: Job) -> None:
    """Kills a worker, and returns when the job has recovered from it."""
    recoveries = job.checkpoints.recoveries
    victims = eventually(lambda: sorted(cluster.busy_workers & {member.name for member in cluster.workers}))
    os.kill(next(member.pid for member in cluster.workers if member.name == victims[0]), signal.SIGKILL)
    eventually(lambda: job.checkpoints.recoveries > recoveries)
    eventually(lambda: job.status is JobStatus.RUNNING)


def test_rows_are_in_the_topics_exactly_once(cluster: Cluster, kafka: Broker, tmp_path: Path) -> None:
    """Workers are killed, the broker is killed, the topic gets another partition, and some records are malformed."""
    for topic, partitions in (("in", 2), ("out", 2), ("sums", 1), ("dead", 1)):
        kafka.create_topic(topic, partitions)
    letters = sinks.kafka(kafka.address, "dead")
    source = sources.kafka(kafka.address, "in", schema=SCHEMA, dead_letters=letters, discover="100 ms", offset="at")
    app = App("story", parallelism=2)
    rows = app.source("rows", source, time="t", delay="1 hour")
    rows.filter("v % 2 = 0").select("v", "at").sink(sinks.kafka(kafka.address, "out", key="v"), name="out")
    sums = rows.key_by("k").window(tumbling("1 second")).aggregate(n="count(*)", total="sum(v)")
    sums.sink(sinks.kafka(kafka.address, "sums"), name="sums")
    job = cluster.submit(app, checkpoint=tmp_path / "checkpoints", every="300 ms")

    def written_up_to(number: int) -> None:
        eventually(lambda: len(read_committed(kafka.address, "out")) >= number // 2, what=f"{number} rows read")

    put(kafka, "in", range(0, 1000), 2)
    written_up_to(500)
    kill_a_busy_worker(cluster, job)
    put(kafka, "in", range(1000, 2000), 2)
    write(kafka.address, "in", [(b"oops", 0), (b'{"v":"x"}', 1)])
    add_partition(kafka, "in", 3)
    put(kafka, "in", range(2000, 3000), 3)
    written_up_to(3000)
    kafka.stop()
    kill_a_busy_worker(cluster, job)
    kafka.start()
    put(kafka, "in", range(3000, 4000), 3)
    written_up_to(4000)
    job.stop(drain=True)
    assert job.wait(WAIT_S).status is JobStatus.FINISHED
    assert sorted(each["v"] for each in objects(kafka, "out")) == list(range(0, 4000, 2))
    expected = Counter[tuple[int, int]]()
    for number in range(4000):
        expected[number % 7, number // 100] += number
    totals = [(each["k"], each["window_start"], each["total"]) for each in objects(kafka, "sums")]
    assert sorted(total for *_, total in totals) == sorted(expected.values())
    assert len(totals) == len(set(totals)) == len(expected)
    dead = {(each["partition"], each["error"].split(" (")[0]) for each in objects(kafka, "dead")}
    assert len(objects(kafka, "dead")) == 2
    assert dead == {
        (0, "is not JSON"),
        (1, "column 'v' should be int64, but is \"x\""),
    }


def test_a_malformed_record_fails_the_job_and_is_named(cluster: Cluster, kafka: Broker) -> None:
    kafka.create_topic("bad", 1)
    write(kafka.address, "bad", [(json.dumps(row(1)).encode(), 0), (b"oops", 0)])
    app = App("bad")
    app.source("rows", sources.kafka(kafka.address, "bad", schema=SCHEMA)).sink(sinks.collect(), name="out")
    with pytest.raises(SourceError, match="a record of topic 'bad' is malformed: partition 0, offset 1: is not JSON"):
        cluster.submit(app).wait(WAIT_S)


def test_at_least_once_without_checkpoints_has_all_rows_and_exactly_once_is_refused(
    cluster: Cluster, kafka: Broker
) -> None:
    kafka.create_topic("all", 2)
    kafka.create_topic("copy", 1)
    put(kafka, "all", range(500), 2)

    def copied(guarantee: Any) -> App:
        app = App("copy")
        rows = app.source("rows", sources.kafka(kafka.address, "all", schema=SCHEMA, until="latest"))
        rows.sink(sinks.kafka(kafka.address, "copy", guarantee=guarantee), name="out")
        return app

    with pytest.raises(UserError, match="sink 'out' needs checkpoints"):
        cluster.submit(copied("exactly-once"))
    assert cluster.submit(copied("at-least-once")).wait(WAIT_S).status is JobStatus.FINISHED
    assert sorted(each["v"] for each in objects(kafka, "copy")) == list(range(500))


# Without Spark, since the broker is here: readers and writers as the workers have them.


def read_all(reader: SourceReader) -> list[int]:
    """Returns the first column of a reader's rows, up to its end."""
    found: list[int] = []

    def done() -> bool:
        reading: Reading = reader.read(0, 7)
        if reading.batch is not None:
            found.extend(reading.batch.column(0).to_pylist())
        return reading.done

    eventually(done)
    reader.close()
    return found


def test_it_starts_where_it_is_told_and_again_from_a_position(kafka: Broker) -> None:
    kafka.create_topic("times", 2)
    write(kafka.address, "times", [(b'{"n":%d}' % each, 0, 1_000 * each) for each in range(1, 21)])

    def source(start: Any) -> KafkaSource:
        found = sources.kafka(kafka.address, "times", schema=NUMBERS, start=start, until="latest")
        found.check()
        return found

    assert read_all(source("earliest").reader(0, 0)) == list(range(1, 21))
    assert read_all(source("latest").reader(0, 0)) == []
    assert read_all(source({0: 5}).reader(0, 0)) == list(range(6, 21))
    assert read_all(source("1970-01-01T00:00:11Z").reader(0, 0)) == list(range(11, 21))
    assert read_all(source("1970-01-01T00:00:11Z").reader(1, 0)) == []
    reader = source("earliest").reader(0, 0)
    eventually(lambda: reader.read(0, 7).batch)
    position = reader.position
    reader.seek(position - 2)
    assert read_all(reader) == list(range(position - 1, 21))
    with pytest.raises(SourceError, match="topic 'times' has no offset 21 in partition 0: it has 0 to 20"):
        source({0: 21})
    with pytest.raises(SourceError, match="Kafka has no topic 'nowhere'"):
        sources.kafka(kafka.address, "nowhere", schema=NUMBERS).check()


def test_a_writer_that_was_replaced_writes_nothing_twice(kafka: Broker) -> None:
    """The twin of the model in tests/unit/kafka/test_transactions.py."""
    kafka.create_topic("once", 1)
    settings = {"bootstrap.servers": kafka.address}

    def writer() -> TransactionalWriter:
        return TransactionalWriter(
            settings, "once", Encoder(Layout("json"), NUMBERS, None), NUMBERS, "stretto-0123abcd-out", 0
        )

    def publish(by: TransactionalWriter, checkpoint: int) -> None:
        part = (0, pa.table({"n": [checkpoint]}, schema=NUMBERS))
        eventually(lambda: by.publishes(checkpoint, part))

    former, later = writer(), writer()
    for by, checkpoint in ((former, 1), (later, 1), (later, 2), (former, 2), (former, 3), (later, 3), (later, 4)):
        publish(by, checkpoint)
    former.close()
    later.close()
    assert [each["n"] for each in objects(kafka, "once")] == [1, 2, 3, 4]


def test_the_time_from_topic_to_topic_is_that_of_all_records(cluster: Cluster, kafka: Broker) -> None:
    found = latency.measure(cluster, kafka, rate=200, seconds=1.0)
    assert found.records == 200
    assert 0 < found.p50_ms <= found.p99_ms
