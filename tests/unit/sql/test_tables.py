"""Tables and statements: what is declared, what is a source, a sink, a view or rows, and window functions over them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.sql_runs import rows_of, simulated

from stretto import App, sinks, sources, udf
from stretto.errors import PlanError, SqlError

START = datetime(2026, 3, 1, tzinfo=UTC)
ROWS = [(n % 3, n, START + timedelta(seconds=n * n % 47, milliseconds=n)) for n in range(40)]
BIDS = pa.table(
    {
        "k": [k for k, _, _ in ROWS],
        "v": [v for _, v, _ in ROWS],
        "at": pa.array([at for _, _, at in ROWS], pa.timestamp("us", tz="UTC")),
    }
)
B = "b WATERMARK at DELAY OF INTERVAL 60 SECONDS"


def run(text: str, sink: str | None = None) -> list[tuple[object, ...]]:
    return rows_of(text, sink, b=sources.memory(BIDS, batch_rows=3), names=pa.table({"k": [0, 1], "name": ["a", "b"]}))


def windows(at: datetime, function: str) -> Iterator[tuple[datetime, datetime]]:
    """Yields the windows of a time, found by trying all that there are in two minutes."""
    for second in range(-60, 120):
        start = START + timedelta(seconds=second)
        ends = {"TUMBLE": [10], "HOP": [10], "CUMULATE": [5, 10, 15]}[function]
        every = {"TUMBLE": 10, "HOP": 4, "CUMULATE": 15}[function]
        if int(start.timestamp()) % every == 0:
            yield from (
                (start, start + timedelta(seconds=n)) for n in ends if start <= at < start + timedelta(seconds=n)
            )


SIZES = {"TUMBLE": "'10 s'", "HOP": "INTERVAL 4 SECONDS, INTERVAL '10' SECOND", "CUMULATE": "'5 s', '15 s'"}


@pytest.mark.parametrize("function", SIZES)
def test_a_window_function_divides_rows_and_groups(function: str) -> None:
    source = f"{function}(TABLE {B}, DESCRIPTOR(at), {SIZES[function]})"
    every = [(k, v, start, end) for k, v, at in ROWS for start, end in windows(at, function)]
    assert run(f"SELECT k, v, window_start, window_end FROM {source}") == sorted(every, key=repr)
    sums: dict[tuple[object, ...], int] = defaultdict(int)
    for k, v, start, end in every:
        sums[start, end, k] += v
    text = f"SELECT window_start, window_end, k, sum(v) AS total FROM {source} GROUP BY window_start, window_end, k"
    assert run(text) == sorted(((*key, total) for key, total in sums.items()), key=repr)


def test_sessions_by_function_and_by_call() -> None:
    by_function = f"""SELECT k, window_start, window_end, window_time, count(*) AS n
        FROM SESSION(TABLE {B} PARTITION BY k, DESCRIPTOR(at), INTERVAL '4' SECOND)
        GROUP BY window_start, window_end, window_time, k"""
    by_call = f"""SELECT k, session_window.start, session_window.end, session_window.end - INTERVAL 1 MICROSECOND AS t,
        count(*) AS n FROM STREAM {B} GROUP BY k, session_window(at, '4 seconds')"""
    assert run(by_function) == run(by_call)
    gaps = 0
    for key in range(3):
        times = sorted(at for k, _, at in ROWS if k == key)
        gaps += 1 + sum(b - a > timedelta(seconds=4) for a, b in pairwise(times))
    assert len(run(by_call)) == gaps
    with pytest.raises(SqlError, match="partitioned by other columns"):
        run(by_function.replace("PARTITION BY k", "PARTITION BY v"))
    with pytest.raises(SqlError, match="not known before it closes"):
        run(f"SELECT k FROM SESSION(TABLE {B}, DESCRIPTOR(at), '4 s')")


def test_a_window_function_in_a_rank_and_a_join() -> None:
    source = f"TUMBLE(TABLE {B}, DESCRIPTOR(at), SIZE => INTERVAL 10 SECONDS)"
    best: dict[tuple[object, ...], int] = {}
    pairs = []
    for k, v, at in ROWS:
        ((start, end),) = windows(at, "TUMBLE")
        best[start, k] = max(best.get((start, k), -1), v)
        pairs += [(v, w) for j, w, other in ROWS if j == k and v < w and start <= other < end]
    text = f"SELECT window_start, k, v FROM {source} "
    text += "QUALIFY ROW_NUMBER() OVER (PARTITION BY k, window_start, window_end ORDER BY v DESC) = 1"
    assert run(text) == sorted(((*key, v) for key, v in best.items()), key=repr)
    joined = f"""SELECT x.v, y.v AS w FROM {source} x JOIN TUMBLE(TABLE b, DESCRIPTOR(at), '10 s') y
        ON x.k = y.k AND x.window_start = y.window_start AND y.window_end = x.window_end AND x.v < y.v"""
    assert run(joined) == sorted(pairs, key=repr)
    tops = f"""WITH t AS (
            SELECT window_start, window_end, max(v) AS top FROM {source} GROUP BY window_start, window_end)
        SELECT x.v FROM TUMBLE(TABLE b, DESCRIPTOR(at), '10 s') x JOIN t
        ON x.v = t.top AND x.window_start = t.window_start AND x.window_end = t.window_end"""
    highest: dict[object, int] = {}
    for (start, _), v in best.items():
        highest[start] = max(highest.get(start, -1), v)
    assert run(tops) == sorted(((v,) for v in highest.values()), key=repr)


def test_windows_that_rows_have_are_grouped_again() -> None:
    text = f"""WITH c AS (SELECT window_start AS s, window_end AS e, k, count(*) AS n
        FROM TUMBLE(TABLE {B}, DESCRIPTOR(at), '10 s') GROUP BY window_start, window_end, k)
        SELECT s, e, max(n) AS most FROM c GROUP BY s, e"""
    counts: dict[datetime, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for k, _, at in ROWS:
        ((start, _),) = windows(at, "TUMBLE")
        counts[start][k] += 1
    most = [(start, start + timedelta(seconds=10), max(each.values())) for start, each in counts.items()]
    assert run(text) == sorted(most, key=repr)


def test_rows_of_values_and_their_types() -> None:
    text = """CREATE STREAMING TABLE t (id BIGINT, price DECIMAL(6, 2), at TIMESTAMP) AS
        VALUES (1, 2.5, TIMESTAMP '2026-03-01 00:00:00'), (2, NULL, NULL);
        SELECT * FROM t"""
    table = simulated(App.sql(text))
    assert [str(field.type) for field in table.schema] == ["int64", "decimal128(6, 2)", "timestamp[us, tz=UTC]"]
    assert table["at"].to_pylist() == [START, None]
    tokyo = simulated(App.sql(text, timezone="Asia/Tokyo"))
    assert tokyo["at"].to_pylist() == [START - timedelta(hours=9), None]


def test_views_tables_and_flows() -> None:
    text = """CREATE STREAMING TABLE even AS SELECT k, v FROM STREAM b WHERE v % 2 = 0;
        CREATE VIEW small (key, value) AS SELECT * FROM even WHERE v < 10;
        CREATE TABLE out (n BIGINT) USING collect;
        CREATE FLOW f AS INSERT INTO out SELECT value FROM small"""
    assert run(text) == [(n,) for n in (0, 2, 4, 6, 8)]
    app = App.sql(text, tables={"b": sources.memory(BIDS)})
    assert [sink.name for sink in app.plan().sinks] == ["out"]  # `even` is read, so it is no result of its own.
    alone = App.sql(text.split("CREATE VIEW")[0], tables={"b": sources.memory(BIDS)})
    assert simulated(alone).num_rows == 20


def test_columns_of_an_insert_are_those_of_the_table() -> None:
    table = "CREATE TABLE out (a BIGINT, b STRING) USING collect; INSERT INTO out "
    assert run(table + "(b, a) SELECT 'x', v FROM STREAM b WHERE v = 1") == [(1, "x")]
    assert run(table + "BY NAME SELECT 'x' AS b, v AS a FROM STREAM b WHERE v = 1") == [(1, "x")]
    with pytest.raises(SqlError, match="another type than in the table"):
        run(table + "SELECT v, v FROM STREAM b")
    with pytest.raises(SqlError, match="has 1 columns, and the table 2"):
        run(table + "SELECT v FROM STREAM b")


def test_tables_are_stored_in_files(tmp_path: object) -> None:
    pq.write_table(BIDS, f"{tmp_path}/bids.parquet")
    text = f"""CREATE STREAMING TABLE f USING parquet OPTIONS (path = '{tmp_path}/bids.parquet');
        CREATE TABLE names2 USING parquet LOCATION '{tmp_path}/bids.parquet';
        SELECT f.v FROM f JOIN names2 n ON f.v = n.v AND n.k = 2 WHERE f.v < 9"""
    assert run(text) == [(2,), (5,), (8,)]


def test_a_format_of_a_users_own() -> None:
    text = f"CREATE STREAMING TABLE mine USING '{__name__}:numbers' OPTIONS (count = 4); SELECT n FROM mine"
    assert rows_of(text) == [(0,), (1,), (2,), (3,)]
    with pytest.raises(SqlError, match="needs count"):
        rows_of(text.replace("OPTIONS (count = 4)", ""))


def numbers(count: int) -> object:
    return sources.memory(pa.table({"n": range(count)}))


@udf("bigint")
def twice(value: pa.Array) -> pa.Array:
    return pa.array([None if each is None else 2 * each for each in value.to_pylist()], pa.int64())


def test_functions_of_python() -> None:
    query = "SELECT twice(v) + 1 AS w FROM STREAM b WHERE twice(v) < 5"
    assert run(f"CREATE FUNCTION twice AS '{__name__}:twice'; {query}") == [(1,), (3,), (5,)]
    app = App.sql(query, tables={"b": sources.memory(BIDS)}, udfs=[twice])
    assert simulated(app).num_rows == 3


def test_a_sink_of_python() -> None:
    app = App.sql("INSERT INTO kept SELECT v FROM b", tables={"b": sources.memory(BIDS), "kept": sinks.collect()})
    assert simulated(app, "kept").num_rows == 40


def test_names_need_no_case_and_may_be_quoted() -> None:
    text = "select `v` as `the value`, K from stream B -- a comment\nwhere /* one\nmore */ V = 7 AND 'it''s' = \"it's\""
    assert run(text) == [(7, 1)]


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"text": 5}, "'text'"),
        ({"text": "SELECT 1", "tables": ["b"]}, "a dict of sources, sinks and data"),
        ({"text": "SELECT 1", "speed": 3}, "speed"),
        ({"text": "SELECT n FROM b", "tables": {"b": 7}}, "takes a DataFrame"),
    ],
)
def test_other_arguments_are_refused(arguments: dict[str, Any], wrong: str) -> None:
    with pytest.raises(PlanError, match=wrong):
        App.sql(**arguments)


def test_columns_that_are_parts_of_the_words_around_them() -> None:
    columns = {"k": [1, 2, 1, 1], "c": ["x", "y", "z", "x"], "d": [1, 2, 3, 4], "s": [1, 2, 3, 3]}
    letters = sources.memory(pa.table(columns))
    text = """SELECT b.k, count(c) AS n, count(distinct c) AS cs,
        sum(distinct s) filter (where s > d - 9 and d > 0) AS ds,
        listagg(distinct b.c, ',') within group (order by b.c desc) AS texts, sum(d) / count(d) AS mean
        FROM b GROUP BY k HAVING max(d) > 0 AND listagg(c) WITHIN GROUP (ORDER BY c) <> 'z'"""
    assert rows_of(text, b=letters) == [(1, 3, 2, 4, "z,x", 8 / 3), (2, 1, 1, 2, "y", 2.0)]
