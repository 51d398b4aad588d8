"""How long a record takes from topic to topic through a stateless job that writes at least once.

A thread writes records at a rate, with the time in each; the main thread reads what comes out and subtracts. The time
includes both ways through the broker. Records of the first seconds are not counted.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass

import numpy as np

from stretto.api.app import App
from stretto.bench.chaos import WAIT_S
from stretto.bench.kafka.broker import Broker
from stretto.errors import UserError
from stretto.runtime.cluster import Cluster
from stretto.runtime.connectors.kafka.client import consumer, library, producer
from stretto.sinks import kafka as to_topic
from stretto.sources import kafka as of_topic

PULSE_S = 0.01
WARM_UP_S = 3.0
AT_ONCE = 2_000


@dataclass(frozen=True)
class Latencies:
    """Milliseconds from topic to topic, and how many records were counted."""

    p50_ms: float
    p99_ms: float
    records: int
    rate: float


def measure(cluster: Cluster, broker: Broker, rate: int, seconds: float) -> Latencies:
    """Returns the latencies of records that are written at `rate` per second for so long after the warm-up."""
    for topic in ("slow-in", "slow-out"):
        broker.create_topic(topic, 1)
    app = App("latency", engine="actors", parallelism=1)
    rows = app.source("rows", of_topic(broker.address, "slow-in", schema="n bigint, sent bigint", poll="1 ms"))
    rows.filter("n >= 0").sink(to_topic(broker.address, "slow-out", guarantee="at-least-once"), name="out")
    job = cluster.submit(app)
    records = int(rate * (WARM_UP_S + seconds))
    writing = threading.Thread(target=_write, args=(broker.address, rate, records), daemon=True)
    writing.start()
    took_ms = _read(broker.address, records)
    writing.join()
    job.stop()
    job.wait()
    counted = took_ms[int(rate * WARM_UP_S) :]
    p50, p99 = np.percentile(counted, [50, 99])
    return Latencies(round(float(p50), 2), round(float(p99), 2), len(counted), rate)


def _write(address: str, rate: int, records: int) -> None:
    client = producer({"bootstrap.servers": address})
    began = time.monotonic()
    number = 0
    while number < records:
        due = min(records, int((time.monotonic() - began) * rate))
        for each in range(number, due):
            client.produce("slow-in", json.dumps({"n": each, "sent": time.time_ns()}))
        number = max(number, due)
        client.poll(0)
        time.sleep(PULSE_S)
    client.flush()


def _read(address: str, records: int) -> list[float]:
    """Returns how long each record took, in the order of their arrival."""
    kafka = library()
    client = consumer({"bootstrap.servers": address})
    client.assign([kafka.TopicPartition("slow-out", 0, kafka.OFFSET_BEGINNING)])
    took_ms: list[float] = []
    deadline = time.monotonic() + WAIT_S
    while len(took_ms) < records:
        messages = client.consume(AT_ONCE, 0.001)
        now_ns = time.time_ns()
        values = [message.value() for message in messages if message.error() is None]
        took_ms += [(now_ns - json.loads(value)["sent"]) / 1e6 for value in values]
        if time.monotonic() > deadline:
            raise UserError("the job did not pass all records on", f"{len(took_ms)} of {records} in {WAIT_S:.0f} s")
    client.close()
    return took_ms
