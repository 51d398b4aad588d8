"""Which functions may spill, with how much memory, and the errors for those that cannot."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stretto import App, Context, Function, MapState, UserAggregate, ValueState, sinks, tumbling
from stretto.api.lowering import lowered
from stretto.api.memory import MemorySource
from stretto.api.spilling import size_bytes
from stretto.api.stream import KeyedStream
from stretto.errors import PlanError


class Mapping(Function):
    entries: MapState[int, int] = MapState(combine=max)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None: ...


class Small(Mapping):
    spill = "64 KB"


class Shared(Mapping):
    reads_consolidated = True


class Valued(Function):
    value: ValueState[int] = ValueState(0)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None: ...


def keyed(app: App) -> KeyedStream:
    source = MemorySource([{"k": 1, "x": 2}], "k long, x long, t timestamp")
    return app.source("rows", source, time="t").key_by("k")


@pytest.mark.parametrize(
    ("text", "amount"), [("256 MB", 2**28), ("1.5 GiB", 3 * 2**29), ("64k", 2**16), ("10 b", 10), (77, 77)]
)
def test_sizes_as_people_write_them(text: str | int, amount: int) -> None:
    assert size_bytes(text, "it") == amount


@pytest.mark.parametrize("text", ["much", "0 MB", -1, "1 MB 2 KB", ""])
def test_sizes_that_cannot_be(text: str | int) -> None:
    with pytest.raises(PlanError, match="it "):
        size_bytes(text, "it")


def test_the_verb_takes_precedence_over_the_class() -> None:
    app = App("a")
    stream = keyed(app)
    stream.apply(Small(), "k long", name="small").sink(sinks.null())
    stream.apply(Small(), "k long", name="large", spill="1 MB").sink(sinks.null())
    stream.apply(Mapping(), "k long", name="not").sink(sinks.null())
    stream.aggregate("sum(x)", name="sums", spill=1000).sink(sinks.null())
    functions = lowered(app.plan(), "a", 2, 100).functions
    assert [functions[name].spill_bytes for name in ("small", "large", "not", "sums")] == [2**16, 2**20, None, 1000]
    assert functions["small"].sequential_because == "its state spills"
    assert functions["not"].sequential_because is None


def test_a_function_that_spills_is_not_spread() -> None:
    app = App("a")
    keyed(app).apply(Small(), "k long", name="small").sink(sinks.null())
    app.spread("small", lessees=2)
    with pytest.raises(PlanError, match="its state spills"):
        lowered(app.plan(), "a", 2, 100)


OWN = UserAggregate(list, lambda acc, rows: acc, lambda a, b: a + b, len, pa.int64(), ("x",), "own")


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        (lambda stream: stream.apply(Valued(), "k long", spill="1 MB"), "no state that can spill"),
        (lambda stream: stream.apply(Shared(), "k long", spill="1 MB"), "cannot spill"),
        (lambda stream: stream.aggregate("count(distinct x)", spill="1 MB"), "cannot spill"),
        (lambda stream: stream.aggregate(OWN, spill="1 MB"), "'own' cannot spill"),
        (lambda stream: stream.window(tumbling("1 s")).aggregate("count(*)", spill="1 MB"), "windows do not spill"),
    ],
)
def test_a_function_that_cannot_spill_is_refused(verb: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        verb(keyed(App("a")))
