"""NEXMark query 5 from a topic to a topic, exactly once, while workers are killed, hang and are cut off.

The broker is killed once, too, and started again. The topics are read with `read_committed`: that of the answer has the
rows of Spark SQL's, and one with every bid that was read has each once. The input comes in stretches, each written when
the blow before it has happened.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stretto.bench.chaos import WAIT_S, Fault, inject, wait_until
from stretto.bench.kafka.broker import Broker
from stretto.bench.kafka.feed import KafkaStreams, bids, feed
from stretto.bench.kafka.topics import read_committed
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.queries import QUERIES
from stretto.bench.nexmark.run import OUT, SparkAnswers, verify
from stretto.bench.nexmark.workload import Workload
from stretto.bench.verify import Match
from stretto.errors import UserError
from stretto.runtime.cluster import Cluster
from stretto.runtime.connectors.kafka.decoding import JsonDecoder
from stretto.runtime.job import Job
from stretto.runtime.scratch import scratch_directory
from stretto.sinks import kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = "q5"
PARTITIONS = 2
ANSWER = pa.schema(
    [
        ("window_start", pa.timestamp("us", tz="UTC")),
        ("window_end", pa.timestamp("us", tz="UTC")),
        ("auction", pa.int64()),
        ("num", pa.int64()),
    ]
)
PAUSE_S = (0.1, 0.6)


@dataclass(frozen=True)
class Blows:
    """How many blows, and how many events come before each."""

    number: int = 20
    events: int = 40_000
    every: str = "500 ms"
    seed: int = 1


@dataclass
class Found:
    """What was dealt, and whether both topics are right."""

    blows: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    match: bool = False
    bids: int = 0
    bids_once: bool = False
    recoveries: int = 0
    complaint: str | None = None

    @property
    def is_right(self) -> bool:
        return self.match and self.bids_once


def run(spark: SparkSession, cluster: Cluster, broker: Broker, blows: Blows) -> Found:
    """Runs the query to its end under all blows, and checks both topics."""
    found = Found()
    config = NexmarkConfig(events=blows.events * (blows.number + 1))
    for topic, partitions in (("bids", PARTITIONS), ("answer", 1), ("seen", PARTITIONS)):
        broker.create_topic(topic, partitions)
    streams = KafkaStreams("kafka-q5", Workload(config=config, engine="actors"), broker.address, "bids")
    QUERIES[QUERY](streams).sink(kafka(broker.address, "answer"), name=OUT, parallelism=1)
    streams.app.stream("bid").sink(kafka(broker.address, "seen"), name="seen")
    directory = scratch_directory("kafka")
    try:
        job = cluster.submit(streams.app, checkpoint=directory / "checkpoints", every=blows.every)
        _Blower(cluster, job, broker, blows, config, found).deal_all()
        if not wait_until(lambda: len(read_committed(broker.address, "seen")) >= found.bids or job.status.ended):
            raise UserError("the job did not read its input to the end", f"in {WAIT_S:.0f} s")
        job.stop(drain=True)
        job.wait()
        found.recoveries = job.checkpoints.recoveries
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    _check(spark, broker, config, found)
    return found


def _check(spark: SparkSession, broker: Broker, config: NexmarkConfig, found: Found) -> None:
    answer = JsonDecoder(ANSWER).decode(read_committed(broker.address, "answer")).rows
    with SparkAnswers(spark, config) as answers:
        verdict = verify(QUERY, {OUT: pa.Table.from_batches([answer])}, answers)[OUT]
    found.rows, found.match = answer.num_rows, verdict.match is Match.MATCH
    seen = sorted(_key(value) for value in read_committed(broker.address, "seen"))
    found.bids_once = seen == sorted(_key(value) for value in bids(config, 0, config.events or 0))
    if not found.is_right:
        found.complaint = verdict.describe() if not found.match else f"{len(seen)} bids seen, {found.bids} written"


def _key(value: bytes) -> tuple[Any, ...]:
    row = json.loads(value)
    return row["auction"], row["dateTime"]


@dataclass
class _Blower:
    """Writes the input in stretches, with a blow after each."""

    cluster: Cluster
    job: Job
    broker: Broker
    blows: Blows
    config: NexmarkConfig
    found: Found

    def deal_all(self) -> None:
        chance = random.Random(self.blows.seed)
        for number in range(self.blows.number):
            self._write(number)
            known = len(self.job.checkpoints.complete)
            self._wait(lambda known=known: len(self.job.checkpoints.complete) > known, "no checkpoint was taken")
            time.sleep(chance.uniform(*PAUSE_S))
            if number == self.blows.number // 2:
                self._restart_broker()
            else:
                self._deal(chance)
        self._write(self.blows.number)

    def _write(self, stretch: int) -> None:
        first = stretch * self.blows.events
        values = bids(self.config, first, first + self.blows.events)
        self.found.bids += feed(self.broker.address, "bids", PARTITIONS, values)

    def _restart_broker(self) -> None:
        self.broker.stop()
        self.broker.start()
        self._count("broker restarted")

    def _deal(self, chance: random.Random) -> None:
        job, fault = self.job, chance.choice([Fault.KILL, Fault.STOP, Fault.CUT])
        recoveries = job.checkpoints.recoveries
        try:
            victim = inject(self.cluster, fault, chance)
        except UserError:  # Workers that have just been replaced may have no connection yet that can be cut.
            fault = Fault.KILL
            victim = inject(self.cluster, fault, chance)
        self._wait(lambda: job.checkpoints.recoveries > recoveries, f"the blow '{fault.value}' was not noticed")
        if fault is Fault.STOP:
            with suppress(ProcessLookupError):
                os.kill(victim.pid, signal.SIGCONT)  # It has been replaced, so what it does must have no effect.
        self._count(fault.value)

    def _wait(self, condition: Any, otherwise: str) -> None:
        if not wait_until(lambda: condition() or self.job.status.ended) or self.job.status.ended:
            raise UserError(otherwise, f"the job is {self.job.status.value}: {self.job.error}")

    def _count(self, blow: str) -> None:
        self.found.blows[blow] = self.found.blows.get(blow, 0) + 1
