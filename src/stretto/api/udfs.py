"""Scalar Python functions for expressions: how they are declared, and which names they may have.

@udf("double")
def euros(price: pa.Array) -> pa.Array:
    return pc.multiply(price, 0.908)

app.register(euros)
bids.select("auction", "euros(price) AS euros")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from stretto.api.arguments import Kind, takes
from stretto.errors import PlanError
from stretto.expressions.aggregates import is_aggregate
from stretto.expressions.functions import FUNCTIONS
from stretto.expressions.udf import Arguments, Udf, declared

TYPE = Kind(
    'the type that the function returns, such as "double"',
    lambda value: isinstance(value, str | pa.DataType),
    lambda value: 'Write @udf("double") above the function.' if callable(value) else None,
)
_SYNTAX = {"case", "cast", "exists", "if", "in", "interval", "not", "struct", "try_cast", "when"}


@takes(returns=TYPE)
def udf(returns: str | pa.DataType, *, name: str | None = None) -> Callable[[Callable[..., Any]], Udf]:
    """Declares a scalar function for expressions: it gets pyarrow arrays, one for each argument, and returns an array
    of as many values of the type `returns`, such as "double" or "array<string>". Nulls are in the arrays."""
    return lambda function: declared(function, returns, name, Arguments.ARROW)


@takes(returns=TYPE)
def pandas_udf(returns: str | pa.DataType, *, name: str | None = None) -> Callable[[Callable[..., Any]], Udf]:
    """Like `udf`, for a function from pandas Series to a Series, as PySpark's scalar `pandas_udf`."""
    return lambda function: declared(function, returns, name, Arguments.PANDAS)


def registered(app: str, udfs: Mapping[str, Udf], added: Udf) -> dict[str, Udf]:
    """Returns an app's functions with one more, by their names in lower case."""
    name = added.name.lower()
    if name in FUNCTIONS or name in _SYNTAX or is_aggregate(name):
        raise PlanError(
            f"app '{app}' cannot register '{added.name}'", "it is a function of Spark SQL", "Choose another name=."
        )
    if udfs.get(name, added) != added:
        raise PlanError(f"app '{app}' has a function '{added.name}' already", None, "Choose another name=.")
    return {**udfs, name: added}
