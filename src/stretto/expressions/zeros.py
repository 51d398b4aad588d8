"""One zero and one NaN for all: what Spark shows of values that it compares as keys, or puts into sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from stretto.expressions.lists import Lists, put_together, taken_apart
from stretto.expressions.vectors import validity


def has_floats(kind: Any) -> bool:
    """Whether there are floats or doubles in values of a type, also within arrays and structs."""
    if pat.is_list(kind):
        return has_floats(kind.value_type)
    if pat.is_struct(kind):
        return any(has_floats(field.type) for field in kind)
    return bool(pat.is_float32(kind) or pat.is_float64(kind))


def one_zero(array: pa.Array) -> pa.Array:
    """Returns an array with 0.0 for -0.0 and one NaN for all, also within arrays and structs."""
    kind = array.type
    if not has_floats(kind):
        return array
    if pat.is_list(kind):
        lists = taken_apart(array)
        return put_together(Lists(lists.offsets, one_zero(lists.values), lists.valid), kind)
    missing = None if array.null_count == 0 else ~validity(array)
    if pat.is_struct(kind):
        mask = None if missing is None else pa.array(missing)
        return pa.StructArray.from_arrays(list(map(one_zero, array.flatten())), fields=list(kind), mask=mask)
    values = array.to_numpy(zero_copy_only=False) + kind.to_pandas_dtype()(0)
    values[np.isnan(values)] = np.nan
    return pa.array(values, kind, mask=missing, from_pandas=False)
