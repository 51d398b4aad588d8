"""Every verb, given a wrong kind of argument in any place, names itself and says what it takes."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from stretto import App, Function, KeyedStream, Stream, WindowedStream, sinks, sources, tumbling
from stretto.actors.context import Context
from stretto.api.stream import AppliedStream, GroupingSetsStream
from stretto.errors import PlanError, UserError

SCHEMA = "auction bigint, price bigint, channel string, at timestamp"
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class DataFrame:
    """As a user has it: neither text, nor a number, nor a collection."""


WRONG: dict[str, Any] = {
    "none": None,
    "int": 5,
    "float": 1.5,
    "lambda": lambda row: True,
    "list": [1, 2],
    "dict": {"a": 1},
    "dataframe": DataFrame(),
}


class Quiet(Function):
    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        pass


def app() -> App:
    return App("app")


def bids(of: App | None = None, name: str = "bids") -> Stream:
    rows = [{"auction": 1, "price": 2, "channel": "web", "at": NOW}]
    return (of or app()).source(name, sources.memory(rows, SCHEMA), time="at")


def keyed() -> KeyedStream:
    return bids().key_by("auction")


def windowed() -> WindowedStream:
    return keyed().window(tumbling("10 s"))


def applied() -> AppliedStream:
    return bids().apply(Quiet(), SCHEMA, outputs={"late": SCHEMA})


async def anything(self: Any) -> None: ...


RIGHT: dict[str, dict[str, Any]] = {
    "App": {"name": "app"},
    "App.source": {"name": "more", "source": sources.memory([{"n": 1}])},
    "App.emitted": {"name": "emitted", "schema": "n bigint"},
    "App.register": {},
    "App.stream": {"name": "bids"},
    "App.spread": {},
    "App.elastic": {},
    "App.in_process": {},
    "App.explain": {},
    "App.to_spark": {"spark": SimpleNamespace(sparkContext=None)},
    "Stream.select": {"expressions": "price"},
    "Stream.with_column": {"column": "twice", "expression": "2 * price"},
    "Stream.with_columns": {"columns": {"twice": "2 * price"}},
    "Stream.drop": {"columns": "channel"},
    "Stream.rename": {"columns": {"price": "amount"}},
    "Stream.filter": {"expression": "price > 1"},
    "Stream.map": {"function": lambda batch: batch},
    "Stream.flat_map": {"function": lambda batch: batch},
    "Stream.key_by": {"columns": "auction"},
    "Stream.rollup": {"columns": "auction"},
    "Stream.cube": {"columns": "auction"},
    "Stream.grouping_sets": {"sets": [["auction"], []]},
    "Stream.window": {"window": tumbling("10 s")},
    "Stream.top": {"k": 1, "by": "price"},
    "Stream.drop_duplicates": {"columns": "auction"},
    "Stream.union": {},
    "App.table": {"name": "names", "data": pa.table({"n": [1]})},
    "Stream.join": {"right": None, "on": "auction"},
    "Stream.interval_join": {"right": None, "on": "auction", "lower": "at", "upper": "at"},
    "Stream.asof_join": {"right": None, "on": "auction"},
    "Stream.window_join": {"right": None, "on": "auction", "window": tumbling("10 s")},
    "Stream.apply": {"function": Quiet(), "schema": SCHEMA},
    "Stream.sink": {"sink": sinks.null()},
    "Stream.publish": {"table": "bids"},
    "Stream.call": {"method": anything, "key": "channel"},
    "AppliedStream.output": {"name": "late"},
    "KeyedStream.window": {"window": tumbling("10 s")},
    "Stream.aggregate": {"calls": "count(*)"},
    "KeyedStream.aggregate": {"calls": "count(*)"},
    "KeyedStream.top": {"k": 1, "by": "price"},
    "KeyedStream.apply": {"function": Quiet(), "schema": SCHEMA},
    "GroupingSetsStream.window": {"window": tumbling("10 s")},
    "GroupingSetsStream.aggregate": {"calls": "count(*)"},
    "WindowedStream.allowed_lateness": {"lateness": "1 s"},
    "WindowedStream.aggregate": {"calls": "count(*)"},
    "WindowedStream.top": {"k": 1, "by": "price"},
    "sinks.parquet": {"directory": "out"},
    "sinks.csv": {"directory": "out"},
    "sinks.jsonl": {"directory": "out"},
    "sinks.kafka": {"brokers": "localhost:9092", "topic": "bids"},
    "sinks.delta": {"table": "out"},
    "sinks.stream": {"directory": "out"},
    "sinks.console": {},
    "sinks.callback": {"function": print},
    "sources.memory": {"rows": [{"n": 1}]},
    "sources.files": {"path": "in"},
    "sources.parquet": {"path": "in"},
    "sources.jsonl": {"path": "in"},
    "sources.csv": {"path": "in"},
    "sources.arrow": {"path": "in"},
    "sources.watch": {"directory": "in"},
    "sources.kafka": {"brokers": "localhost:9092", "topic": "bids", "schema": SCHEMA},
    "sources.dataframe": {"df": None},
}
"""Each verb with arguments of the right kind. The test below finds verbs that are missing here."""

OWNERS: dict[str, Callable[[], Any]] = {
    "App": app,
    "Stream": bids,
    "AppliedStream": applied,
    "KeyedStream": keyed,
    "GroupingSetsStream": lambda: bids().rollup("auction"),
    "WindowedStream": windowed,
    "sinks": lambda: sinks,
    "sources": lambda: sources,
}
NUMBERS = (
    *("k", "lessees", "workers_max", "batch_rows", "rows_per_file", "limit", "workers", "spill", "parallelism"),
    "schema_number",
)
DURATIONS = (
    *("delay", "batch_delay", "keep_keys", "poll", "lateness", "within", "max_jump", "speed", "refresh", "tolerance"),
    *("discover", "segment", "keep"),
)


def is_right(verb: str, parameter: inspect.Parameter, kind: str) -> bool:
    """Whether one of the kinds above is right for this parameter."""
    match kind:
        case "none":
            return parameter.default is None or parameter.name == "max_jump"
        case "int":
            return parameter.name in NUMBERS + DURATIONS
        case "float":
            return parameter.name in DURATIONS
        case "lambda":
            return parameter.name == "function" and not verb.endswith(".apply")
        case "list":
            return parameter.name == "rows"
        case "dict":
            return parameter.name in ("options", "start")
    return False


def verb_of(name: str) -> Callable[..., Any]:
    owner, _, verb = name.partition(".")
    return getattr(OWNERS[owner](), verb) if verb else App


def public_verbs() -> set[str]:
    verbs = {"App"}
    for owner in (App, Stream, AppliedStream, KeyedStream, GroupingSetsStream, WindowedStream):
        inherited = Stream.__mro__ if owner is AppliedStream else ()
        for part in set(owner.__mro__) - set(inherited):
            verbs |= {f"{owner.__name__}.{name}" for name, value in vars(part).items() if inspect.isfunction(value)}
    for module in (sinks, sources):
        own = [n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__]
        verbs |= {f"{module.__name__.partition('.')[2]}.{name}" for name in own}
    # Without arguments of a user's: the plan itself, and what the verbs call.
    inner = {"App.plan", "App.advice", "App.add_node", "App.free_name", "sinks.collect", "sinks.null"}
    return {verb for verb in verbs if "._" not in verb} - inner


def test_every_public_verb_is_tried_here() -> None:
    assert public_verbs() == set(RIGHT)


def attempts() -> list[tuple[str, str, str]]:
    return [
        (verb, parameter.name, kind)
        for verb in RIGHT
        for parameter in inspect.signature(verb_of(verb)).parameters.values()
        for kind in WRONG
        if not is_right(verb, parameter, kind)
    ]


@pytest.mark.parametrize(("verb", "parameter", "kind"), attempts())
def test_a_wrong_argument_is_refused_with_what_the_verb_takes(verb: str, parameter: str, kind: str) -> None:
    called = verb_of(verb)
    parameters = inspect.signature(called).parameters
    arguments = RIGHT[verb] | ({"right": bids(name="right")} if "right" in RIGHT[verb] else {})
    arguments[parameter] = WRONG[kind]
    several = [name for name, p in parameters.items() if p.kind is inspect.Parameter.VAR_POSITIONAL]
    # What comes before such a parameter has its place, and no name.
    before = [*parameters][: [*parameters].index(several[0]) + 1] if several else []
    positional = [arguments.pop(name) for name in before if name in arguments]
    if parameters[parameter].kind is inspect.Parameter.VAR_KEYWORD:
        arguments["column"] = arguments.pop(parameter)
        parameter = "column"
    with pytest.raises(UserError) as caught:
        called(*positional, **arguments)
    text = str(caught.value)
    assert text.startswith(verb.rpartition(".")[2]), text
    assert f"for '{parameter}'" in text, text
    assert " takes " in text, text
    assert "got " in text, text


@pytest.mark.parametrize(
    ("act", "parts"),
    [
        (lambda: bids().filter(lambda row: row.price > 1), ("filter on 'bids' takes a Spark SQL", "map or flat_map")),
        (lambda: bids().sink("out/"), ("sink on 'bids' takes a sink", "'out/'", "sinks.parquet('out/')")),
        (lambda: keyed().aggregate(["count(*)"]), ("aggregate on 'bids' takes aggregates", "a list", "put * before")),
        (lambda: keyed().aggregate(sum), ("aggregate on 'bids' takes", "stretto.UserAggregate")),
        (lambda: windowed().top(1.5, "price"), ("top on 'bids' takes a whole number", "'k'", "1.5")),
        (lambda: windowed().top(by=["price"]), ("top on 'bids' takes (k, by, *,", "missing a required argument: 'k'")),
        (lambda: windowed().top(1, by=[1]), ("top on 'bids' takes expressions to order by", "a list", "each as text")),
        (lambda: windowed().top(True, by="price"), ("top on 'bids' takes a whole number", "'k'")),
        (lambda: bids().window("10 s"), ("window on 'bids' takes a window", "tumbling('10 s')")),
        (lambda: bids().filter("price > 1", nam="cheap"), ("filter on 'bids' takes (expression,", "'nam'")),
        (lambda: tumbling(None), ("the size of a tumbling window cannot be read", "None", "10 seconds")),  # type: ignore[arg-type]
        (lambda: tumbling(float("nan")), ("the size of a tumbling window cannot be read", "nan")),
    ],
)
def test_common_mistakes_say_what_to_write(act: Callable[[], Any], parts: tuple[str, ...]) -> None:
    with pytest.raises(PlanError) as caught:
        act()
    for part in parts:
        assert part in str(caught.value), f"{part!r} is not in: {caught.value}"


def test_key_by_takes_a_list_too() -> None:
    one, other = bids().key_by("auction", "channel"), bids().key_by(["auction", "channel"])
    assert one.aggregate("count(*)").schema.equals(other.aggregate("count(*)").schema)
