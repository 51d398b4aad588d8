"""The NEXMark generator: any slicing gives the same events, and the events follow the published rules."""

from __future__ import annotations

import math
import zlib
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stretto.bench.nexmark.events import arriving_numbers
from stretto.bench.nexmark.generator import (
    SCHEMAS,
    Kind,
    NexmarkConfig,
    count_before,
    count_events,
    event_time_us,
    generate,
    watermark_us,
)
from stretto.bench.verify import Match, compare
from stretto.errors import UserError

KINDS = list(Kind)
WORD = 2**64 - 1

# 0.0953 s is a group of 953 events, which has a common factor with the usual stride; 0.1 s is a group of 1,000.
DISORDERS = [0.0, 0.00005, 0.0007, 0.0953, 0.1, 0.2]


def table(config: NexmarkConfig, kind: Kind, start: int, stop: int) -> pa.Table:
    return pa.Table.from_batches([generate(config, kind, start, stop)])


def column(config: NexmarkConfig, kind: Kind, name: str, stop: int) -> npt.NDArray[np.int64]:
    array = generate(config, kind, 0, stop, [name]).column(0)
    return np.asarray(array.cast(pa.int64()))


# Slices


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(-5, 2**65),
    kind=st.sampled_from(KINDS),
    disorder_s=st.sampled_from(DISORDERS),
    events=st.one_of(st.none(), st.integers(0, 4_000)),
    start=st.integers(0, 3_000),
    lengths=st.lists(st.integers(0, 900), max_size=6),
)
def test_slices_join_to_the_whole(
    seed: int, kind: Kind, disorder_s: float, events: int | None, start: int, lengths: list[int]
) -> None:
    config = NexmarkConfig(seed=seed, events=events, disorder_s=disorder_s)
    cuts = [start, *(start + int(total) for total in np.cumsum(lengths))]
    slices = [generate(config, kind, a, b) for a, b in pairwise(cuts)]
    joined = pa.Table.from_batches(slices, schema=SCHEMAS[kind])
    whole = table(config, kind, start, cuts[-1])
    assert joined.equals(whole)
    whole.validate(full=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_selection_of_columns_has_the_same_values(kind: Kind) -> None:
    config = NexmarkConfig(seed=3, disorder_s=0.1)
    whole = generate(config, kind, 130, 5_130)
    assert whole.schema == SCHEMAS[kind]
    for name in whole.schema.names:
        assert generate(config, kind, 130, 5_130, [name]).column(0).equals(whole.column(name))
    some = ["extra", "dateTime"]
    assert generate(config, kind, 130, 5_130, some).equals(whole.select(some))


def test_seeds_and_fields_are_independent() -> None:
    first, second = (column(NexmarkConfig(seed=seed), Kind.BID, "price", 10_000) for seed in (1, 2))
    assert (first != second).mean() > 0.99
    auction = generate(NexmarkConfig(), Kind.AUCTION, 0, 10_000, ["initialBid", "reserve"])
    initial, reserve = (np.log(auction.column(i).to_numpy()) for i in (0, 1))
    step = np.log(np.exp(reserve) - np.exp(initial))
    assert abs(np.corrcoef(initial, step)[0, 1]) < 0.2


def test_mistakes_are_refused() -> None:
    with pytest.raises(UserError, match="no column 'prize'"):
        generate(NexmarkConfig(), Kind.BID, 0, 10, ["prize"])
    with pytest.raises(UserError, match="at least one column"):
        generate(NexmarkConfig(), Kind.BID, 0, 10, [])
    with pytest.raises(UserError, match="start at 0"):
        generate(NexmarkConfig(), Kind.BID, -1, 10)
    with pytest.raises(UserError, match="no end"):
        count_events(NexmarkConfig(), Kind.BID)
    with pytest.raises(UserError, match="event_rate"):
        NexmarkConfig(event_rate=0)
    with pytest.raises(UserError, match="disorder"):
        NexmarkConfig(disorder_s=math.nan)


# Which event arrives when


def test_an_epoch_has_one_person_three_auctions_and_46_bids() -> None:
    config = NexmarkConfig(events=100_000)
    rows = [table(config, kind, 0, 100_000).num_rows for kind in KINDS]
    assert rows == [2_000, 6_000, 92_000]
    assert rows == [count_events(config, kind) for kind in KINDS]


@given(number=st.integers(0, 10_000))
def test_every_event_has_one_kind(number: int) -> None:
    assert sum(count_before(kind, number) for kind in KINDS) == number


def test_the_stream_stops_where_it_ends() -> None:
    config = NexmarkConfig(events=120, disorder_s=0.005)
    assert sum(generate(config, kind, 0, 10_000).num_rows for kind in KINDS) == 120
    assert generate(config, Kind.BID, 120, 10_000).num_rows == 0


@pytest.mark.parametrize("rate", [1, 7, 10_000, 3_000_000])
def test_event_time_is_the_base_plus_n_over_the_rate_in_whole_milliseconds(rate: int) -> None:
    config = NexmarkConfig(event_rate=rate, base_time_us=1_700_000_000_000_500)
    times = column(config, Kind.PERSON, "dateTime", 5_000)
    exact = [(config.base_time_us + n * 1_000_000 // rate) // 1000 * 1000 for n in range(0, 5_000, 50)]
    assert times.tolist() == exact
    assert exact[3] == event_time_us(config, 150)


@pytest.mark.parametrize("disorder_s", DISORDERS[1:])
@pytest.mark.parametrize("events", [0, 1, 952, 953, 1_000, 1_953, 2_500])
def test_disorder_is_a_permutation(disorder_s: float, events: int) -> None:
    config = NexmarkConfig(events=events, disorder_s=disorder_s)
    for kind in KINDS:
        arrived = arriving_numbers(config, kind, 0, events)
        in_order = arriving_numbers(NexmarkConfig(events=events), kind, 0, events)
        assert np.array_equal(np.sort(arrived), in_order)


def test_disorder_changes_the_order_and_nothing_else() -> None:
    in_order = table(NexmarkConfig(seed=5, events=12_345), Kind.BID, 0, 12_345)
    config = NexmarkConfig(seed=5, events=12_345, disorder_s=0.3)
    arrived = table(config, Kind.BID, 0, 12_345)
    assert not arrived.equals(in_order)
    assert compare(arrived, in_order).match is Match.MATCH
    times = arrived.column("dateTime").cast(pa.int64()).to_numpy()
    lateness_us = np.maximum.accumulate(times) - times
    assert 250_000 < lateness_us.max() <= 300_000


@settings(max_examples=50, deadline=None)
@given(
    disorder_s=st.sampled_from(DISORDERS),
    events=st.one_of(st.none(), st.integers(1, 4_000)),
    position=st.integers(0, 4_000),
)
def test_no_later_position_is_behind_the_watermark(disorder_s: float, events: int | None, position: int) -> None:
    config = NexmarkConfig(events=events, disorder_s=disorder_s)
    watermark = watermark_us(config, position)
    assert watermark_us(config, position + 1) >= watermark
    for kind in KINDS:
        later = generate(config, kind, position, position + 5_000, ["dateTime"]).column(0).cast(pa.int64())
        if len(later):
            assert pc.min(later).as_py() >= watermark


def test_the_watermark_keeps_up() -> None:
    assert watermark_us(NexmarkConfig(), 12_345) == event_time_us(NexmarkConfig(), 12_345)
    late = NexmarkConfig(disorder_s=0.1)
    assert watermark_us(late, 12_345) == event_time_us(late, 12_000)
    ended = NexmarkConfig(disorder_s=0.1, events=12_345)
    assert watermark_us(ended, 12_345) == event_time_us(ended, 12_345)


# Values


def test_ids_count_up_from_the_first_ids() -> None:
    assert column(NexmarkConfig(), Kind.PERSON, "id", 5_000).tolist() == list(range(1000, 1100))
    assert column(NexmarkConfig(), Kind.AUCTION, "id", 5_000).tolist() == list(range(1000, 1300))


def scalar_draw(seed: int, field: str, number: int) -> int:
    """The generator's hash, implemented again for one number at a time and without numpy."""

    def finalise(x: int) -> int:
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & WORD
        x = (x ^ x >> 27) * 0x94D049BB133111EB & WORD
        return x ^ x >> 31

    start = finalise(seed + 0x9E3779B97F4A7C15 & WORD)
    stream = finalise(start ^ zlib.crc32(field.encode()))
    return finalise(number * 0x9E3779B97F4A7C15 + stream & WORD)


def scalar_bid(seed: int, number: int) -> tuple[int, int, int]:
    """NEXMark's rules for a bid's auction, bidder and price, from its table of rules."""
    epoch = number // 50
    draw = scalar_draw(seed, "bid.auction", number)
    last = 3 * epoch + 2
    low = max(last - 100, 0)
    auction = last // 100 * 100 if draw >= 2**63 else low + ((draw % 2**32) * (last + 10 - low + 1) >> 32)
    draw = scalar_draw(seed, "bid.bidder", number)
    active = min(epoch + 1, 1000)
    any_active = epoch + 1 - active + ((draw % 2**32) * (active + 10) >> 32)
    bidder = epoch // 100 * 100 + 1 if draw >= 2**62 else any_active
    draw = scalar_draw(seed, "bid.price", number)
    u = draw % 2**13 / 2**13 + (draw >> 32) % 2**13 / 2**26
    return 1000 + auction, 1000 + bidder, round(100 * 10 ** (6 * u))


@pytest.mark.parametrize("start", [0, 1_000, 10**7, 10**12])
def test_bids_follow_the_rules_one_by_one(start: int) -> None:
    config = NexmarkConfig(seed=11)
    numbers = arriving_numbers(config, Kind.BID, start, start + 2_000).tolist()
    bids = generate(config, Kind.BID, start, start + 2_000, ["auction", "bidder", "price"]).to_pydict()
    auctions, bidders, prices = zip(*(scalar_bid(11, number) for number in numbers), strict=True)
    assert bids["auction"] == list(auctions)
    assert bids["bidder"] == list(bidders)
    assert bids["price"] == pytest.approx(list(prices), abs=1)


LETTERS = "abcdefghijklmnopqrstuvwxyz"


def scalar_word(pool: str, row: int) -> str:
    """A word of three or four letters, of which one in fourteen is a gap; gaps at its ends are left out."""
    draws = [scalar_draw(0, f"pool.{pool}", row * 5 + place) for place in range(5)]
    length = 3 + (draws[0] % 2**32 * 2 >> 32)
    return "".join((LETTERS + "__")[(draw >> 32) % 28] for draw in draws[:length]).strip("_")


def scalar_channel(seed: int, number: int) -> tuple[str, str]:
    """NEXMark's rules for a bid's channel and its address: half of the bids come from one of four hot channels; nine in
    ten of the other channels name themselves in their address, by their number with its 32 bits reversed."""
    draw = scalar_draw(seed, "bid.channel", number)
    hot, cold = draw % 2**32 * 4 >> 32, draw % 2**32 * 10_000 >> 32
    row = hot if draw >= 2**63 else 4 + cold
    one, two, three = (scalar_word(f"url.{part}", row) for part in range(3))
    url = f"https://www.nexmark.com/{one}/{two}/{three}/item.htm?query=1"
    if draw >= 2**63:
        return ("Google", "Facebook", "Baidu", "Apple")[hot], url
    if scalar_draw(0, "pool.url.named", cold) % 2**32 * 10 >> 32:
        backwards = sum(2 ** (31 - bit) for bit in range(32) if cold >> bit & 1)
        signed = backwards - 2**32 if backwards >= 2**31 else backwards
        url += f"&channel_id={abs(signed)}"
    return f"channel-{cold}", url


@pytest.mark.parametrize("start", [0, 10**12])
def test_channels_and_their_addresses_follow_the_rules_one_by_one(start: int) -> None:
    config = NexmarkConfig(seed=11)
    numbers = arriving_numbers(config, Kind.BID, start, start + 2_000).tolist()
    bids = generate(config, Kind.BID, start, start + 2_000, ["channel", "url"]).to_pydict()
    channels, urls = zip(*(scalar_channel(11, number) for number in numbers), strict=True)
    assert bids["channel"] == list(channels)
    assert bids["url"] == list(urls)


def near(share: float, probability: float, draws: int) -> bool:
    """Within five standard deviations of a binomial share."""
    return abs(share - probability) < 5 * math.sqrt(probability * (1 - probability) / draws)


def test_hot_auctions_bidders_and_sellers() -> None:
    config, stop = NexmarkConfig(seed=9), 2_000_000
    epochs = arriving_numbers(config, Kind.BID, 0, stop) // 50
    far = epochs > 2_000
    # The uniform choice may also hit the hot one: among 100 + 1 + 10 auctions, or 1,000 + 10 people.
    auction = column(config, Kind.BID, "auction", stop) - 1000
    hot = auction == (3 * epochs + 2) // 100 * 100
    assert near(hot[far].mean(), 1 / 2 + 1 / 2 / 111, int(far.sum()))
    bidder = column(config, Kind.BID, "bidder", stop) - 1000
    hot = bidder == epochs // 100 * 100 + 1
    assert near(hot[far].mean(), 3 / 4 + 1 / 4 / 1010, int(far.sum()))
    epochs = arriving_numbers(config, Kind.AUCTION, 0, stop) // 50
    far = epochs > 2_000
    seller = column(config, Kind.AUCTION, "seller", stop) - 1000
    hot = seller == epochs // 100 * 100
    assert near(hot[far].mean(), 3 / 4 + 1 / 4 / 1010, int(far.sum()))


def test_prices_are_uniform_in_their_logarithm() -> None:
    price = column(NexmarkConfig(seed=2), Kind.BID, "price", 500_000)
    assert 100 <= price.min() < 110
    assert 9.9e7 < price.max() <= 1e8
    u = np.log10(price / 100) / 6
    shares = np.histogram(u, bins=20, range=(0, 1))[0] / len(u)
    assert all(near(share, 1 / 20, len(u)) for share in shares[1:])  # rounding to whole prices skews the first


def test_auctions_last_as_long_as_the_horizon_on_average() -> None:
    config = NexmarkConfig(event_rate=1_000)
    rows = generate(config, Kind.AUCTION, 0, 500_000, ["dateTime", "expires", "category"])
    length_ms = (rows.column(1).cast(pa.int64()).to_numpy() - rows.column(0).cast(pa.int64()).to_numpy()) / 1000
    horizon_ms = 1_666
    assert length_ms.min() == 1
    assert length_ms.max() == 2 * horizon_ms
    assert abs(length_ms.mean() - horizon_ms) < 0.02 * horizon_ms
    categories = np.bincount(rows.column(2).to_numpy())[10:] / len(rows)
    assert len(categories) == 5
    assert all(near(share, 1 / 5, len(rows)) for share in categories)


@pytest.mark.parametrize(
    ("kind", "skipped", "mean"),
    [("person", {"dateTime"}, 200), ("auction", {"category"}, 500), ("bid", {"channel", "url"}, 100)],
)
def test_average_sizes(kind: str, skipped: set[str], mean: int) -> None:
    """Returns sizes in bytes as nexmark/nexmark counts them, without the fields that it skips."""
    rows = generate(NexmarkConfig(seed=4), kind, 0, 1_000_000)
    total = 0
    for field in rows.schema:
        if field.name not in skipped:
            column = rows.column(field.name)
            total += pc.sum(pc.binary_length(column)).as_py() if pa.types.is_string(field.type) else 8 * len(rows)
    assert total / len(rows) == pytest.approx(mean, rel=0.01)
    extra = pc.binary_length(rows.column("extra"))
    longest, shortest = pc.max(extra).as_py(), pc.min(extra).as_py()
    assert (longest - shortest) / (longest + shortest) == pytest.approx(0.2, abs=0.01)


def test_text_looks_as_published() -> None:
    person = table(NexmarkConfig(), Kind.PERSON, 0, 100_000)
    assert len(pc.unique(person.column("name"))) == 99
    assert len(pc.unique(person.column("city"))) == 10
    assert set(person.column("state").to_pylist()) == {"AZ", "CA", "ID", "OR", "WA", "WY"}
    assert pc.all(pc.match_substring_regex(person.column("creditCard"), r"^\d{4} \d{4} \d{4} \d{4}$")).as_py()
    assert pc.all(pc.match_substring_regex(person.column("emailAddress"), r"^[a-z ]+@[a-z ]+\.com$")).as_py()
    bid = table(NexmarkConfig(), Kind.BID, 0, 200_000)
    hot = pc.is_in(bid.column("channel"), pa.array(["Google", "Facebook", "Baidu", "Apple"]))
    assert near(pc.mean(hot.cast(pa.int8())).as_py(), 1 / 2, bid.num_rows)
    assert len(pc.unique(bid.column("channel"))) > 9_900
    named = pc.match_substring(bid.column("url"), "&channel_id=").filter(pc.invert(hot))
    assert 0.85 < pc.mean(named.cast(pa.int8())).as_py() < 0.95
    per_channel = bid.group_by("channel").aggregate([("url", "count_distinct")])
    assert pc.max(per_channel.column("url_count_distinct")).as_py() == 1
