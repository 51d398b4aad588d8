"""Spark SQL expression strings, compiled once and run over Arrow batches with Spark's answers and Spark's types.

`"price * 0.908 AS euros"` means exactly what it means in Spark 4 (ANSI mode), so one program can run on actors, as
a micro-batch query or as a batch query, and the three can be compared.

This room must never know Spark itself, streams, state or time: it gets one batch and a schema. Unsupported text raises
an error at compile time; errors that depend on the data (overflow, division by zero) are raised at run time.

Read next: `binder.py`, which turns a parsed text into a typed node; `vectors.py`, for the form of a column while an
expression runs; `types.py` and `decimals.py`, for Spark's rules of promotion; `functions.py`, for the functions.
"""

from stretto.expressions.aggregates import AggregateCall, parse_aggregate
from stretto.expressions.ddl import parse_schema
from stretto.expressions.predicate import Predicate, compile_predicate
from stretto.expressions.projection import Projection, compile_projection
from stretto.expressions.scalar import Scalar, compile_order, compile_scalar, compile_value
from stretto.expressions.types import spark_type_name

__all__ = [
    "AggregateCall",
    "Predicate",
    "Projection",
    "Scalar",
    "compile_order",
    "compile_predicate",
    "compile_projection",
    "compile_scalar",
    "compile_value",
    "parse_aggregate",
    "parse_schema",
    "spark_type_name",
]
