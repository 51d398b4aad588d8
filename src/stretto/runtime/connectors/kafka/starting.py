"""Where the partitions of a topic are read from, and up to where: offsets that are worked out once, in the driver.

They are shipped to the workers. So an attempt that starts over, before there is a checkpoint, reads the same records:
'latest' is the end at the time when the source was made, and not whenever a worker opens it.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from stretto.errors import SourceError
from stretto.runtime.connectors.kafka.client import TIMEOUT_S, Settings, consumer, library, unreachable
from stretto.runtime.connectors.kafka.reader import Stretch

Start = str | datetime.datetime | Mapping[int, int]
"""'earliest', 'latest', a time (also as ISO text), or an offset for each partition."""

NAMED = ("earliest", "latest")


def checked_start(start: Start) -> Start:
    """Returns 'earliest', 'latest', a time with a zone, or offsets; raises a SourceError for anything else."""
    if isinstance(start, str) and start not in NAMED:
        try:
            start = datetime.datetime.fromisoformat(start)
        except ValueError:
            raise SourceError(
                "a topic cannot be read from there",
                f"start={start!r}",
                "Use 'earliest', 'latest', a time such as '2026-01-01T00:00:00Z', or a dict of offsets by partition.",
            ) from None
    if isinstance(start, datetime.datetime) and start.tzinfo is None:
        raise SourceError(
            "the time to read a topic from has no zone", f"start={str(start)!r}", "Write it with one, such as ...Z."
        )
    numbers = (*start, *start.values()) if isinstance(start, Mapping) else ()
    if not all(isinstance(each, int) and each >= 0 for each in numbers):
        raise SourceError("offsets are whole numbers by whole numbers of partitions", f"start={start!r}")
    return start


def stretches(settings: Settings, topic: str, partitions: int, start: Start, ends: bool) -> list[Stretch]:
    """Returns what is to be read of each partition. With `ends`, up to the present end."""
    kafka = library()
    if isinstance(start, Mapping) and start and max(start) >= partitions:
        raise SourceError(
            f"topic '{topic}' has no partition {max(start)}", f"it has {partitions}", "Correct the offsets in start=."
        )
    asking = consumer(settings)
    try:
        bounds = [
            asking.get_watermark_offsets(kafka.TopicPartition(topic, number), timeout=TIMEOUT_S)
            for number in range(partitions)
        ]
        firsts = _firsts(asking, kafka, topic, bounds, start)
    except kafka.KafkaException as error:
        raise unreachable(settings, error) from error
    finally:
        asking.close()
    return [Stretch(first, end if ends else None) for first, (_, end) in zip(firsts, bounds, strict=True)]


def _firsts(asking: Any, kafka: Any, topic: str, bounds: list[tuple[int, int]], start: Start) -> list[int | None]:
    if start == "earliest":
        return [None] * len(bounds)
    if start == "latest":
        return [end for _, end in bounds]
    if isinstance(start, Mapping):
        return [_checked(topic, number, start.get(number), bound) for number, bound in enumerate(bounds)]
    assert isinstance(start, datetime.datetime)
    since_ms = int(start.timestamp() * 1000)
    asked = [kafka.TopicPartition(topic, number, since_ms) for number in range(len(bounds))]
    found = asking.offsets_for_times(asked, timeout=TIMEOUT_S)
    # Where all records are older, those that follow are read.
    return [each.offset if each.offset >= 0 else end for each, (_, end) in zip(found, bounds, strict=True)]


def _checked(topic: str, partition: int, given: int | None, bounds: tuple[int, int]) -> int | None:
    first, end = bounds
    if given is not None and not first <= given <= end:
        raise SourceError(
            f"topic '{topic}' has no offset {given} in partition {partition}",
            f"it has {first} to {end}",
            "Correct the offsets in start=.",
        )
    return given
