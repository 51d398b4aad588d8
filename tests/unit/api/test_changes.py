"""Which streams change, which of them carry their removals, and what is left of them in the end."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stretto import App, Function, Sink, Stream, sinks, sources, tumbling
from stretto.actors.context import Context
from stretto.api.changes import final_rows, weighted_nodes
from stretto.api.lowering import lowered
from stretto.api.relational import unsupported
from stretto.errors import PlanError
from stretto.operators.changes.weights import CHANGE


class Passing(Function):
    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)


class Replacing(Sink):
    takes_updates = True


def rows(app: App | None = None) -> Stream:
    schema = "k bigint, j string, x bigint, at timestamp"
    return (app or App("app")).source("rows", sources.memory([], schema), time="at")


def totals(app: App | None = None) -> Stream:
    return rows(app).key_by("k").aggregate(n="count(*)", total="sum(x)", name="totals")


def weighted(app: App) -> set[str]:
    return weighted_nodes(app.plan())


def schemas(app: App) -> dict[str, list[str]]:
    """Returns the columns that each function emits."""
    functions = lowered(app.plan(), "job", 2, 100).functions
    return {name: spec.outputs["out"].schema.names for name, spec in functions.items() if spec.outputs}


def test_a_running_aggregate_before_a_sink_carries_nothing_more() -> None:
    app = App("app")
    totals(app).select("k", "n", name="some").filter("k > 1", name="first").sink(sinks.collect(), name="out")
    assert weighted(app) == set()
    assert schemas(app)["totals"] == ["k", "n", "total"]


def test_having_needs_what_was_replaced() -> None:
    app = App("app")
    stream = totals(app)
    stream.sink(sinks.collect(), name="all")
    stream.filter("n > 1", name="many").sink(sinks.collect(), name="out")
    assert weighted(app) == {"totals", "many", "out"}
    assert schemas(app)["totals"] == ["k", "n", "total", CHANGE]
    sink = lowered(app.plan(), "job", 2, 100).functions
    assert sink["all"].function.schema.names == ["k", "n", "total"]
    assert sink["out"].function.schema.names == ["k", "n", "total", CHANGE]


@pytest.mark.parametrize(
    ("make", "by", "removes"),
    [
        (lambda s: s.filter("k = 1"), ("k",), False),
        (lambda s: s.filter("n = 1"), ("k",), True),
        (lambda s: s.filter("n = 1").rename({"k": "id"}), ("id",), True),
        (lambda s: s.drop("k"), None, True),
        (lambda s: s.drop("k").filter("n = 1"), None, True),
        (lambda s: s.with_column("k", "k + 1"), None, True),
    ],
)
def test_what_verbs_make_of_changes(make: Any, by: tuple[str, ...] | None, removes: bool) -> None:
    node = make(totals())._node
    assert (node.changes_by, node.removes) == (by, removes)


def test_a_function_with_an_upsert_key_is_followed_by_one_that_knows_what_is_replaced() -> None:
    app = App("app")
    schema = "k bigint, n bigint"
    applied = rows(app).select("k", n="x").key_by("k").apply(Passing(), schema, upsert_key="k", name="last")
    applied.filter("n > 1").sink(sinks.collect(), name="out")
    late = rows_late(app)
    late.filter("n > 1").sink(sinks.collect(), name="late")
    assert schemas(app)["last"] == ["k", "n"]
    assert schemas(app)["last.changes"] == ["k", "n", CHANGE]
    assert schemas(app)["windows.changes"][-1] == CHANGE


def rows_late(app: App) -> Stream:
    stream = app.source("more", sources.memory([], "k bigint, at timestamp"), time="at")
    return stream.window(tumbling("1 s")).allowed_lateness("1 s").aggregate(n="count(*)", name="windows")


def test_a_sink_says_whether_it_can_remove_rows() -> None:
    with pytest.raises(PlanError) as caught:
        totals().filter("n > 1", name="many").sink(Replacing())
    for part in ("sink on 'many' cannot remove rows", "can be removed again", "takes_removals = True"):
        assert part in str(caught.value)
    with pytest.raises(PlanError, match=r"many' cannot remove rows: .*can only add rows"):
        totals().filter("n > 1", name="many").sink(Sink())


def test_the_name_of_the_hidden_column_is_reserved() -> None:
    app = App("app")
    rows(app).select("k", __change="x").sink(sinks.collect())
    with pytest.raises(PlanError, match="has a column '__change': that name is reserved"):
        app.plan()


def test_what_is_left_of_changes() -> None:
    app = App("app")
    totals(app).drop("k").sink(sinks.collect(), name="out")
    node = app.plan().sink_named("out")
    columns = {"n": [1, 1, None, 1, 2], "total": [7, 7, 1, 7, 1], CHANGE: [-1, 2, 1, 1, -1]}
    assert final_rows(pa.table(columns), node).to_pydict() == {"n": [None, 1, 1], "total": [1, 7, 7]}
    assert final_rows(pa.table(columns).slice(0, 0), node).num_rows == 0


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_the_result_of_a_join_changes_if_its_rows_can(how: str) -> None:
    app = App("app")
    stream = rows(app)
    plain = stream.join(stream, "k", how=how).sink(sinks.collect())
    assert plain._node.removes == (how not in ("inner", "semi"))
    changing = stream.key_by("k").aggregate(n="count(*)", name="totals")
    joined = changing.join(stream, "k", how=how)
    assert (joined._node.changes_by, joined._node.removes) == (None, True)
    joined.sink(sinks.collect(), name="out")
    assert "totals" in weighted_nodes(joined._app.plan())
    assert "rows" not in weighted_nodes(joined._app.plan())


def test_joins_in_time_of_rows_that_change_are_refused() -> None:
    late = rows_late(App("app"))
    with pytest.raises(PlanError, match="window_join cannot follow 'windows'"):
        late.window_join(late, "n")
    with pytest.raises(PlanError, match="interval_join cannot follow 'windows'"):
        late.interval_join(late, "n", lower="window_end", upper="window_end")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda s: totals_of(s).filter("n > 1", name="many"), "filter 'many' would keep rows that"),
        (lambda s: totals_of(s).drop("k", name="keyless"), "rows of 'keyless' can be removed again"),
        (lambda s: totals_of(s).key_by("n").aggregate(m="count(*)", name="second"), "'second' comes after 'totals'"),
        (lambda s: totals_of(s).top(1, by="n", name="best"), "top 'best' ranks all rows so far"),
        (lambda s: s.top(1, by="x", name="best"), "top 'best' ranks all rows so far"),
        (lambda s: s.drop_duplicates("k", keep="last", name="last"), "top 'last' ranks all rows so far"),
        (lambda s: totals_of(s).union(totals_of(s, "others"), name="both"), "union 'both' comes after the running"),
        (lambda s: totals_of(s).join(s, "k", name="joined"), "rows of 'joined' can be removed again"),
        (lambda s: s.join(totals_of(s), "k", how="semi", name="joined"), "join 'joined' is a semi join of two"),
        (lambda s: s.join(s, "k", how="left", name="joined"), "join 'joined' is a left join of two streams without a"),
        (lambda s: s.join(s, "k", how="anti", name="joined"), "join 'joined' is an anti join of two streams"),
        (lambda s: totals_of(s).join(names(s), "n = id", name="joined"), "rows of 'joined' can be removed again"),
    ],
)
def test_rows_that_change_are_refused_by_name_in_micro_batches(make: Any, reason: str) -> None:
    app = App("app")
    make(rows(app)).sink(sinks.collect())
    found = unsupported(app.plan(), streaming=True)
    assert found is not None
    assert reason in found
    assert unsupported(app.plan(), streaming=False) is None


def totals_of(stream: Stream, name: str = "totals") -> Stream:
    return stream.key_by("k").aggregate(n="count(*)", name=name)


def names(stream: Stream) -> Any:
    return stream._app.table("names", pa.table({"id": [1], "name": ["one"]}))
