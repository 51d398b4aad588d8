"""How fast a job reads a topic, beside a bare confluent-kafka consumer that reads the same records in the same run.

Both read in one process. The consumer does nothing with the records. The job decodes each as JSON into columns.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field

from stretto.api.app import App
from stretto.bench.kafka.broker import Broker
from stretto.bench.kafka.feed import SCHEMA, bids, feed
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.coordinator.records import JobStatus
from stretto.errors import UserError
from stretto.runtime.cluster import Cluster
from stretto.runtime.connectors.kafka.client import consumer, library
from stretto.sinks import null
from stretto.sources import kafka

TOPIC = "fast"
AT_ONCE = 4_096


@dataclass
class Rates:
    """Records per second of each round, and the median of their ratios."""

    bare: list[float] = field(default_factory=list)
    stretto: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return statistics.median(ours / bare for ours, bare in zip(self.stretto, self.bare, strict=True))


def measure(cluster: Cluster, broker: Broker, events: int, rounds: int) -> Rates:
    """Returns the rates of both, in turn, over the bids among so many events."""
    broker.create_topic(TOPIC, 1)
    records = feed(broker.address, TOPIC, 1, bids(NexmarkConfig(events=events), 0, events))
    rates = Rates()
    for _ in range(rounds):
        rates.bare.append(records / _bare(broker.address, records))
        rates.stretto.append(records / _job(cluster, broker.address, records))
    return rates


def _bare(address: str, records: int) -> float:
    """Returns the seconds from the assignment to the last record."""
    kafka_library = library()
    reading = consumer({"bootstrap.servers": address})
    reading.assign([kafka_library.TopicPartition(TOPIC, 0, kafka_library.OFFSET_BEGINNING)])
    read, began = 0, time.perf_counter()
    while read < records:
        messages = reading.consume(AT_ONCE, 0.01)
        read += sum(1 for message in messages if message.error() is None)
    took_s = time.perf_counter() - began
    reading.close()
    return took_s


def _job(cluster: Cluster, address: str, records: int) -> float:
    """Returns the seconds from when the job runs to when it has finished."""
    app = App("fast", engine="actors", parallelism=1, batch_rows=AT_ONCE)
    app.source("bids", kafka(address, TOPIC, schema=SCHEMA, until="latest")).sink(null(), name="out")
    job = cluster.submit(app)
    while job.status is JobStatus.DEPLOYING:
        time.sleep(0.001)
    began = time.perf_counter()
    job.wait()
    took_s = time.perf_counter() - began
    if job.metrics().rows_in != records:
        raise UserError("the job did not read all records", f"{job.metrics().rows_in} of {records}")
    return took_s
