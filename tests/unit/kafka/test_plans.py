"""What an app with topics becomes: engines that cannot read or write them, streams of malformed records, bad input."""

from __future__ import annotations

import builtins
import datetime
from typing import Any

import pyarrow as pa
import pytest

from stretto import sinks, sources
from stretto.actors.shape import shapes_of
from stretto.api.app import App
from stretto.api.explain import explained
from stretto.api.lowering import lowered
from stretto.errors import PlanError, SourceError, UserError
from stretto.runtime.checkpoint_plans import check_needs_none
from stretto.runtime.connectors.kafka import sink as sinking
from stretto.runtime.connectors.kafka import source as sourcing
from stretto.runtime.connectors.kafka.client import library
from stretto.runtime.connectors.kafka.reader import Stretch
from stretto.runtime.connectors.kafka.source import KafkaSource
from stretto.runtime.connectors.kafka.starting import checked_start


@pytest.fixture(autouse=True)
def _three_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sourcing, "partitions_of", lambda *_: 3)
    monkeypatch.setattr(sinking, "partitions_of", lambda *_: 3)
    monkeypatch.setattr(sourcing, "stretches", lambda *_: [Stretch(None, None)] * 3)


def source(**more: Any) -> KafkaSource:
    return sources.kafka("nowhere:1", "bids", schema="n bigint", **more)


def app_of(found: KafkaSource, sink: Any = None) -> App:
    app = App("app")
    app.source("bids", found).sink(sink or sinks.collect(), name="out")
    return app


def test_micro_batches_read_no_topic_and_write_none_exactly_once() -> None:
    text = explained(app_of(source()), 1, 0.1)
    assert "micro-batches cannot express it: source 'bids' never ends" in text
    app = App("app")
    app.source("rows", sources.memory([{"n": 1}])).sink(sinks.kafka("nowhere:1", "out"), name="out")
    assert "sink 'out' writes exactly once with the checkpoints of actors" in explained(app, 1, 0.1)


def test_an_exactly_once_sink_needs_checkpoints_and_never_goes_back() -> None:
    exactly = lowered(app_of(source(), sinks.kafka("nowhere:1", "out")).plan(), "app", 2, 100)
    assert shapes_of(exactly)["out"].irrevocable
    with pytest.raises(UserError, match="sink 'out' needs checkpoints"):
        check_needs_none(exactly)
    once = sinks.kafka("nowhere:1", "out", guarantee="at-least-once")
    sending = lowered(app_of(source(), once).plan(), "app", 2, 100)
    assert not shapes_of(sending)["out"].irrevocable
    check_needs_none(sending)


def test_malformed_records_are_a_stream_of_their_own() -> None:
    app = app_of(source(key="k", dead_letters=sinks.collect()))
    assert app.stream("bids").schema.names == ["n", "k"]
    letters = app.stream("bids-letters").schema
    assert letters.names == ["error", "topic", "partition", "offset", "timestamp", "key", "value"]
    assert [node.name for node in app.plan().sinks] == ["bids-dead-letters", "out"]


def test_a_changing_stream_needs_a_key() -> None:
    def running(**more: Any) -> None:
        app = App("app")
        counts = app.source("rows", sources.memory([{"n": 1}])).key_by("n").aggregate(c="count(*)")
        counts.sink(sinks.kafka("nowhere:1", "out", **more), name="out")
        app.plan()

    running(key="n")
    with pytest.raises(PlanError, match="out"):
        running()


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("yesterday", "a topic cannot be read from there"),
        ("2026-01-01", "the time to read a topic from has no zone"),
        (datetime.datetime(2026, 1, 1), "has no zone"),
        ({0: -1}, "offsets are whole numbers"),
    ],
    ids=str,
)
def test_a_start_that_is_none_is_refused(start: Any, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        checked_start(start)


def test_bad_arguments_are_refused_by_name() -> None:
    with pytest.raises(SourceError, match="a topic cannot be read until there: 'tomorrow'"):
        source(until="tomorrow")
    with pytest.raises(SourceError, match="the poll interval of a topic must be positive"):
        source(poll="0 ms")
    with pytest.raises(UserError, match="unknown guarantee: 'maybe'"):
        sinks.kafka("nowhere:1", "out", guarantee="maybe")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="kafka takes a sink"):
        source(dead_letters="dead")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any, **named: Any) -> Any:
        if name == "confluent_kafka":
            raise ImportError("No module named 'confluent_kafka'")
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r'pip install "stretto\[kafka\]"'):
        library()
    assert pa.schema(source().schema).names == ["n"]
