"""Spark's own Kafka connector, for comparisons: its jars are fetched on first use, with Ivy, which is part of Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from stretto.bench.compare.environments import environments_directory, fetch_jar, locked

JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
)
"""The newest of each that Maven's repository had; Spark 4.3 runs them."""

_DONE = ".complete"


def connector(say: Callable[[str], None]) -> list[Path]:
    """Returns the jars of the connector, and fetches them if they are missing."""
    place = environments_directory() / f"spark-kafka-{hashlib.sha256(repr(JARS).encode()).hexdigest()[:12]}"
    place.parent.mkdir(parents=True, exist_ok=True)
    with locked(place.with_suffix(".lock")):
        if not (place / _DONE).exists():
            say(f"fetching Spark's Kafka connector into {place} (once)")
            place.mkdir(exist_ok=True)
            for coordinates in JARS:
                fetch_jar(coordinates, place, alone=True)
            (place / _DONE).touch()
    return sorted((place / "jars").glob("*.jar"))
