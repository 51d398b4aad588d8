"""How long a record takes from topic to topic through a stateless job that writes at least once.

A thread writes records at a rate, with the time in each; the main thread reads what comes out and subtracts. The time
includes both ways through the broker. Records of the first seconds are not counted. `realtime.py` has Spark's query.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stretto.api.app import App
from stretto.bench.chaos import WAIT_S
from stretto.bench.kafka.broker import Broker
from stretto.bench.kafka.topics import write
from stretto.errors import UserError
from stretto.runtime.cluster import Cluster
from stretto.runtime.connectors.kafka.client import consumer, library, producer
from stretto.sinks import kafka as to_topic
from stretto.sources import kafka as of_topic

SCHEMA = "n bigint, sent bigint"
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


def measure(cluster: Cluster, broker: Broker, rate: int, seconds: float, number: int = 0) -> Latencies:
    """Returns the latencies of records that are written at `rate` per second for so long after the warm-up. Each
    `number` has topics of its own."""
    passage = Passage(broker, f"stretto-{number}", rate, seconds)
    app = App("latency", engine="actors", parallelism=1)
    rows = app.source("rows", of_topic(passage.address, passage.read_from, schema=SCHEMA, poll="1 ms"))
    rows.filter("n >= 0").sink(to_topic(passage.address, passage.write_to, guarantee="at-least-once"), name="out")
    job = cluster.submit(app)

    def check() -> None:
        if job.status.ended:
            raise UserError("the job ended", f"it is {job.status.value}: {job.error}")

    found = passage.timed(check)
    job.stop()
    job.wait()
    return found


class Passage:
    """Two topics, between which something passes records on, and how long each record is under way."""

    def __init__(self, broker: Broker, system: str, rate: int, seconds: float) -> None:
        self.address = broker.address
        self.read_from, self.write_to = f"{system}-in", f"{system}-out"
        for topic in (self.read_from, self.write_to):
            broker.create_topic(topic, 1)
        self._rate = rate
        self._records = int(rate * (WARM_UP_S + seconds))

    def timed(self, check: Callable[[], None]) -> Latencies:
        """Returns the latencies of what passes; `check` raises if nothing can pass any more."""
        write(self.address, self.read_from, [(_record(0), 0)])
        self._read(1, 0, check)  # A system may need long for the first record.
        writing = threading.Thread(target=self._write, daemon=True)
        writing.start()
        took_ms = self._read(self._records, 1, check)
        writing.join()
        counted = took_ms[int(self._rate * WARM_UP_S) :]
        p50, p99 = np.percentile(counted, [50, 99])
        return Latencies(round(float(p50), 2), round(float(p99), 2), len(counted), self._rate)

    def _write(self) -> None:
        client = producer({"bootstrap.servers": self.address})
        began = time.monotonic()
        number = 0
        while number < self._records:
            due = min(self._records, int((time.monotonic() - began) * self._rate))
            for each in range(number, due):
                client.produce(self.read_from, _record(each))
            number = max(number, due)
            client.poll(0)
            time.sleep(PULSE_S)
        client.flush()

    def _read(self, records: int, offset: int, check: Callable[[], None]) -> list[float]:
        """Returns how long each record took, in the order of their arrival."""
        client = consumer({"bootstrap.servers": self.address})
        client.assign([library().TopicPartition(self.write_to, 0, offset)])
        took_ms: list[float] = []
        deadline = time.monotonic() + WAIT_S
        while len(took_ms) < records:
            messages = client.consume(AT_ONCE, 0.001)
            now_ns = time.time_ns()
            values = [message.value() for message in messages if message.error() is None]
            took_ms += [(now_ns - json.loads(value)["sent"]) / 1e6 for value in values]
            if not messages:
                check()
            if time.monotonic() > deadline:
                raise UserError("not all records were passed on", f"{len(took_ms)} of {records} in {WAIT_S:.0f} s")
        client.close()
        return took_ms


def _record(number: int) -> bytes:
    return json.dumps({"n": number, "sent": time.time_ns()}).encode()
