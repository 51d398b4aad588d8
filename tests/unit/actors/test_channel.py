"""What a batch costs: one credit, and one more for every CREDIT_BYTES of a large one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stretto.actors.address import Address
from stretto.actors.channel import CREDIT_BYTES, OutChannel, light_rows
from stretto.actors.deployment import FunctionSpec
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.actors.seat import Seat

FIXED = pa.schema([("n", pa.int64()), ("b", pa.bool_()), ("d", pa.decimal128(20, 2)), ("t", pa.timestamp("us", "UTC"))])
LONG = pa.schema([("s", pa.string())])


def channel(schema: pa.Schema) -> OutChannel:
    seat = Seat(Instance(Address("job", "f", 0), FunctionSpec("f", Function(), 1), False, False), 1.0)
    return OutChannel(seat, Address("job", "g", 0), "in", "w~1", 1, schema)


def nulls(rows: int, schema: pa.Schema = FIXED) -> pa.RecordBatch:
    return pa.record_batch([pa.nulls(rows, kind) for kind in schema.types], schema=schema)


def texts(*lengths: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(["x" * length for length in lengths])], schema=LONG)


def test_light_rows_cost_one_credit() -> None:
    rows = light_rows(FIXED)
    assert (channel(FIXED).weigh(nulls(rows)), channel(FIXED).weigh(nulls(rows + 1))) == (1, 2)
    assert CREDIT_BYTES * 0.99 < nulls(rows).nbytes < CREDIT_BYTES
    assert light_rows(pa.schema([])) > 1_000_000
    for kind in (
        pa.string(),
        pa.list_(pa.int64()),
        pa.dictionary(pa.int8(), pa.string()),
        pa.struct([("s", pa.string())]),
    ):
        assert light_rows(pa.schema([("n", pa.int64()), ("x", kind)])) == 0


@pytest.mark.parametrize("rows", [0, 1, 1_000, light_rows(FIXED), light_rows(FIXED) + 1, 1_000_000])
def test_rows_of_a_fixed_length_are_weighed_by_their_number(rows: int) -> None:
    batch = nulls(rows)
    assert 1 + batch.nbytes // CREDIT_BYTES <= channel(FIXED).weigh(batch) <= 2 + 1.01 * batch.nbytes // CREDIT_BYTES


def test_rows_of_any_length_are_weighed_by_their_bytes() -> None:
    out = channel(LONG)
    assert out.weigh(texts(*[10] * 1_000)) == 1
    assert out.weigh(texts(10 * CREDIT_BYTES)) == 11
    assert out.weigh(texts(1)) == 1


def test_the_slices_of_a_large_whole_are_light() -> None:
    whole = texts(*[1_000] * 20_000)
    out = channel(LONG)
    assert out.weigh(whole) == 1 + whole.nbytes // CREDIT_BYTES
    assert {out.weigh(whole.slice(first, 100)) for first in range(0, 20_000, 100)} == {1}
