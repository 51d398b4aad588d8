"""Exported states cross the wire as typed bytes and come back equal, or are refused with a reason."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.errors import FunctionError
from stretto.state.packing import packed, unpacked

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.dates()
    | st.times()
    | st.datetimes()
    | st.datetimes(timezones=st.just(datetime.UTC))
    | st.timedeltas()
)
keys = st.integers() | st.text() | st.tuples(st.integers(), st.text()) | st.dates() | st.frozensets(st.integers())
content = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(keys, inner)
        | st.dictionaries(st.text(), inner)
        | st.sets(keys)
    ),
    max_leaves=20,
)


def same(one: Any, other: Any) -> bool:
    """Equal, and of equal types all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


@given(content)
def test_plain_data_is_read_back_unchanged(value: Any) -> None:
    assert same(unpacked(packed(value)), value)


def test_tables_and_arrays_come_back_as_they_were() -> None:
    table = pa.table({"k": ["a", None], "v": pa.array([1.5, 2.5], pa.float32())})
    found = unpacked(packed({"table": table, "array": pa.array([1, None], pa.int16()), "n": np.int64(7)}))
    assert found["table"].equals(table)
    assert found["array"].equals(pa.array([1, None], pa.int16()))
    assert found["n"] == 7


def test_other_than_plain_data_is_refused() -> None:
    with pytest.raises(FunctionError, match="cannot be sent between workers"):
        packed({"socket": object()})
