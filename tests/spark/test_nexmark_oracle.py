"""The oracle's SQL runs on a real Spark, and agrees with brute force where a query is more than a filter."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.nexmark_models import MODELS, Events, Row

from stretto.bench.nexmark.events import AUCTION, BID, Kind, NexmarkConfig, count_events
from stretto.bench.nexmark.generator import generate
from stretto.bench.nexmark.oracle import QUERIES, answer, load_views, write_events
from stretto.bench.verify import Match, compare
from stretto.errors import SourceError, UserError

SECOND = 1_000_000
# 80 seconds of event time around midnight: several windows and sessions, two days, auctions of 6 seconds on average.
MIDNIGHT = NexmarkConfig().base_time_us
CONFIG = NexmarkConfig(seed=7, events=20_000, event_rate=250, disorder_s=2.0, base_time_us=MIDNIGHT - 40 * SECOND)
TIMESTAMP = pa.timestamp("us", tz="UTC")

STATISTICS = [f"{of}_{what}" for what in ("bids", "bidders", "auctions") for of in ("total", "rank1", "rank2", "rank3")]

COLUMNS = {
    "q0": ["auction", "bidder", "price", "dateTime", "extra"],
    "q1": ["auction", "bidder", "price", "dateTime", "extra"],
    "q2": ["auction", "price"],
    "q3": ["name", "city", "state", "id"],
    "q4": ["category", "avg_price"],
    "q5": ["window_start", "window_end", "auction", "num"],
    "q6": ["seller", "avg_price"],
    "q7": ["window_start", "window_end", "auction", "bidder", "price", "dateTime"],
    "q8": ["id", "name", "window_start", "window_end"],
    "q9": [*AUCTION.names, "auction", "bidder", "price", "bid_dateTime", "bid_extra"],
    "q10": ["auction", "bidder", "price", "dateTime", "extra", "dt", "hm"],
    "q11": ["bidder", "window_start", "window_end", "bids"],
    "q12": ["bidder", "window_start", "window_end", "bids"],
    "q13": ["auction", "bidder", "price", "dateTime", "value"],
    "q14": ["auction", "bidder", "price", "bidTimeType", "dateTime", "extra", "c_counts"],
    "q15": ["day", *STATISTICS],
    "q16": ["channel", "day", "minute", *STATISTICS],
    "q17": ["auction", "day", *STATISTICS[:4], "min_price", "max_price", "avg_price", "sum_price"],
    "q18": BID.names,
    "q19": [*BID.names, "rank_number"],
    "q20": [
        *("auction", "bidder", "price", "channel", "url", "bid_dateTime", "bid_extra", "itemName", "description"),
        *("initialBid", "reserve", "auction_dateTime", "expires", "seller", "category", "auction_extra"),
    ],
    "q21": ["auction", "bidder", "price", "channel", "channel_id"],
    "q22": ["auction", "bidder", "price", "channel", "dir1", "dir2", "dir3"],
}


@pytest.fixture(scope="module")
def events() -> dict[str, pa.Table]:
    """Returns the events of every view. Bids are ingested 30 seconds after their time, the most expensive ones 40
    seconds."""
    tables = {kind.value: pa.Table.from_batches([generate(CONFIG, kind, 0, 20_000)]) for kind in Kind}
    bid = tables["bid"]
    late = [at + (40 if price > 10**7 else 30) * SECOND for at, price in times_and_prices(bid)]
    tables["bid_ingested"] = bid.append_column("ingestTime", pa.array(late, TIMESTAMP))
    return tables


@pytest.fixture(scope="module")
def answers(
    spark: SparkSession, events: dict[str, pa.Table], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, pa.Table]:
    directory = tmp_path_factory.mktemp("events")
    for view, table in events.items():
        (directory / view).mkdir()
        pq.write_table(table, directory / view / "events.parquet")
    return {query: answer(spark, query, directory) for query in QUERIES}


def rows(table: pa.Table) -> list[Row]:
    """Returns rows as dictionaries, with times as microseconds."""
    as_numbers = pa.schema([f.with_type(pa.int64()) if f.type == TIMESTAMP else f for f in table.schema])
    return list(table.cast(as_numbers).to_pylist())


def times_and_prices(bid: pa.Table) -> list[tuple[int, int]]:
    return [(row["dateTime"], row["price"]) for row in rows(bid.select(["dateTime", "price"]))]


def check(actual: pa.Table, expected: list[Row]) -> None:
    assert expected, "a model without rows shows nothing"
    verdict = compare(actual, pa.Table.from_pylist(expected, schema=actual.schema))
    assert verdict.match is Match.MATCH, verdict.describe()


def tumbling(time: int) -> Row:
    start = time - time % (10 * SECOND)
    return {"window_start": start, "window_end": start + 10 * SECOND}


# Shapes


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_answers_in_the_agreed_columns(query: str, answers: dict[str, pa.Table]) -> None:
    table = answers[query]
    assert table.column_names == COLUMNS[query]
    assert table.num_rows > 0
    for field in table.schema:
        assert not pa.types.is_timestamp(field.type) or field.type == TIMESTAMP
        assert field.name != "avg_price" or field.type == pa.float64()


def test_tables_and_a_written_directory_give_the_same_answers(
    spark: SparkSession, events: dict[str, pa.Table], answers: dict[str, pa.Table], tmp_path: Path
) -> None:
    write_events(CONFIG, tmp_path)
    assert load_views(spark, tmp_path) == ("person", "auction", "bid")
    assert spark.table("bid").count() == count_events(CONFIG, "bid") == 18_400
    for query in ("q0", "q8"):
        assert compare(answer(spark, query, tmp_path), answers[query]).match is Match.MATCH
        assert compare(answer(spark, query, events), answers[query]).match is Match.MATCH


def test_events_are_written_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stretto.bench.nexmark.oracle.WRITE_CHUNK", 3_000)
    write_events(CONFIG, tmp_path, ["auction"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["auction"]
    written = pq.read_table(tmp_path / "auction")
    assert written.equals(pa.Table.from_batches([generate(CONFIG, "auction", 0, 20_000)]))
    assert pq.ParquetFile(tmp_path / "auction" / "events.parquet").num_row_groups == 7


def test_the_caller_keeps_its_settings_and_views(spark: SparkSession, events: dict[str, pa.Table]) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        table = answer(spark, "q7", {"bid": events["bid"].slice(0, 100)})
        assert table.schema.field("window_start").type == TIMESTAMP
        assert {row["window_start"] for row in rows(table)} == {CONFIG.base_time_us}
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_mistakes_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no NEXMark query 'q23'"):
        answer(spark, "q23", {})
    with pytest.raises(SourceError, match="no NEXMark events"):
        load_views(spark, tmp_path)
    with pytest.raises(UserError, match="no end"):
        write_events(NexmarkConfig(), tmp_path)


# Brute force


def winners(events: dict[str, pa.Table]) -> list[tuple[Row, Row]]:
    """Returns each auction that has a winning bid, with that bid."""
    bids = defaultdict(list)
    for bid in rows(events["bid"].select(["auction", "price", "dateTime"])):
        bids[bid["auction"]].append(bid)
    found = []
    for auction in rows(events["auction"]):
        valid = [
            bid
            for bid in bids[auction["id"]]
            if auction["dateTime"] <= bid["dateTime"] < auction["expires"] and bid["price"] >= auction["reserve"]
        ]
        if valid:
            found.append((auction, min(valid, key=lambda bid: (-bid["price"], bid["dateTime"]))))
    return found


def test_q1_and_q2(answers: dict[str, pa.Table], events: dict[str, pa.Table]) -> None:
    bids = rows(events["bid"])
    assert sorted(int(p.as_py() * 1000) for p in answers["q1"]["price"]) == sorted(908 * b["price"] for b in bids)
    check(answers["q2"], [{k: b[k] for k in ("auction", "price")} for b in bids if b["auction"] % 123 == 0])


def test_q3(answers: dict[str, pa.Table], events: dict[str, pa.Table]) -> None:
    sellers = {p["id"]: p for p in rows(events["person"]) if p["state"] in ("OR", "ID", "CA")}
    chosen = [a for a in rows(events["auction"]) if a["category"] == 10 and a["seller"] in sellers]
    check(
        answers["q3"],
        [{k: sellers[a["seller"]][k] for k in ("name", "city", "state")} | {"id": a["id"]} for a in chosen],
    )


def test_q4(answers: dict[str, pa.Table], events: dict[str, pa.Table]) -> None:
    prices = defaultdict(list)
    for auction, bid in winners(events):
        prices[auction["category"]].append(bid["price"])
    check(answers["q4"], [{"category": c, "avg_price": sum(p) / len(p)} for c, p in prices.items()])


def test_q5(answers: dict[str, pa.Table], events: dict[str, pa.Table]) -> None:
    windows: dict[int, Counter[int]] = defaultdict(Counter)
    for bid in rows(events["bid"].select(["auction", "dateTime"])):
        latest = bid["dateTime"] - bid["dateTime"] % (2 * SECOND)
        for start in range(latest, latest - 10 * SECOND, -2 * SECOND):
            windows[start][bid["auction"]] += 1
    check(
        answers["q5"],
        [
            {"window_start": start, "window_end": start + 10 * SECOND, "auction": auction, "num": num}
            for start, counts in windows.items()
            for auction, num in counts.items()
            if num == max(counts.values())
        ],
    )


def test_q6(answers: dict[str, pa.Table], events: dict[str, pa.Table]) -> None:
    prices = defaultdict(list)
    for auction, bid in sorted(winners(events), key=lambda won: (won[0]["expires"], won[0]["id"])):
        prices[auction["seller"]].append(bid["price"])
    assert max(len(p) for p in prices.values()) > 10
    check(answers["q6"], [{"seller": s, "avg_price": sum(p[-10:]) / len(p[-10:])} for s, p in prices.items()])


def test_q7(answers: dict[str, pa.Table], events: dict[str, pa.Table]) -> None:
    bids = [tumbling(bid["dateTime"]) | bid for bid in rows(events["bid"])]
    highest: Counter[int] = Counter()
    for bid in bids:
        highest[bid["window_start"]] = max(highest[bid["window_start"]], bid["price"])
    best = [bid for bid in bids if bid["price"] == highest[bid["window_start"]]]
    check(answers["q7"], [{name: bid[name] for name in COLUMNS["q7"]} for bid in best])


def test_q7_keeps_every_bid_of_the_highest_price(spark: SparkSession, events: dict[str, pa.Table]) -> None:
    level = events["bid"].slice(0, 50).drop_columns(["price"]).append_column("price", pa.array([5] * 50))
    assert answer(spark, "q7", {"bid": level}).num_rows == 50


def test_q8(answers: dict[str, pa.Table], events: dict[str, pa.Table]) -> None:
    sold = {(a["seller"], tumbling(a["dateTime"])["window_start"]) for a in rows(events["auction"])}
    people = [tumbling(p["dateTime"]) | {"id": p["id"], "name": p["name"]} for p in rows(events["person"])]
    check(answers["q8"], [p for p in people if (p["id"], p["window_start"]) in sold])


def test_q11(answers: dict[str, pa.Table], events: dict[str, pa.Table]) -> None:
    times = defaultdict(list)
    for bid in rows(events["bid"].select(["bidder", "dateTime"])):
        times[bid["bidder"]].append(bid["dateTime"])
    expected = []
    for bidder, at in times.items():
        sessions: list[list[int]] = []
        for time in sorted(at):
            if sessions and time <= sessions[-1][-1] + 10 * SECOND:
                sessions[-1].append(time)
            else:
                sessions.append([time])
        expected += [
            {"bidder": bidder, "window_start": s[0], "window_end": s[-1] + 10 * SECOND, "bids": len(s)}
            for s in sessions
        ]
    assert len(expected) > len(times), "some bidder needs two sessions"
    check(answers["q11"], expected)


def test_q11_sessions_that_touch_are_one(spark: SparkSession) -> None:
    """A window's end is exclusive, but a bid exactly one gap after the last one continues its session."""
    first = CONFIG.base_time_us
    times = [first, first + 10 * SECOND, first + 20 * SECOND + 1000]
    bids = pa.table({"bidder": [1, 1, 1], "dateTime": pa.array(times, TIMESTAMP)})
    assert sorted(answer(spark, "q11", {"bid": bids})["bids"].to_pylist()) == [1, 2]


def test_q12(answers: dict[str, pa.Table], events: dict[str, pa.Table]) -> None:
    counts = Counter((b["bidder"], tumbling(b["ingestTime"])["window_start"]) for b in rows(events["bid_ingested"]))
    check(
        answers["q12"],
        [{"bidder": bidder, "bids": bids} | tumbling(start) for (bidder, start), bids in counts.items()],
    )


@pytest.fixture(scope="module")
def event_rows(events: dict[str, pa.Table]) -> Events:
    return {view: rows(table) for view, table in events.items()}


@pytest.mark.parametrize("query", MODELS)
def test_later_queries_are_those_of_the_models(query: str, answers: dict[str, pa.Table], event_rows: Events) -> None:
    check(answers[query], MODELS[query](event_rows))


def test_q14_tells_the_parts_of_the_day(spark: SparkSession, events: dict[str, pa.Table]) -> None:
    bids = events["bid"].slice(0, 24 * 6)
    times = pa.array([MIDNIGHT + i * 600 * SECOND for i in range(24 * 6)], TIMESTAMP)
    bids = bids.drop_columns(["dateTime", "price"]).append_column("dateTime", times)
    bids = bids.append_column("price", pa.array([2_000_000] * len(times)))
    table = answer(spark, "q14", {"bid": bids})
    assert Counter(table["bidTimeType"].to_pylist()) == {"dayTime": 66, "nightTime": 66, "otherTime": 12}
    check(table, MODELS["q14"]({"bid": rows(bids)}))
