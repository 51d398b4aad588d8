"""The values of NEXMark events, for any slice of the stream, as Arrow record batches.

Every value is a function of (seed, event number, field), by `bench/draws.py`: any partition can produce any slice, and
a replay is exact. Strings are taken from constant pools that do not depend on the seed.

We follow nexmark/nexmark, with two deviations. A bidder's first id is added once, not twice. `extra` is random around
the size that an *average* event still lacks rather than this event's own, which keeps the averages and makes `extra`
a single gather. Sizes are counted as there: a bid's is four numbers and `extra`, without `channel` and `url`; a
person's leaves out its time, and an auction's one of its seven numbers.

Only the columns that are asked for are computed. This module never reads a clock and never imports Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.bench.draws import UInt64s, below, hashed, stream
from stretto.bench.nexmark.events import (
    AUCTION,
    BID,
    EVENTS_PER_EPOCH,
    FIRST_AUCTION_ID,
    FIRST_CATEGORY_ID,
    FIRST_PERSON_ID,
    PER_EPOCH,
    PERSON,
    SCHEMAS,
    Int64s,
    Kind,
    NexmarkConfig,
    arriving_numbers,
    count_before,
    count_events,
    event_time_us,
    event_times_us,
    watermark_us,
)
from stretto.errors import UserError

__all__ = [
    "AUCTION",
    "BID",
    "PERSON",
    "SCHEMAS",
    "Kind",
    "NexmarkConfig",
    "count_before",
    "count_events",
    "event_time_us",
    "generate",
    "watermark_us",
]

Column = Callable[[NexmarkConfig, Int64s], pa.Array]

# One of this many consecutive persons or auctions is the hot one.
HOT_BATCH = 100
# Events may refer to this many persons or auctions that do not exist yet.
ID_LEAD = 10
CATEGORIES = 5
COLD_CHANNELS = 10_000
HOT_CHANNEL_RATIO = 2
EXTRA_SPREAD = 0.2

# Distinct strings in each pool of random text: enough to look random, few enough to stay in a core's cache.
_POOL_SIZE = 8192
# A price is the product of two factors with this many random bits each, so that it needs no logarithm per row and
# comes out the same on every processor.
_PRICE_BITS = 13

_FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)


def generate(
    config: NexmarkConfig, kind: Kind | str, start: int, stop: int, columns: Sequence[str] | None = None
) -> pa.RecordBatch:
    """The rows of one kind at arrival positions [start, stop), in arrival order.

    Positions count events of all kinds, so the three kinds of one slice together have stop - start rows (fewer where
    the stream ends). `columns` selects and orders the columns; the others cost nothing. One batch must stay below
    2 GiB of text per column, about 25 million bids.
    """
    kind = Kind(kind)
    schema = _selected(SCHEMAS[kind], columns)
    numbers = arriving_numbers(config, kind, start, stop)
    arrays = [_COLUMNS[kind][field.name](config, numbers) for field in schema]
    if not arrays:
        raise UserError("a batch needs at least one column", f"columns={columns!r}")
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _selected(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    if columns is None:
        return schema
    unknown = [name for name in columns if name not in schema.names]
    if unknown:
        raise UserError(f"NEXMark has no column {unknown[0]!r} here", f"it has {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in columns])


# Randomness


def _draw(config: NexmarkConfig, field: str, numbers: Int64s) -> UInt64s:
    return hashed(stream(config.seed, field), numbers)


def _hot(draw: UInt64s, ratio: int) -> npt.NDArray[np.bool_]:
    """True with probability 1 - 1/ratio, from the high bits of a draw."""
    return draw > np.uint64(2**64 // ratio - 1)


# Numbers


def _last_person(numbers: Int64s) -> Int64s:
    """Returns the index of the newest person at an auction or a bid, which is that of its epoch."""
    return numbers // EVENTS_PER_EPOCH


def _hot_of_batch(last: Int64s) -> Int64s:
    hot: Int64s = last // HOT_BATCH
    hot *= HOT_BATCH
    return hot


def _active_person(config: NexmarkConfig, draw: UInt64s, last_person: Int64s) -> Int64s:
    people = last_person + 1
    active = np.minimum(people, config.active_people)
    people -= active
    active += ID_LEAD
    people += below(draw, active)
    return people


def _price(draw: UInt64s) -> Int64s:
    """round(100 * 10^(6u)) for u uniform in [0, 1)."""
    coarse, fine = _price_factors()
    mask = np.uint64(2**_PRICE_BITS - 1)
    value = coarse.take((draw & mask).view(np.int64))
    value *= fine.take(((draw >> np.uint64(32)) & mask).view(np.int64))
    value += 0.5
    return value.astype(np.int64)


@cache
def _price_factors() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    steps = 2**_PRICE_BITS
    coarse = np.array([100 * 10 ** (6 * i / steps) for i in range(steps)])
    fine = np.array([10 ** (6 * i / steps / steps) for i in range(steps)])
    return coarse, fine


def _bid_auction(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    draw = _draw(config, "bid.auction", numbers)
    last = numbers // EVENTS_PER_EPOCH
    last *= PER_EPOCH[Kind.AUCTION]
    last += PER_EPOCH[Kind.AUCTION] - 1
    oldest = np.maximum(last - config.in_flight_auctions, 0)
    any_in_flight = oldest + below(draw, last - oldest + (1 + ID_LEAD))
    auction = np.where(_hot(draw, config.hot_auction_ratio), _hot_of_batch(last), any_in_flight)
    auction += FIRST_AUCTION_ID
    return pa.array(auction)


def _bid_bidder(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    draw = _draw(config, "bid.bidder", numbers)
    last = _last_person(numbers)
    # The second person of the batch, so that the hot bidder is not the hot seller.
    hot = _hot_of_batch(last)
    hot += 1
    bidder = np.where(_hot(draw, config.hot_bidder_ratio), hot, _active_person(config, draw, last))
    bidder += FIRST_PERSON_ID
    return pa.array(bidder)


def _auction_seller(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    draw = _draw(config, "auction.seller", numbers)
    last = _last_person(numbers)
    hot = _hot(draw, config.hot_seller_ratio)
    seller = np.where(hot, _hot_of_batch(last), _active_person(config, draw, last))
    seller += FIRST_PERSON_ID
    return pa.array(seller)


def _person_id(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    return pa.array(_last_person(numbers) + FIRST_PERSON_ID)


def _auction_id(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    epoch = numbers // EVENTS_PER_EPOCH
    offset = numbers - epoch * EVENTS_PER_EPOCH - 1
    return pa.array(epoch * PER_EPOCH[Kind.AUCTION] + offset + FIRST_AUCTION_ID)


def _auction_category(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    return pa.array(below(_draw(config, "auction.category", numbers), CATEGORIES) + FIRST_CATEGORY_ID)


def _initial_bid(config: NexmarkConfig, numbers: Int64s) -> Int64s:
    return _price(_draw(config, "auction.initialBid", numbers))


def _auction_initial_bid(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    return pa.array(_initial_bid(config, numbers))


def _auction_reserve(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    return pa.array(_initial_bid(config, numbers) + _price(_draw(config, "auction.reserve", numbers)))


def _bid_price(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    return pa.array(_price(_draw(config, "bid.price", numbers)))


# Times


def _timestamps(times_us: Int64s) -> pa.Array:
    return pa.array(times_us).view(BID.field("dateTime").type)


def _date_time(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    return _timestamps(event_times_us(config, numbers))


def _auction_expires(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    length_ms = 1 + below(_draw(config, "auction.expires", numbers), max(2 * _horizon_ms(config), 1))
    return _timestamps(event_times_us(config, numbers) + length_ms * 1000)


def _horizon_ms(config: NexmarkConfig) -> int:
    """Returns the time in which as many auctions open as may be in flight: the mean length of an auction."""
    events = config.in_flight_auctions * EVENTS_PER_EPOCH // PER_EPOCH[Kind.AUCTION]
    return events * 1000 // config.event_rate


# Text


def _pick(pool: pa.Array, config: NexmarkConfig, field: str, numbers: Int64s) -> pa.Array:
    return pool.take(pa.array(below(_draw(config, field, numbers), len(pool))))


def _pooled(field: str, pool: Callable[[], pa.Array]) -> Column:
    """Returns a column whose values are uniformly random from a pool."""

    def column(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
        return _pick(pool(), config, field, numbers)

    return column


@cache
def _pool_stream(name: str) -> np.uint64:
    return stream(0, f"pool.{name}")


def _words(name: str, longest: int, gap: str = " ", count: int = _POOL_SIZE) -> list[str]:
    """Words of 3 to longest - 1 letters, about one in fourteen of them a gap, trimmed."""
    draw = hashed(_pool_stream(name), np.arange(count * longest, dtype=np.int64)).reshape(count, longest)
    alphabet = np.append(_LETTERS, np.frombuffer(gap.encode() * 2, dtype=np.uint8))
    letters = alphabet[(draw >> np.uint64(32)) % np.uint64(len(alphabet))]
    lengths = 3 + below(draw[:, 0].copy(), longest - 3)
    return [bytes(row[:length]).decode().strip(gap) for row, length in zip(letters, lengths, strict=True)]


@cache
def _name_pool() -> pa.Array:
    return pa.array([f"{first} {last}" for first in _FIRST_NAMES for last in _LAST_NAMES])


@cache
def _email_pool() -> pa.Array:
    pairs = zip(_words("email.user", 7), _words("email.host", 5), strict=True)
    return pa.array([f"{user}@{host}.com" for user, host in pairs])


@cache
def _city_pool() -> pa.Array:
    return pa.array(_CITIES)


@cache
def _state_pool() -> pa.Array:
    return pa.array(_STATES)


@cache
def _item_pool() -> pa.Array:
    return pa.array(_words("itemName", 20))


@cache
def _description_pool() -> pa.Array:
    return pa.array(_words("description", 100))


@cache
def _channel_pool() -> pa.Array:
    """Returns the hot channels, then the cold ones; `_url_pool` has their addresses at the same indexes."""
    return pa.array([*_HOT_CHANNELS, *(f"channel-{number}" for number in range(COLD_CHANNELS))])


@cache
def _url_pool() -> pa.Array:
    count = len(_HOT_CHANNELS) + COLD_CHANNELS
    parts = zip(*(_words(f"url.{i}", 5, gap="_", count=count) for i in range(3)), strict=True)
    urls = [f"https://www.nexmark.com/{a}/{b}/{c}/item.htm?query=1" for a, b, c in parts]
    named = below(hashed(_pool_stream("url.named"), np.arange(COLD_CHANNELS, dtype=np.int64)), 10) > 0
    for number in np.flatnonzero(named).tolist():
        urls[len(_HOT_CHANNELS) + number] += f"&channel_id={_reversed_bits(number)}"
    return pa.array(urls)


def _reversed_bits(number: int) -> int:
    """Java's abs(Integer.reverse(number))."""
    backwards = int(f"{number:032b}"[::-1], 2)
    return min(backwards, 2**32 - backwards)


def _channels(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    """Returns for each bid the index of its channel in the pool."""
    draw = _draw(config, "bid.channel", numbers)
    cold = below(draw, COLD_CHANNELS) + len(_HOT_CHANNELS)
    return pa.array(np.where(_hot(draw, HOT_CHANNEL_RATIO), below(draw, len(_HOT_CHANNELS)), cold))


def _bid_channel(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    return _channel_pool().take(_channels(config, numbers))


def _bid_url(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    return _url_pool().take(_channels(config, numbers))


def _person_credit_card(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    """Four groups of four digits, written straight into the array's text buffer."""
    width = 19
    text = np.full((len(numbers), width), ord(" "), dtype=np.uint8)
    digits = _draw(config, "person.creditCard", numbers)
    for place in (place for place in range(width) if place % 5 != 4):
        rest = digits // np.uint64(10)
        text[:, place] = (digits - rest * np.uint64(10)) + np.uint64(ord("0"))
        digits = rest
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * np.int32(width)
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(text))


# Padding


@cache
def _padding_pool(mean: int) -> pa.Array:
    """Text of mean length `mean`, up to a fifth shorter or longer: slices of one long text."""
    spread = round(mean * EXTRA_SPREAD)
    longest = mean + spread
    count = np.arange(_POOL_SIZE + longest, dtype=np.int64)
    text = bytes(_LETTERS[below(hashed(_pool_stream("padding.text"), count), len(_LETTERS))]).decode()
    lengths = mean - spread + below(hashed(_pool_stream("padding.length"), count[:_POOL_SIZE]), 2 * spread + 1)
    return pa.array([text[place : place + length] for place, length in enumerate(lengths.tolist())], pa.string())


def _mean_bytes(pool: pa.Array) -> float:
    return sum(len(text) for text in pool.to_pylist()) / len(pool)


@cache
def _person_bytes() -> float:
    return 8 + 19 + sum(_mean_bytes(pool()) for pool in (_name_pool, _email_pool, _city_pool, _state_pool))


@cache
def _auction_bytes() -> float:
    return 6 * 8 + _mean_bytes(_item_pool()) + _mean_bytes(_description_pool())


def _person_extra(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    pool = _padding_pool(max(round(config.person_bytes - _person_bytes()), 0))
    return _pick(pool, config, "person.extra", numbers)


def _auction_extra(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    pool = _padding_pool(max(round(config.auction_bytes - _auction_bytes()), 0))
    return _pick(pool, config, "auction.extra", numbers)


def _bid_extra(config: NexmarkConfig, numbers: Int64s) -> pa.Array:
    return _pick(_padding_pool(max(config.bid_bytes - 4 * 8, 0)), config, "bid.extra", numbers)


_COLUMNS: dict[Kind, dict[str, Column]] = {
    Kind.PERSON: {
        "id": _person_id,
        "name": _pooled("person.name", _name_pool),
        "emailAddress": _pooled("person.emailAddress", _email_pool),
        "creditCard": _person_credit_card,
        "city": _pooled("person.city", _city_pool),
        "state": _pooled("person.state", _state_pool),
        "dateTime": _date_time,
        "extra": _person_extra,
    },
    Kind.AUCTION: {
        "id": _auction_id,
        "itemName": _pooled("auction.itemName", _item_pool),
        "description": _pooled("auction.description", _description_pool),
        "initialBid": _auction_initial_bid,
        "reserve": _auction_reserve,
        "dateTime": _date_time,
        "expires": _auction_expires,
        "seller": _auction_seller,
        "category": _auction_category,
        "extra": _auction_extra,
    },
    Kind.BID: {
        "auction": _bid_auction,
        "bidder": _bid_bidder,
        "price": _bid_price,
        "channel": _bid_channel,
        "url": _bid_url,
        "dateTime": _date_time,
        "extra": _bid_extra,
    },
}
