"""Random rows of a published table: results by the minute, with every kind of column, nulls and NaN."""

from __future__ import annotations

import datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("start", pa.timestamp("us", tz="UTC")),
        ("auction", pa.int32()),
        ("bids", pa.int64()),
        ("price", pa.float64()),
        ("amount", pa.decimal128(10, 2)),
        ("channel", pa.string()),
        ("open", pa.bool_()),
        ("day", pa.date32()),
    ]
)
SMALL_SCHEMA = pa.schema([("auction", pa.int32()), ("title", pa.string()), ("rank", pa.int32())])
CHANNELS = ("web", "app", "Web", "", "téléphone", "a'b")


def random_rows(rng: Random, count: int, hours: int = 24, auctions: int = 12) -> pa.Table:
    """Returns rows of some hours, with few distinct keys. Doubles are quarters, so that sums do not depend on their
    order."""
    rows = []
    for number in range(count):
        start = BEGIN + datetime.timedelta(minutes=rng.randrange(60 * hours), seconds=rng.choice((0, 0, 30)))
        rows.append(
            {
                "id": number,
                "start": start,
                "auction": _maybe(rng, rng.randrange(auctions)),
                "bids": _maybe(rng, rng.randint(-5, 200)),
                "price": _maybe(rng, rng.choice((rng.randint(-40, 400) / 4, rng.randint(0, 9), float("nan"), -0.0))),
                "amount": _maybe(rng, Decimal(rng.randint(-9_999, 99_999)).scaleb(-2)),
                "channel": _maybe(rng, rng.choice(CHANNELS)),
                "open": _maybe(rng, rng.random() < 0.5),
                "day": _maybe(rng, start.date()),
            }
        )
    return pa.Table.from_pylist(rows, SCHEMA)


def small_rows(rng: Random, auctions: int = 12) -> pa.Table:
    """Returns a small table to join: some auctions, one of them twice, and one without a key."""
    rows = [{"auction": each, "title": f"title {each}", "rank": rng.randrange(4)} for each in range(0, auctions, 2)]
    rows += [{"auction": 2, "title": None, "rank": 9}, {"auction": None, "title": "no key", "rank": 1}]
    return pa.Table.from_pylist(rows, SMALL_SCHEMA)


def _maybe(rng: Random, value: Any) -> Any:
    return None if rng.random() < 0.12 else value
