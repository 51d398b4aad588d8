"""NEXMark queries 9 to 22 row by row in plain Python: what the oracle's SQL must answer.

Rows are dictionaries with times as microseconds. Days and hours are those of UTC.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

Row = dict[str, Any]
Events = Mapping[str, list[Row]]

HOT_CHANNELS = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}


def formatted(time_us: int, pattern: str) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime(pattern)


def day(bid: Row) -> str:
    return formatted(bid["dateTime"], "%Y-%m-%d")


def minute(bid: Row) -> str:
    return formatted(bid["dateTime"], "%H:%M")


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def only(row: Row, *names: str) -> Row:
    return {name: row[name] for name in names}


def winning_bids(events: Events) -> list[Row]:
    bids = grouped(events["bid"], lambda bid: bid["auction"])
    answer = []
    for auction in events["auction"]:
        valid = [bid for bid in bids[auction["id"]] if auction["dateTime"] <= bid["dateTime"] <= auction["expires"]]
        if valid:
            best = min(valid, key=lambda bid: (-bid["price"], bid["dateTime"], bid["bidder"], bid["extra"]))
            taken = only(best, "auction", "bidder", "price")
            answer.append(auction | taken | {"bid_dateTime": best["dateTime"], "bid_extra": best["extra"]})
    return answer


def logged(events: Events) -> list[Row]:
    kept = ("auction", "bidder", "price", "dateTime", "extra")
    return [only(bid, *kept) | {"dt": day(bid), "hm": minute(bid)} for bid in events["bid"]]


def enriched(events: Events) -> list[Row]:
    kept = ("auction", "bidder", "price", "dateTime")
    return [only(bid, *kept) | {"value": str(bid["auction"] % 10_000)} for bid in events["bid"]]


def calculated(events: Events) -> list[Row]:
    answer = []
    for bid in events["bid"]:
        price = Decimal("0.908") * bid["price"]
        if 1_000_000 < price < 50_000_000:
            hour = int(formatted(bid["dateTime"], "%H"))
            part = "dayTime" if 8 <= hour <= 18 else "otherTime" if hour in (7, 19) else "nightTime"
            counted = {"price": price, "bidTimeType": part, "c_counts": bid["extra"].count("c")}
            answer.append(only(bid, "auction", "bidder", "dateTime", "extra") | counted)
    return answer


def ranked(bids: list[Row], name: str, count: Callable[[list[Row]], int]) -> Row:
    """Returns a figure of all bids, and of those of each class of prices."""
    classes = grouped(bids, lambda bid: 1 if bid["price"] < 10_000 else 2 if bid["price"] < 1_000_000 else 3)
    return {f"total_{name}": count(bids)} | {f"rank{i}_{name}": count(classes[i]) for i in (1, 2, 3)}


def statistics(bids: list[Row]) -> Row:
    def distinct(column: str) -> Callable[[list[Row]], int]:
        return lambda rows: len({row[column] for row in rows})

    bidders, auctions = distinct("bidder"), distinct("auction")
    return ranked(bids, "bids", len) | ranked(bids, "bidders", bidders) | ranked(bids, "auctions", auctions)


def by_day(events: Events) -> list[Row]:
    return [{"day": key} | statistics(bids) for key, bids in grouped(events["bid"], day).items()]


def by_channel_and_day(events: Events) -> list[Row]:
    groups = grouped(events["bid"], lambda bid: (bid["channel"], day(bid)))
    return [
        {"channel": channel, "day": key, "minute": max(map(minute, bids))} | statistics(bids)
        for (channel, key), bids in groups.items()
    ]


def by_auction_and_day(events: Events) -> list[Row]:
    answer = []
    for (auction, key), bids in grouped(events["bid"], lambda bid: (bid["auction"], day(bid))).items():
        prices = [bid["price"] for bid in bids]
        figures = {"min_price": min(prices), "max_price": max(prices), "sum_price": sum(prices)}
        figures["avg_price"] = sum(prices) / len(prices)
        answer.append({"auction": auction, "day": key} | ranked(bids, "bids", len) | figures)
    return answer


def last_bids(events: Events) -> list[Row]:
    groups = grouped(events["bid"], lambda bid: (bid["bidder"], bid["auction"]))
    order = ("dateTime", "price", "channel", "extra")
    return [max(bids, key=lambda bid: [bid[name] for name in order]) for bids in groups.values()]


def ten_highest(events: Events) -> list[Row]:
    order = ("dateTime", "bidder", "channel", "extra")
    answer = []
    for bids in grouped(events["bid"], lambda bid: bid["auction"]).values():
        bids.sort(key=lambda bid: [-bid["price"], *(bid[name] for name in order)])
        answer += [bid | {"rank_number": place} for place, bid in enumerate(bids[:10], 1)]
    return answer


def expanded(events: Events) -> list[Row]:
    auctions = {auction["id"]: auction for auction in events["auction"] if auction["category"] == 10}
    kept = ("itemName", "description", "initialBid", "reserve", "expires", "seller", "category")
    answer = []
    for bid in events["bid"]:
        if auction := auctions.get(bid["auction"]):
            row = only(bid, "auction", "bidder", "price", "channel", "url") | only(auction, *kept)
            row |= {"bid_dateTime": bid["dateTime"], "bid_extra": bid["extra"]}
            answer.append(row | {"auction_dateTime": auction["dateTime"], "auction_extra": auction["extra"]})
    return answer


def with_channel_id(events: Events) -> list[Row]:
    answer = []
    for bid in events["bid"]:
        named = re.search("&channel_id=([^&]*)", bid["url"])
        found = HOT_CHANNELS.get(bid["channel"].lower()) or (named and named[1])
        if found:
            answer.append(only(bid, "auction", "bidder", "price", "channel") | {"channel_id": found})
    return answer


def with_directories(events: Events) -> list[Row]:
    answer = []
    for bid in events["bid"]:
        _, _, _, one, two, three, *_ = bid["url"].split("/")
        kept = only(bid, "auction", "bidder", "price", "channel")
        answer.append(kept | {"dir1": one, "dir2": two, "dir3": three})
    return answer


MODELS: dict[str, Callable[[Events], list[Row]]] = {
    "q9": winning_bids,
    "q10": logged,
    "q13": enriched,
    "q14": calculated,
    "q15": by_day,
    "q16": by_channel_and_day,
    "q17": by_auction_and_day,
    "q18": last_bids,
    "q19": ten_highest,
    "q20": expanded,
    "q21": with_channel_id,
    "q22": with_directories,
}
