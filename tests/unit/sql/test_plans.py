"""What SQL is compiled to: the plan that the verbs of Python make, with its bounds in time and its names."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stretto import App, objective, sinks, sources, tumbling
from stretto.api.plan import AggregateNode, DistinctNode, FilterNode, JoinNode, Plan, SourceNode, TableJoinNode, TopNode
from stretto.errors import PlanError
from stretto.operators.join_nearest import Direction, Nearness
from stretto.operators.windows import Hopping, Span, Tumbling

TIMES = pa.timestamp("us", tz="UTC")
BIDS = pa.table({"k": [1], "v": [3], "at": pa.array([0], TIMES), "extra": ["x"]})
ITEMS = pa.table({"id": [1], "opened": pa.array([0], TIMES), "closes": pa.array([9], TIMES), "note": ["y"]})
B = "STREAM b WATERMARK at DELAY OF INTERVAL 1 SECOND"
I = "STREAM i WATERMARK opened DELAY OF INTERVAL 2 SECONDS"  # noqa: E741


def app_of(text: str, **options: Any) -> App:
    tables = {"b": sources.memory(BIDS), "i": sources.memory(ITEMS), "names": ITEMS}
    return App.sql(text, tables=tables, **options)


def plan_of(text: str) -> Plan:
    return app_of(text).plan()


def only(plan: Plan, kind: type[Any]) -> Any:
    (found,) = [node for node in plan.nodes.values() if isinstance(node, kind)]
    return found


def test_a_query_is_the_app_that_python_makes() -> None:
    text = (
        f"WITH counts AS (SELECT window_start, window_end, k, count(*) AS n FROM TUMBLE(TABLE {B[7:]}, DESCRIPTOR(at), "
    )
    text += "INTERVAL '10' SECOND) GROUP BY window_start, window_end, k) SELECT * FROM counts"
    mine = app_of(text + " QUALIFY RANK() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) = 1", name="a")
    app = App("a")
    bids = app.source("b", sources.memory(BIDS), time="at", delay="1 second")
    counts = bids.key_by("k").window(tumbling("10 seconds")).aggregate(n="count(*)", name="counts")
    best = counts.top(1, by="n DESC").select("window_start", "window_end", "k", "n")
    best.sink(sinks.collect(), name="result")
    assert mine.explain().replace("`", "").replace(" AS ", " ").split("select")[0] == app.explain().split("select")[0]
    assert list(mine.plan().nodes) == list(app.plan().nodes)


BOUNDS = [
    ("b.at BETWEEN i.opened AND i.closes", "`opened`", "`closes`", True),
    ("b.at >= i.opened AND b.at < i.closes", "`opened`", "`closes`", False),
    ("i.closes >= b.at AND i.opened <= b.at", "`opened`", "`closes`", True),
    (
        "i.opened BETWEEN b.at - INTERVAL 5 SECONDS AND b.at + INTERVAL 1 MINUTE",
        "`opened` - INTERVAL 60000000 MICROSECONDS",
        "`opened` + INTERVAL 5000000 MICROSECONDS",
        True,
    ),
    (
        "b.at > i.opened AND b.at <= i.opened + INTERVAL '2' HOUR",
        "`opened`",
        "`opened` + INTERVAL '2' HOUR",
        True,
    ),
]


@pytest.mark.parametrize(("condition", "lower", "upper", "inclusive"), BOUNDS)
@pytest.mark.parametrize("where", [False, True])
def test_bounds_in_time_make_an_interval_join(
    condition: str, lower: str, upper: str, inclusive: bool, where: bool
) -> None:
    word = "WHERE" if where else "AND"
    join = only(plan_of(f"SELECT k FROM {I} JOIN {B} ON i.id = b.k {word} {condition}"), JoinNode)
    assert (join.lower.sql, join.upper.sql, join.upper_inclusive) == (lower, upper, inclusive)
    assert (join.residual is not None) == ("b.at > i.opened" in condition)  # A lower bound is inclusive.


def test_bounds_of_the_left_side_swap_the_sides() -> None:
    text = f"SELECT i.id, b.v FROM {B} RIGHT JOIN {I} ON i.id = b.k AND b.at BETWEEN i.opened AND i.closes"
    plan = plan_of(text)
    join = only(plan, JoinNode)
    assert join.how.value == "left"
    assert join.lower.sql == "`opened`"
    assert plan.sinks[0].schema.names == ["id", "v"]


@pytest.mark.parametrize("condition", ["b.at >= i.opened", "b.v BETWEEN i.id AND i.id + 1", "b.at <> i.opened"])
def test_half_a_bound_is_no_interval(condition: str) -> None:
    app = app_of(f"SELECT k FROM {I} JOIN {B} ON i.id = b.k AND {condition}")
    assert only(app.plan(), JoinNode).lower is None
    assert "no bound in time" in app.advice()[0]


def test_conditions_are_fulfilled_where_they_belong() -> None:
    inner = plan_of(f"SELECT k FROM {I} JOIN {B} ON i.id = b.k AND i.note = 'n' WHERE b.v > 1 AND i.id + b.v > 2")
    assert sorted(node.predicate.sql for node in inner.nodes.values() if isinstance(node, FilterNode)) == [
        "`note` = 'n'",
        "`v` > 1",
    ]
    assert only(inner, JoinNode).residual is not None
    left = plan_of(f"SELECT k FROM {I} LEFT JOIN {B} ON i.id = b.k AND i.note = 'n' AND b.v > 1 WHERE b.v IS NULL")
    filters = [node for node in left.nodes.values() if isinstance(node, FilterNode)]
    assert [node.predicate.sql for node in filters] == ["`v` > 1", "`v` IS NULL"]
    assert filters[1].inputs == (only(left, JoinNode).name,)  # After the join: it decides about rows without a match.


def test_a_join_keeps_only_the_columns_that_are_named() -> None:
    plan = plan_of("SELECT i.note FROM STREAM i JOIN STREAM b ON i.id = b.k")
    join = only(plan, JoinNode)
    assert [plan.nodes[name].schema.names for name in join.inputs] == [["id", "note"], ["k"]]


@pytest.mark.parametrize(
    ("group", "window"),
    [
        ("window(at, '10 seconds')", Tumbling(10_000_000)),
        (
            "window(at, INTERVAL 1 MINUTE, INTERVAL '20' SECOND, '5 seconds')",
            Hopping(60_000_000, 20_000_000, 5_000_000),
        ),
        ("window(at, '10 seconds', '10 seconds', '1 second')", Tumbling(10_000_000, 1_000_000)),
        ("span_window(at, later)", Span("at", "later")),
    ],
)
def test_windows_among_the_keys(group: str, window: object) -> None:
    text = f"SELECT count(*) AS n FROM (SELECT *, at + INTERVAL 1 MINUTE AS later FROM {B}) GROUP BY {group}"
    plan = plan_of(text)
    (found,) = [node.window for node in plan.nodes.values() if hasattr(node, "window")]
    assert found == window


def test_duplicates() -> None:
    last = plan_of(f"SELECT * FROM {B} QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY at DESC) = 1")
    top = only(last, TopNode)
    assert (top.keys, top.changes_by, top.ranking.k) == (("k",), ("k",), 1)
    text = (
        "CREATE STREAMING TABLE e USING nexmark OPTIONS (kind = 'bid', stamp = 'came'); SELECT auction FROM STREAM e "
    )
    text += (
        "WATERMARK came DELAY OF INTERVAL 0 SECONDS QUALIFY ROW_NUMBER() OVER (PARTITION BY auction ORDER BY came) = 1"
    )
    first = only(plan_of(text), DistinctNode)
    assert first.keys == ("auction",)
    assert not first.changes


def test_a_source_is_read_once_and_only_what_the_script_names() -> None:
    text = "CREATE STREAMING TABLE e USING nexmark OPTIONS (kind = 'bid'); CREATE TABLE a; CREATE TABLE c USING null;"
    plan = plan_of(f"{text} INSERT INTO a SELECT auction FROM e; INSERT INTO c SELECT price FROM e WHERE auction = 1")
    assert only(plan, SourceNode).schema.names == ["auction", "price"]
    assert [sink.name for sink in plan.sinks] == ["a", "c"]


def test_a_watermark_is_written_once_at_any_place() -> None:
    table = "CREATE STREAMING TABLE e (WATERMARK FOR dateTime AS dateTime - INTERVAL '3' SECOND) USING nexmark "
    declared = plan_of(table + "OPTIONS (kind = 'bid'); SELECT auction, dateTime FROM e").sources[0]
    assert declared.time is not None
    assert (declared.time.column, declared.delay_us) == ("dateTime", 3_000_000)
    elsewhere = plan_of(f"SELECT k FROM STREAM b WHERE v = 1; SELECT v FROM {B}").sources[0]
    assert elsewhere.delay_us == 1_000_000


def test_a_table_is_joined_and_may_be_read_again(tmp_path: Any) -> None:
    import pyarrow.parquet as pq

    pq.write_table(ITEMS, tmp_path / "items.parquet")
    declared = f"CREATE TABLE t USING parquet OPTIONS (path = '{tmp_path}', refresh = '5 minutes');"
    join = only(plan_of(f"{declared} SELECT b.v, t.note FROM STREAM b JOIN t ON b.k = t.id"), TableJoinNode)
    assert join.refresh is not None
    assert join.refresh.every_us == 300_000_000
    with pytest.raises(PlanError, match="read again while the stream runs"):
        plan_of(f"{declared} SELECT b.v FROM STREAM b JOIN (SELECT id FROM t) x ON b.k = x.id")


def test_options_of_the_app() -> None:
    text = (
        "SET engine = actors; SET parallelism = 3; SET timezone = 'Asia/Tokyo'; SET batch_rows = 7; SET name = shop; "
    )
    app = app_of(text + "SELECT k FROM STREAM b OPTIONS (latency = '200 ms', priority = 2)")
    assert (app.engine.value, app.parallelism, app.batch_rows, app.name) == ("actors", 3, 7, "shop")
    assert app.zone is not None
    assert app.zone.name == "Asia/Tokyo"
    assert app.slo == objective(latency="200 ms", priority=2)
    with pytest.raises(PlanError, match="an objective already"):
        app_of("SELECT k FROM STREAM b OPTIONS (latency = '1 s')", slo=objective(latency="2 s"))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT k, count(*) AS n FROM STREAM b GROUP BY k", ["keeps every k for ever", "group by a window"]),
        ("SELECT DISTINCT k, v FROM STREAM b", ["keeps every (k, v) for ever", "duplicates in windows"]),
        (f"SELECT b.v FROM {B} JOIN {I} ON b.k = i.id", ["keeps all rows of both inputs", "bound it"]),
        (
            f"SELECT b.v FROM {B} ASOF JOIN {I} MATCH_CONDITION (b.at > i.opened) ON b.k = i.id",
            ["keeps the last row of each key", "tolerance="],
        ),
        (
            f"SELECT b.v FROM {B} ASOF JOIN {I} MATCH_CONDITION (b.at > i.opened) ON b.k = i.id AND i.id < b.v",
            ["keeps all rows of its right input", "tolerance="],
        ),
        (
            f"SELECT k FROM {B} QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY at DESC) = 1",
            ["keeps rows of every k for ever", "rank in windows"],
        ),
    ],
)
def test_a_state_without_bound_is_named(query: str, words: list[str]) -> None:
    (advice,) = app_of(query).advice()
    assert all(word in advice for word in words), advice


@pytest.mark.parametrize(
    ("match", "on", "nearness", "residual"),
    [
        ("b.at >= i.opened", "", Nearness(), None),
        ("i.opened < b.at", "", Nearness(exact=False), None),
        ("b.at >= i.opened", "AND i.opened >= b.at - INTERVAL 5 SECONDS", Nearness(tolerance_us=5_000_000), None),
        ("b.at >= i.opened", "AND b.at < i.opened + INTERVAL 5 SECONDS", Nearness(tolerance_us=5_000_000), "INTERVAL"),
        (
            "b.at <= i.opened",
            "AND i.opened BETWEEN b.at AND b.at + INTERVAL 1 MINUTE",
            Nearness(Direction.FORWARD, 60_000_000),
            "BETWEEN",
        ),
        (
            "b.at < i.opened",
            "AND i.opened < b.at + INTERVAL 1 SECOND",
            Nearness(Direction.FORWARD, 1_000_000, False),
            "<",
        ),
        ("b.at >= i.opened", "AND i.id > b.v", Nearness(), ">"),
    ],
)
def test_an_asof_join_and_its_tolerance(match: str, on: str, nearness: Nearness, residual: str | None) -> None:
    plan = plan_of(f"SELECT b.v, i.id FROM {B} LEFT ASOF JOIN {I} MATCH_CONDITION ({match}) ON b.k = i.id {on}")
    join = only(plan, JoinNode)
    assert join.nearness == nearness
    assert (
        (join.residual is None) if residual is None else (join.residual is not None and residual in join.residual.sql)
    )
    assert join.last_replaces == (nearness.only_looks_back and residual is None)


def test_a_condition_after_an_asof_join_does_not_choose_the_partner() -> None:
    join = f"SELECT b.v, i.id FROM {B} ASOF JOIN {I} MATCH_CONDITION (b.at >= i.opened) ON b.k = i.id"
    plan = plan_of(f"{join} AND i.closes > i.opened WHERE i.id > 3 AND b.v > 5")
    names = list(plan.nodes)
    (joined,) = [name for name, node in plan.nodes.items() if isinstance(node, JoinNode)]
    filters = {
        node.predicate.sql: names.index(name) for name, node in plan.nodes.items() if isinstance(node, FilterNode)
    }
    before = sorted(sql for sql, place in filters.items() if place < names.index(joined))
    after = [sql for sql, place in filters.items() if place > names.index(joined)]
    assert len(before) == 2
    assert any("> 5" in sql for sql in before)
    assert any("closes" in sql for sql in before)
    assert len(after) == 1
    assert "> 3" in after[0]


def test_bounded_states_need_no_advice() -> None:
    text = f"""SELECT k, count(*) AS n FROM {B} GROUP BY k, window(at, '1 s');
        SELECT count(*) AS n FROM STREAM b;
        SELECT k FROM {B} JOIN {I} ON i.id = b.k AND b.at BETWEEN i.opened AND i.closes;
        SELECT DISTINCT k, window(at, '1 s') AS w FROM {B}"""
    app = app_of(text)
    assert app.advice() == []
    assert [node.keys for node in app.plan().nodes.values() if isinstance(node, AggregateNode)] == [()]
