"""Batches that a user's code gives to the engine are of the declared schema, or the error says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from stretto.actors.address import Address
from stretto.actors.channel import InChannel, Message, Payload
from stretto.actors.checking import checked_batch
from stretto.actors.context import Clock, Context
from stretto.actors.critical import EndOfInput, UserCritical, Watermark
from stretto.actors.deployment import FunctionSpec, Stage
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.actors.source import Reading, Source, SourceReader
from stretto.actors.work import OPEN, POLL, FireTimers, Work
from stretto.errors import FunctionError
from stretto.operators.ends import SourceFunction
from stretto.operators.stateless import PythonStep

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])
ROWS = pa.record_batch([[1, 2], ["a", "b"]], schema=SCHEMA)
DOUBLES = pa.record_batch({"n": [1.5, 2.5], "s": ["a", "b"]})
SWAPPED = pa.record_batch({"s": ["a", "b"], "n": [1, 2]})
SHORT = pa.record_batch({"n": [1, 2]})


def checked(given: Any) -> pa.RecordBatch:
    return checked_batch(given, SCHEMA, "function 'f'", "sent")


def test_a_batch_of_the_declared_schema_is_taken_as_it_is() -> None:
    assert checked(ROWS) is ROWS
    described = ROWS.replace_schema_metadata({"made": "by somebody"})
    assert checked(described) is described


def test_a_table_becomes_one_batch() -> None:
    table = pa.Table.from_batches([ROWS, ROWS])
    assert checked(table).to_pylist() == table.to_pylist()
    assert checked(SCHEMA.empty_table()).num_rows == 0


def test_what_is_said_about_nulls_does_not_matter() -> None:
    strict = pa.schema([pa.field("n", pa.int64(), nullable=False), ("s", pa.string())])
    given = checked(pa.record_batch(ROWS.columns, schema=strict))
    assert given.schema.equals(SCHEMA)
    assert given.to_pylist() == ROWS.to_pylist()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (DOUBLES, "column 'n' is declared int64 and was sent as double"),
        (pa.Table.from_batches([DOUBLES]), "column 'n' is declared int64 and was sent as double"),
        (SWAPPED, "declared columns n, s; sent columns s, n"),
        (SHORT, "declared columns n, s; missing s"),
        (ROWS.append_column("t", pa.array([1, 2])), "declared columns n, s; sent columns n, s, t"),
    ],
)
def test_another_schema_is_refused_with_the_difference(given: Any, said: str) -> None:
    with pytest.raises(FunctionError) as caught:
        checked(given)
    assert str(caught.value) == (
        f"function 'f' sent the wrong schema: {said}\n  Correct the function or its declared schema."
    )


@pytest.mark.parametrize(
    ("given", "said", "way_out"),
    [
        ([{"n": 1, "s": "a"}], "a list", "pyarrow.RecordBatch.from_pylist(rows, schema)"),
        ({"n": [1], "s": ["a"]}, "a dict", "pyarrow.RecordBatch.from_pydict(columns, schema)"),
        (pd.DataFrame({"n": [1]}), "a DataFrame", "pyarrow.RecordBatch.from_pandas(frame, schema)"),
        (None, "None", "nothing at all"),
        (1, "an int", "Give a pyarrow RecordBatch or Table"),
        (pa.array([1]), "an Int64Array", "Give a pyarrow RecordBatch or Table"),
    ],
)
def test_what_is_no_batch_is_named_with_what_to_give(given: Any, said: str, way_out: str) -> None:
    with pytest.raises(FunctionError) as caught:
        checked(given)
    assert str(caught.value).startswith(f"function 'f' sent {said}, not a record batch\n")
    assert way_out in str(caught.value)
    assert str(caught.value).endswith("n int64, s string.")


def test_a_wide_schema_is_cut_in_the_message() -> None:
    wide = pa.schema([(f"c{number}", pa.int64()) for number in range(200)])
    with pytest.raises(FunctionError, match="c0, c1, c2, c3, c4, c5, c6, c7 and 192 more; missing c0"):
        checked_batch(ROWS, wide, "function 'f'", "sent")


class Sending(Function):
    """Sends what it was made with from one of its callbacks."""

    def __init__(self, callback: str, given: Any) -> None:
        self.callback = callback
        self.given = given

    def _send(self, callback: str, ctx: Context) -> None:
        if callback == self.callback:
            ctx.send(self.given)

    def open(self, ctx: Context) -> None:
        ctx.set_timer(1, None, Clock.EVENT)
        ctx.set_timer(1, None, Clock.PROCESSING)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        self._send("process", ctx)

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        self._send("on_watermark", ctx)

    def on_timer(self, tag: Any, due: int, ctx: Context) -> None:
        self._send("on_timer", ctx)

    def on_critical(self, name: str, payload: Any, ctx: Context) -> None:
        self._send("on_critical", ctx)

    def on_end(self, ctx: Context) -> None:
        self._send("on_end", ctx)


def opened(function: Function) -> Instance:
    spec = FunctionSpec("f", function, 1, {"out": Stage("f", SCHEMA)})
    instance = Instance(Address("job", "f", 0), spec, isinstance(function, SourceFunction), False)
    instance.apply(OPEN, 0)
    return instance


def message(payload: Payload) -> Callable[[Instance], Work]:
    def made(instance: Instance) -> Work:
        channel = InChannel(Address("job", "before", 0), instance, "in")  # type: ignore[arg-type]
        instance.inputs = [channel]
        return Message(channel, 1, payload, 0)

    return made


CALLBACKS: dict[str, Callable[[Instance], Work]] = {
    "process": message(ROWS),
    "on_watermark": message(Watermark(5)),
    "on_critical": message(UserCritical("page")),
    "on_end": message(EndOfInput()),
    "on_timer": lambda instance: FireTimers(),
}


@pytest.mark.parametrize("callback", CALLBACKS)
@pytest.mark.parametrize("given", [DOUBLES, SWAPPED, SHORT, [1], None])
def test_no_callback_can_send_another_schema(callback: str, given: Any) -> None:
    instance = opened(Sending(callback, given))
    with pytest.raises(FunctionError, match="function 'f' sent"):
        instance.apply(CALLBACKS[callback](instance), 10)


class Given(Source, SourceReader):
    """A user's source that returns what it was made with."""

    schema = SCHEMA

    def __init__(self, reading: Any) -> None:
        self.reading = reading

    def reader(self, partition: int, partitions: int) -> Given:
        return self

    def read(self, now_ns: int, max_rows: int) -> Any:
        return self.reading


@pytest.mark.parametrize("stamp", [None, "read_at"])
@pytest.mark.parametrize(
    ("reading", "said"),
    [
        (Reading(DOUBLES, 0), "source 'f' read the wrong schema: column 'n' is declared int64 and was read as double"),
        (Reading(SWAPPED, 0), "source 'f' read the wrong schema: declared columns n, s; read columns s, n"),
        (Reading([1], 0), "source 'f' read a list, not a record batch"),  # type: ignore[arg-type]
        (None, "source 'f' read no Reading: it returned a NoneType"),
        (ROWS, "source 'f' read no Reading: it returned a RecordBatch"),
        (Reading(ROWS, 1.5), "read a time that is out of range, or no int: arrived_ns is 1.5"),  # type: ignore[arg-type]
        (Reading(ROWS, 0, watermark_us=2**63), "or no int: watermark_us is 9223372036854775808"),
    ],
)
def test_a_source_cannot_read_another_schema(reading: Any, said: str, stamp: str | None) -> None:
    schema = SCHEMA if stamp is None else SCHEMA.append(pa.field(stamp, pa.timestamp("us", "UTC")))
    instance = opened(SourceFunction(Given(reading), None, 0, stamp, None, 10, 0, schema))
    with pytest.raises(FunctionError) as caught:
        instance.apply(POLL, 10)
    assert said in str(caught.value)


@pytest.mark.parametrize("given", [DOUBLES, [DOUBLES], pd.DataFrame({"n": [1]}), {"n": [1]}, None, "rows"])
def test_a_flat_map_cannot_return_another_schema(given: Any) -> None:
    with pytest.raises(FunctionError, match="function 'f' returned"):
        PythonStep("f", lambda batch: given, SCHEMA, rows_kept=False)(ROWS)
