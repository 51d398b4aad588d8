"""Defines which NEXMark event arrives when: kinds, schemas, configuration, event time, arrival order and watermarks.

Event number n has position r = n mod 50 in its epoch n div 50: r = 0 is a person, 1 to 3 are auctions, 4 to 49 are
bids. An event's number fixes its kind, its time and all its values. The arrival order is the order of numbers, or,
with `disorder_s`, a fixed permutation inside groups of events; *position* always means a place in arrival order.

This module has no random values: `generator` adds them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.errors import UserError

Int64s = npt.NDArray[np.int64]

EVENTS_PER_EPOCH = 50
FIRST_PERSON_ID = 1000
FIRST_AUCTION_ID = 1000
FIRST_CATEGORY_ID = 10

# The step of the permutation inside a group, from Beam's generator.
DISORDER_STRIDE = 953

_TIMESTAMP = pa.timestamp("us", tz="UTC")

PERSON = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("emailAddress", pa.string()),
        ("creditCard", pa.string()),
        ("city", pa.string()),
        ("state", pa.string()),
        ("dateTime", _TIMESTAMP),
        ("extra", pa.string()),
    ]
)

AUCTION = pa.schema(
    [
        ("id", pa.int64()),
        ("itemName", pa.string()),
        ("description", pa.string()),
        ("initialBid", pa.int64()),
        ("reserve", pa.int64()),
        ("dateTime", _TIMESTAMP),
        ("expires", _TIMESTAMP),
        ("seller", pa.int64()),
        ("category", pa.int64()),
        ("extra", pa.string()),
    ]
)

BID = pa.schema(
    [
        ("auction", pa.int64()),
        ("bidder", pa.int64()),
        ("price", pa.int64()),
        ("channel", pa.string()),
        ("url", pa.string()),
        ("dateTime", _TIMESTAMP),
        ("extra", pa.string()),
    ]
)


class Kind(StrEnum):
    """The kinds of events; the values are also the names of the oracle's views."""

    PERSON = "person"
    AUCTION = "auction"
    BID = "bid"


SCHEMAS = {Kind.PERSON: PERSON, Kind.AUCTION: AUCTION, Kind.BID: BID}

# For each kind, its first position in an epoch and how many of its events an epoch has.
_FIRST_IN_EPOCH = {Kind.PERSON: 0, Kind.AUCTION: 1, Kind.BID: 4}
PER_EPOCH = {Kind.PERSON: 1, Kind.AUCTION: 3, Kind.BID: 46}


@dataclass(frozen=True, slots=True)
class Surge:
    """Events with numbers in [first, last) follow each other `times` as fast as all others.

    Time is counted in *ticks* here: `times` of them from one usual event to the next, and one in a surge."""

    first: int
    last: int
    times: int

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last or self.times < 1:
            raise UserError("a surge needs first <= last and times of at least 1", f"{self}")

    def ticks(self, number: int) -> int:
        """Returns when an event happens."""
        return self.times * number - (self.times - 1) * min(max(number - self.first, 0), self.last - self.first)

    def many_ticks(self, numbers: Int64s) -> Int64s:
        """`ticks` of many events."""
        within = np.clip(numbers - self.first, 0, self.last - self.first)
        found: Int64s = self.times * numbers - (self.times - 1) * within
        return found


@dataclass(frozen=True, slots=True)
class NexmarkConfig:
    """One NEXMark stream. Equal configurations give equal events, on any machine and in any slicing.

    `events` is the length of the stream, or None for one without end. `event_rate` is events per second of *event*
    time; the sender decides how fast they are sent. A hot ratio of r makes the hot choice with probability
    1 - 1/r. The sizes are averages in bytes for a whole event, as NEXMark counts them (see `generator`).
    """

    seed: int = 0
    events: int | None = None
    event_rate: int = 10_000
    base_time_us: int = 1_436_918_400_000_000  # 2015-07-15T00:00:00Z, as in Beam
    disorder_s: float = 0.0
    hot_auction_ratio: int = 2
    hot_bidder_ratio: int = 4
    hot_seller_ratio: int = 4
    in_flight_auctions: int = 100
    active_people: int = 1000
    person_bytes: int = 200
    auction_bytes: int = 500
    bid_bytes: int = 100
    surge: Surge | None = None

    def __post_init__(self) -> None:
        if self.events is not None and self.events < 0:
            raise UserError("a NEXMark stream cannot have a negative length", f"events={self.events}")
        if not (math.isfinite(self.disorder_s) and self.disorder_s >= 0):
            raise UserError("disorder must be a number of seconds, zero or more", f"disorder_s={self.disorder_s}")
        for name in ("event_rate", "hot_auction_ratio", "hot_bidder_ratio", "hot_seller_ratio", "active_people"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1", f"{name}={getattr(self, name)}")
        if self.in_flight_auctions < 0:
            raise UserError("in_flight_auctions cannot be negative", f"in_flight_auctions={self.in_flight_auctions}")

    @property
    def disorder_events(self) -> int:
        """The number of events in one group of the arrival permutation; 1 means in order."""
        return max(1, round(self.disorder_s * self.event_rate))


def event_time_us(config: NexmarkConfig, number: int) -> int:
    """The event time of one event: base + number / rate in microseconds, truncated to whole milliseconds."""
    surge = config.surge
    ticks, per_s = (number, config.event_rate) if surge is None else (surge.ticks(number), _ticks_per_s(config, surge))
    return (config.base_time_us + ticks * 1_000_000 // per_s) // 1000 * 1000


def event_times_us(config: NexmarkConfig, numbers: Int64s) -> Int64s:
    """`event_time_us` of many events."""
    surge = config.surge
    times: Int64s = (numbers if surge is None else surge.many_ticks(numbers)) * 1_000_000
    times //= config.event_rate if surge is None else _ticks_per_s(config, surge)
    times += config.base_time_us
    times //= 1000
    times *= 1000
    return times


def _ticks_per_s(config: NexmarkConfig, surge: Surge) -> int:
    return config.event_rate * surge.times


def count_before(kind: Kind | str, number: int) -> int:
    """Returns how many events of this kind have a number below `number`."""
    kind = Kind(kind)
    epoch, offset = divmod(number, EVENTS_PER_EPOCH)
    per_epoch = PER_EPOCH[kind]
    return epoch * per_epoch + min(max(offset - _FIRST_IN_EPOCH[kind], 0), per_epoch)


def count_events(config: NexmarkConfig, kind: Kind | str) -> int:
    """Returns how many events of this kind the whole stream has; the stream must have an end."""
    return count_before(kind, stream_length(config))


def stream_length(config: NexmarkConfig) -> int:
    """Returns the number of events of all kinds; raises UserError for a stream without end."""
    if config.events is None:
        raise UserError("this NEXMark stream has no end", "events=None", "Set NexmarkConfig(events=...).")
    return config.events


def arriving_numbers(config: NexmarkConfig, kind: Kind, start: int, stop: int) -> Int64s:
    """The event numbers of one kind at arrival positions [start, stop), in arrival order."""
    if start < 0:
        raise UserError("arrival positions start at 0", f"start={start}")
    if config.events is not None:
        stop = min(stop, config.events)
    stop = max(start, stop)
    if config.disorder_events == 1:
        return _numbers_in_order(kind, start, stop)
    numbers = _permuted(config, start, stop)
    offsets = numbers - numbers // EVENTS_PER_EPOCH * EVENTS_PER_EPOCH
    first = _FIRST_IN_EPOCH[kind]
    return numbers[(offsets >= first) & (offsets < first + PER_EPOCH[kind])]


def watermark_us(config: NexmarkConfig, position: int) -> int:
    """The watermark after all arrival positions below `position`: no later position has an earlier event time.

    In order, it is the time of the event at `position`. With disorder it is the time of the first event of the group
    that `position` falls in, as in Beam. When a stream has ended it is the time that the next event would have had.
    """
    if config.events is not None and position >= config.events:
        return event_time_us(config, config.events)
    return event_time_us(config, position - position % config.disorder_events)


def _numbers_in_order(kind: Kind, start: int, stop: int) -> Int64s:
    per_epoch = PER_EPOCH[kind]
    index = np.arange(count_before(kind, start), count_before(kind, stop), dtype=np.int64)
    epoch = index // per_epoch
    # number = epoch * 50 + first + (index - epoch * per_epoch)
    epoch *= EVENTS_PER_EPOCH - per_epoch
    index += epoch
    index += _FIRST_IN_EPOCH[kind]
    return index


def _permuted(config: NexmarkConfig, start: int, stop: int) -> Int64s:
    """Returns the event numbers at positions [start, stop): whole groups, then a shorter last group."""
    size = config.disorder_events
    positions = np.arange(start, stop, dtype=np.int64)
    if config.events is None:
        return _permute_groups(positions, size)
    tail = config.events - config.events % size
    split = min(max(tail - start, 0), stop - start)
    in_tail = _permute_groups(positions[split:] - tail, config.events - tail) + tail
    return np.concatenate([_permute_groups(positions[:split], size), in_tail])


def _permute_groups(positions: Int64s, size: int) -> Int64s:
    if not len(positions):
        return positions
    first = positions // size * size
    steps = (positions - first) * _stride(size)
    steps -= steps // size * size
    return first + steps


def _stride(size: int) -> int:
    """The permutation's step: 953, or the next number that shares no factor with a group of this size."""
    stride = DISORDER_STRIDE
    while math.gcd(stride, size) != 1:
        stride += 1
    return stride
