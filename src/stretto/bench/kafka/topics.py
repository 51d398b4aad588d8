"""Topics as tests and measurements need them: written from outside, and read to their end."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from stretto.errors import ClusterError
from stretto.runtime.connectors.kafka.client import TIMEOUT_S, admin_client, consumer, library, producer

READ_AT_ONCE = 10_000
POLL_S = 0.02


def write(address: str, topic: str, records: Iterable[tuple[Any, ...]]) -> None:
    """Writes records: each a value, a partition, and perhaps a timestamp in milliseconds. Returns when all are in."""
    writing = producer({"bootstrap.servers": address, "linger.ms": 5})
    for value, partition, *stamp in records:
        while True:
            try:
                writing.produce(topic, value, partition=partition, timestamp=stamp[0] if stamp else 0)
                break
            except BufferError:
                writing.poll(0.1)
    if writing.flush(TIMEOUT_S):
        raise ClusterError(f"topic '{topic}' did not take all records", address)


def read_committed(address: str, topic: str) -> list[bytes]:
    """Returns the values of all records up to the present end, of committed transactions only."""
    kafka = library()
    reading = consumer({"bootstrap.servers": address})
    partitions = reading.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    reading.assign([kafka.TopicPartition(topic, number, kafka.OFFSET_BEGINNING) for number in partitions])
    values: list[bytes] = []
    open_partitions = set(partitions)
    while open_partitions:
        for message in reading.consume(READ_AT_ONCE, 0.1):
            if message.error() is None:
                values.append(message.value())
            elif message.error().name() == "_PARTITION_EOF":
                open_partitions.discard(message.partition())
    reading.close()
    return values


def wait_for_partitions(address: str, topic: str, partitions: int) -> None:
    """Returns when a topic has so many partitions that can be written."""
    admin, deadline = admin_client({"bootstrap.servers": address}), time.monotonic() + TIMEOUT_S
    while True:
        found = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        if len(found) == partitions and all(each.leader >= 0 for each in found.values()):
            return
        if time.monotonic() > deadline:
            raise ClusterError(f"topic '{topic}' was not made", f"it has {len(found)} of {partitions} partitions")
        time.sleep(POLL_S)
