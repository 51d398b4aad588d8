"""Which edges of a plan move rows: rows already partitioned by the keys stay, all others are partitioned by key."""

from __future__ import annotations

from typing import Any

from stretto import App, objective, sinks, sources
from stretto.actors.deployment import ByKey, Forward, Routing, edges_of
from stretto.api.lowering import lowered
from stretto.api.stream import Stream
from stretto.operators.windows import span, tumbling

SCHEMA = "a long, b long, c long, t timestamp, u timestamp"


def stream(app: App, name: str, **options: Any) -> Stream:
    return app.source(name, sources.memory([], SCHEMA), time="t", **options)


def routings(app: App, parallelism: int = 3) -> dict[tuple[str, str], Routing]:
    """Returns the routing of each edge, by sending and receiving function."""
    deployment = lowered(app.plan(), "job", parallelism, 1024)
    return {
        (name, edge.target): edge.routing
        for name, spec in deployment.functions.items()
        for stage in spec.outputs.values()
        for edge in edges_of(stage)
    }


def joined(app: App) -> Stream:
    other = stream(app, "other").select("a AS k", "b AS v")
    return stream(app, "rows").join(other, on="a = k", name="joined")


def test_an_aggregate_by_more_than_the_key_of_a_join_takes_its_rows_where_they_are() -> None:
    app = App("app")
    wide = joined(app).filter("v > 0").key_by("a", "c").window(span("t", "u")).aggregate(n="count(*)", name="counts")
    wide.sink(sinks.null())
    found = routings(app)
    assert found["rows", "joined"] == ByKey(("a",))
    assert found["other", "joined"] == ByKey(("k",))
    assert found["joined", "counts"] == Forward()


def test_a_column_is_followed_through_a_new_name_and_lost_when_computed() -> None:
    app = App("app")
    kept = joined(app).select("a AS key", "c", "t", "u")
    kept.key_by("key", "c").aggregate(n="count(*)", name="renamed").sink(sinks.null(), name="one")
    computed = joined_again(app).select("a + 0 AS a", "c")
    computed.key_by("a", "c").aggregate(n="count(*)", name="computed").sink(sinks.null(), name="two")
    found = routings(app)
    assert found["joined", "renamed"] == Forward()
    assert found["again", "computed"] == ByKey(("a", "c"))


def joined_again(app: App) -> Stream:
    more = stream(app, "more").select("a AS k", "b AS v")
    return stream(app, "rest").join(more, on="a = k", name="again")


def test_rows_partitioned_by_more_keys_are_partitioned_again() -> None:
    app = App("app")
    by_two = stream(app, "rows").key_by("a", "b").window(tumbling("1 s")).aggregate(n="count(*)", name="by_two")
    by_one = by_two.key_by("a").aggregate(m="sum(n)", name="by_one")
    by_one.sink(sinks.null())
    found = routings(app)
    assert found["by_two", "by_one"] == ByKey(("a",))
    by_more = App("more")
    first = stream(by_more, "rows").key_by("a").window(tumbling("1 s")).aggregate(n="count(*)", name="first")
    first.key_by("window_start", "a").aggregate(m="sum(n)", name="second").sink(sinks.null())
    assert routings(by_more)["first", "second"] == Forward()


def test_another_parallelism_partitions_rows_again() -> None:
    app = App("app")
    first = stream(app, "rows").key_by("a").window(tumbling("1 s")).aggregate(n="count(*)", name="first")
    first.key_by("a").aggregate(m="sum(n)", name="second", parallelism=2).sink(sinks.null())
    assert routings(app)["first", "second"] == ByKey(("a",))


def test_a_side_of_a_join_stays_only_if_it_is_partitioned_by_the_same_columns_in_the_same_order() -> None:
    app = App("app")
    same = stream(app, "rows").key_by("a", "b").window(tumbling("1 s")).aggregate(n="count(*)", name="same")
    other = stream(app, "other").select("a AS k", "b AS l")
    same.join(other, on="a = k AND b = l", name="kept").sink(sinks.null(), name="one")
    assert routings(app)["same", "kept"] == Forward()
    app = App("app")
    same = stream(app, "rows").key_by("a", "b").window(tumbling("1 s")).aggregate(n="count(*)", name="same")
    other = stream(app, "other").select("a AS k", "b AS l")
    same.join(other, on="a = k", name="moved").sink(sinks.null(), name="one")
    assert routings(app)["same", "moved"] == ByKey(("a",))


def test_rows_of_a_union_are_partitioned_by_key() -> None:
    app = App("app")
    one = stream(app, "one").key_by("a").window(tumbling("1 s")).aggregate(n="count(*)", name="first")
    two = stream(app, "two").key_by("a").window(tumbling("1 s")).aggregate(n="count(*)", name="second")
    one.union(two).key_by("a").aggregate(m="sum(n)", name="both").sink(sinks.null())
    found = routings(app)
    assert found["first", "both"] == found["second", "both"] == ByKey(("a",))


def test_an_objective_is_told_apart_from_none_whatever_it_is() -> None:
    promised = App("promised", slo=objective(latency="10 s"))
    stream(promised, "rows").sink(sinks.null())
    assert lowered(promised.plan(), "job", 1, 1024).latency_ns == 10_000_000_000
    without = App("without")
    stream(without, "rows").sink(sinks.null())
    assert lowered(without.plan(), "job", 1, 1024).latency_ns is None
