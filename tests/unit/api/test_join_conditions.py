"""Conditions of joins: which parts are keys, what the rest reads, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from stretto import App, Stream, sinks, sources, tumbling
from stretto.api.lowering import lowered
from stretto.api.plan import JoinNode
from stretto.api.relational import unsupported
from stretto.coordinator.records import JobStatus
from stretto.errors import ExpressionError, PlanError
from stretto.operators.join_kinds import JoinKind
from stretto.operators.windows import EventTime
from stretto.simulator.engine.cluster import SimulatedCluster

BIDS = "auction bigint, price bigint, channel string, at timestamp, big decimal(12,2)"
SALES = "id int, price double, Seller string, at timestamp, big decimal(10,4), day date, tags array<string>"


def inputs(app: App | None = None) -> tuple[Stream, Stream]:
    app = app or App("app")
    return (
        app.source("bids", sources.memory([], BIDS), time="at"),
        app.source("sales", sources.memory([], SALES), time="at"),
    )


def node_of(stream: Stream) -> JoinNode:
    node = stream._node
    assert isinstance(node, JoinNode)
    return node


def joined(on: Any, **options: Any) -> JoinNode:
    left, right = inputs()
    return node_of(left.join(right, on, **options))


@pytest.mark.parametrize(
    ("on", "keys", "residual"),
    [
        ("auction = id", [("auction", "id")], None),
        ("id = auction", [("auction", "id")], None),
        ("ID == Auction", [("auction", "id")], None),
        ([("auction", "id"), "at"], [("auction", "id"), ("at", "at")], None),
        ("auction = id AND at = at", [("auction", "id"), ("at", "at")], None),
        ("(auction = id) AND left.price > right.price", [("auction", "id")], "(`price` > `price_right`)"),
        ("auction = id AND price_right < 5", [("auction", "id")], "(`price_right` < 5)"),
        ("bids.auction = sales.id AND seller = 'x'", [("auction", "id")], "(`Seller` = 'x')"),
        (
            "auction = id AND (channel = 'x' OR seller = channel)",
            [("auction", "id")],
            "((`channel` = 'x' OR `Seller` = `channel`))",
        ),
    ],
)
def test_equalities_of_both_inputs_are_keys_and_the_rest_is_checked_per_pair(
    on: Any, keys: list[tuple[str, str]], residual: str | None
) -> None:
    node = joined(on)
    assert list(node.on) == keys
    assert (node.residual.sql if node.residual else None) == residual
    assert node.hidden == (0, 0)


def test_where_is_one_more_part_of_the_condition() -> None:
    node = joined("auction = id", where="right.price > 2 AND channel IS NOT NULL")
    assert node.residual is not None
    assert node.residual.sql == "(`price_right` > 2) AND (`channel` IS NOT NULL)"


@pytest.mark.parametrize(
    ("on", "types"),
    [
        ("lower(channel) = lower(seller)", "string string"),
        ("bids.auction + 1 = sales.id", "int64 int32"),
        ("channel = id", "int64 int64"),
        ("auction = right.price", "double double"),
        ("left.big = right.big", "decimal128(14, 4) decimal128(14, 4)"),
        ("auction = right.big", "decimal128(24, 4) decimal128(24, 4)"),
        ("left.at = day", "timestamp[us, tz=UTC] timestamp[us, tz=UTC]"),
        ("CAST(left.at AS date) = day", "date32[day] date32[day]"),
    ],
)
def test_computed_keys_are_cast_as_spark_compares_them(on: str, types: str) -> None:
    app = App("app")
    left, right = inputs(app)
    stream = left.join(right, on)
    stream.sink(sinks.null())
    node, nodes = node_of(stream), app.plan().nodes
    ((one, other),) = node.on
    left_type, right_type = (
        nodes[name].schema.field(key).type for name, key in zip(node.inputs, (one, other), strict=True)
    )
    assert f"{left_type} {right_type}" == types
    assert node.pair.names[:5] == left.schema.names
    assert stream.schema.names[5] == "id"


@pytest.mark.parametrize(
    ("on", "error", "parts"),
    [
        ("left.price > right.price", PlanError, ("has no key", "interval_join")),
        ("auction = 5", PlanError, ("has no key",)),
        ([], PlanError, ("has no key",)),
        ("auction <=> id", PlanError, ("has no key",)),
        ("auction = nothing", ExpressionError, ("unknown column 'nothing'", "'bids' has auction", "'sales' has id")),
        ("auction = id AND price > 3", PlanError, ("'price' is in both", "left.price", "price_right")),
        ("auction = tags", PlanError, ("cannot be a key", "list")),
        ("day = auction", PlanError, ("different types", "auction is int64", "day is date32")),
        ("auction = id AND price_right", ExpressionError, ("boolean",)),
        ("auction = id seller", ExpressionError, ("no name of its own", "seller")),
        ("auction = id AND", ExpressionError, ("cannot parse",)),
    ],
)
def test_a_bad_condition_is_refused(on: Any, error: type[Exception], parts: tuple[str, ...]) -> None:
    with pytest.raises(error) as caught:
        joined(on)
    for part in parts:
        assert part in str(caught.value)


def test_streams_of_one_name_are_told_apart_by_side() -> None:
    left, _ = inputs()
    with pytest.raises(PlanError, match=r"'bids.price' is in both"):
        left.join(left, "auction", where="bids.price > 3")
    node = node_of(left.join(left, "auction", where="left.price > right.price"))
    assert node.residual is not None
    assert node.residual.sql == "(`price` > `price_right`)"


def test_names_that_differ_in_case_only_get_the_suffix() -> None:
    app = App("app")
    one, other = (app.source(name, sources.memory([], f"k int, {name} int")) for name in ("A", "a"))
    assert one.join(other, "k").schema.names == ["k", "A", "k_right", "a_right"]
    with pytest.raises(PlanError, match="suffix"):
        one.join(other, "k", suffix="")


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("left", JoinKind.LEFT),
        ("left_outer", JoinKind.LEFT),
        ("leftouter", JoinKind.LEFT),
        ("RIGHT", JoinKind.RIGHT),
        ("outer", JoinKind.FULL),
        ("full_outer", JoinKind.FULL),
        ("left_semi", JoinKind.SEMI),
        ("leftanti", JoinKind.ANTI),
    ],
)
def test_the_spellings_of_pyspark_are_known(how: str, kind: JoinKind) -> None:
    left, right = inputs()
    node = node_of(left.window_join(right, "auction = id", tumbling("5 s"), how=how))
    assert node.how is kind
    names = left.schema.names if not kind.sends_pairs else node.pair.names[:-2]
    assert node.schema.names == [*names, "window_start", "window_end"]


@pytest.mark.parametrize(
    ("how", "parts"),
    [
        ("cross", ("cannot be a cross join", "key")),
        ("natural", ("how='natural'", '"semi"')),
    ],
)
def test_what_an_unbounded_join_cannot_be_is_refused(how: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(PlanError) as caught:
        joined("auction = id", how=how)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"how": "full"}, ("cannot be a full join", '"inner" or "left"')),
        ({"how": "anti"}, ("cannot be a anti join", '"inner" or "left"')),
        ({"direction": "sideways"}, ("does not know this direction", '"nearest"')),
        ({"direction": "forward"}, ("how long to wait", "tolerance=")),
        ({"direction": "nearest"}, ("how long to wait", "tolerance=")),
        ({"tolerance": "0 seconds"}, ("longer than zero", "positive")),
    ],
)
def test_asof_joins_that_are_refused(wrong: dict[str, str], words: tuple[str, ...]) -> None:
    left, right = inputs()
    with pytest.raises(PlanError) as caught:
        left.asof_join(right, "auction = id", **wrong)
    assert all(word in str(caught.value) for word in words), caught.value


def test_micro_batches_refuse_an_asof_join_by_name() -> None:
    left, right = inputs()
    joined = left.asof_join(right, "auction = id", name="priced")
    assert joined.time == left.time
    joined.sink(sinks.null())
    assert "'priced' is an ASOF join" in str(unsupported(joined._app.plan(), streaming=True))
    assert unsupported(joined._app.plan(), streaming=False) is None


def test_the_end_of_an_interval_must_be_known_where_right_rows_are_sent_alone() -> None:
    left, right = inputs()
    with pytest.raises(PlanError, match="left time plus a constant"):
        left.interval_join(right, "auction = id", lower="date_trunc('DAY', at)", upper="at", how="right")


def test_computed_keys_and_residuals_in_a_run() -> None:
    app = App("app", parallelism=2)
    left = app.source(
        "left", sources.memory([{"name": "Ann", "n": 1}, {"name": "BOB", "n": 2}, {"name": None, "n": 3}])
    )
    right = app.source("right", sources.memory([{"seller": "ann", "n": 0}, {"seller": "bob", "n": 5}]))
    left.join(right, "lower(name) = seller AND left.n > right.n").sink(sinks.collect(), name="out")
    cluster = SimulatedCluster(2, seed=1)
    job = cluster.submit(lowered(app.plan(), "app", 2, 10))
    cluster.run()
    assert job.status is JobStatus.FINISHED, job.failure
    assert job.writers["out"].table().to_pylist() == [{"name": "Ann", "n": 1, "seller": "ann", "n_right": 0}]


@pytest.mark.parametrize(
    ("lower", "upper", "how", "time", "holds_back_s"),
    [
        ("at", "at + INTERVAL 5 SECONDS", "inner", "at_right", 0),
        ("at - INTERVAL 5 SECONDS", "at", "inner", "at", 0),
        ("at - INTERVAL 5 SECONDS", "at + INTERVAL 3 SECONDS", "inner", "at", 3),
        ("at - INTERVAL 5 SECONDS", "date_trunc('DAY', at)", "inner", "at_right", 5),
        ("at", "at + INTERVAL 5 SECONDS", "left", "at", 5),
        ("at", "at + INTERVAL 5 SECONDS", "semi", "at", 5),
        ("at - INTERVAL 5 SECONDS", "at - INTERVAL 1 SECOND", "anti", "at", 0),
        ("at - INTERVAL 5 SECONDS", "at", "right", "at_right", 5),
        ("at - INTERVAL 5 SECONDS", "at", "full", None, 0),
        ("date_trunc('DAY', at)", "date_trunc('DAY', at)", "inner", None, 0),
    ],
)
def test_the_event_time_of_an_interval_join(
    lower: str, upper: str, how: str, time: str | None, holds_back_s: int
) -> None:
    left, right = inputs()
    node = node_of(left.interval_join(right, "auction = id", lower=lower, upper=upper, how=how))
    assert node.time == (None if time is None else EventTime(time))
    assert node.holds_back_us == holds_back_s * 1_000_000


@pytest.mark.parametrize(
    ("how", "lower", "upper", "reason"),
    [
        ("inner", "date_trunc('DAY', at)", "date_trunc('DAY', at)", None),
        ("left", "date_trunc('DAY', at)", "at + INTERVAL 5 SECONDS", None),
        ("right", "at - INTERVAL 5 SECONDS", "date_trunc('DAY', at)", None),
        ("full", "at - INTERVAL 5 SECONDS", "at + INTERVAL 5 SECONDS", None),
        ("semi", "at", "at + INTERVAL 5 SECONDS", None),
        ("left", "at", "date_trunc('DAY', at)", "is a left join of two streams, and its bound"),
        ("full", "at", "date_trunc('DAY', at)", "is not the left time plus a constant"),
        ("anti", "at", "at", "is an anti join of two streams, which Spark does not have"),
    ],
)
def test_which_interval_joins_micro_batches_have(how: str, lower: str, upper: str, reason: str | None) -> None:
    app = App("app")
    left, right = inputs(app)
    left.interval_join(right, "auction = id", lower=lower, upper=upper, how=how, name="joined").sink(sinks.null())
    found = unsupported(app.plan(), streaming=True)
    assert (found is None) == (reason is None), found
    assert (reason or "") in (found or "")
    assert unsupported(app.plan(), streaming=False) is None


@pytest.mark.parametrize("how", ["left", "right", "full", "semi", "anti"])
def test_which_joins_in_windows_micro_batches_have(how: str) -> None:
    app = App("app")
    left, right = inputs(app)
    left.window_join(right, "auction = id", tumbling("5 s"), how=how, name="joined").sink(sinks.null())
    found = unsupported(app.plan(), streaming=True)
    assert (found is None) == (how != "anti"), found
    app = App("app")
    left, right = (stream.window(tumbling("5 s")).aggregate(n="count(*)") for stream in inputs(app))
    left.window_join(right, "n", how=how, name="joined").sink(sinks.null())
    found = unsupported(app.plan(), streaming=True)
    assert (found is None) == (how not in ("semi", "anti")), found
    assert unsupported(app.plan(), streaming=False) is None


def test_a_semi_join_without_a_bound_is_refused_for_micro_batches() -> None:
    app = App("app")
    left, right = inputs(app)
    left.join(right, "auction = id", how="semi", name="joined").sink(sinks.null())
    assert "join 'joined' is a semi join of two streams without a bound" in (unsupported(app.plan(), True) or "")
