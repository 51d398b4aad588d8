"""The order of values of any type as integers, so that arrays and structs are compared, sorted and counted by numpy.

Equal values have equal ranks: NaN equals NaN and is above all numbers, 0.0 equals -0.0, a null equals a null and is
below all else, an array is below another that begins with it. This is the order of Spark's arrays and structs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from stretto.expressions import types
from stretto.expressions.lists import is_missing, taken_apart
from stretto.expressions.vectors import reader


def ranks(array: pa.Array) -> Any:
    """Returns the rank of each value among these values: 0 for null, from 1 for all others."""
    if pat.is_null(array.type) or not len(array):
        return np.zeros(len(array), np.int64)
    found = _ranks(array)
    return np.where(is_missing(array), 0, found) if array.null_count else found


def ranks_together(*arrays: pa.Array) -> list[Any]:
    """Returns the ranks of the values of several arrays of one type among all of them."""
    kind = next((array.type for array in arrays if not pat.is_null(array.type)), types.NULL)
    whole = pa.concat_arrays([_of_type(array, kind) for array in arrays])
    return np.split(ranks(whole), np.cumsum([len(array) for array in arrays])[:-1])


def _of_type(array: pa.Array, kind: Any) -> pa.Array:
    if array.type == kind:
        return array
    if pat.is_null(array.type):
        return pa.nulls(len(array), kind)
    return array.cast(kind) if not pat.is_struct(kind) else _renamed(array, kind)


def _renamed(array: Any, kind: Any) -> pa.Array:
    """Returns structs under the names of another type that differs only in them."""
    fields = [_of_type(array.field(place), field.type) for place, field in enumerate(kind)]
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=pa.array(is_missing(array)))


def _ranks(array: Any) -> Any:
    kind = array.type
    if kind in (types.STRING, types.BINARY):
        return _of_bytes(array)
    if pat.is_list(kind):
        return _of_lists(array)
    if pat.is_struct(kind):
        return _of_structs(array)
    values, _ = reader(kind)(array)
    if types.is_fractional(kind):
        values = values + values.dtype.type(0.0)  # Makes 0.0 of -0.0.
    return _dense(values)


def _dense(values: Any) -> Any:
    return np.unique(values, return_inverse=True)[1].reshape(-1) + 1


def _of_bytes(array: Any) -> Any:
    encoded = array.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    places = np.empty(len(order) + 1, np.int64)
    places[order] = np.arange(1, len(order) + 1)
    places[-1] = 0
    return places[encoded.indices.fill_null(len(order)).to_numpy()]


def _of_lists(array: Any) -> Any:
    """Returns the ranks of arrays as those of texts: the ranks of their elements as bytes, the greatest byte first."""
    lists = taken_apart(array)
    data = ranks(lists.values).astype(">u8")
    buffers = [None, pa.py_buffer((lists.offsets * data.itemsize).astype(np.int64)), pa.py_buffer(data)]
    return _of_bytes(pa.Array.from_buffers(pa.large_binary(), lists.rows, buffers))


def _of_structs(array: Any) -> Any:
    found = np.ones(len(array), np.int64)
    for place in range(array.type.num_fields):
        field = ranks(pc.struct_field(array, [place]))
        found = _dense(found * (int(field.max()) + 1) + field)
    return found
