"""The columns that random expressions read, and random rows for them."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa

from stretto.bench.fuzz.plain import array_of
from stretto.bench.fuzz.terms import Term, column, family
from stretto.bench.fuzz.texts import DATES, JSON
from stretto.bench.fuzz.values import random_value
from stretto.errors import ExpressionError
from stretto.expressions import parse_schema

_COLUMNS = (
    "b boolean", "b2 boolean", "y tinyint", "y2 tinyint", "h smallint", "h2 smallint", "i int", "i2 int", "n bigint",
    "n2 bigint", "f float", "f2 float", "x double", "x2 double", "d decimal(10,2)", "d2 decimal(10,2)",
    "e decimal(38,18)", "k decimal(38,0)", "p decimal(7,7)", "s string", "s2 string", "s3 string", "sd string",
    "sd2 string", "sj string", "bin binary",
    "dt date", "dt2 date", "t timestamp", "t2 timestamp", "ai array<int>", "ai2 array<int>", "az array<string>",
    "ax array<double>", "ad array<decimal(10,2)>", "aa array<array<int>>", "st struct<a:int,b:string>",
    "st2 struct<a:int,b:string>", "m map<string,int>", "mi map<int,string>", "ast array<struct<a:int,b:string>>",
)  # fmt: skip
TEXTS_OF = {"sd": DATES, "sd2": DATES, "sj": JSON}
"""Columns whose texts have a language, since a random text hardly ever is a date."""
_OTHER_SHARE = 0.1


def schema() -> pa.Schema:
    """Returns the columns whose types the expressions know."""
    fields = []
    for text in _COLUMNS:
        name, kind = text.split(" ", 1)
        try:
            fields += parse_schema(f"`{name}` {kind}")
        except ExpressionError:
            continue
    return pa.schema(fields)


def columns_by_family(columns: pa.Schema) -> dict[str, list[Term]]:
    found: dict[str, list[Term]] = {}
    for field in columns:
        of = family(field.type)
        found.setdefault(of, []).append(column(field.name, of))
    return found


def random_rows(columns: pa.Schema, count: int, rng: Random) -> pa.RecordBatch:
    """Returns a batch of random rows."""
    arrays = [array_of([_value(field, rng) for _ in range(count)], field.type) for field in columns]
    return pa.record_batch(arrays, schema=columns)


def _value(field: pa.Field, rng: Random) -> Any:
    texts = TEXTS_OF.get(field.name)
    if texts is None or rng.random() < _OTHER_SHARE:
        return random_value(field.type, rng)
    return rng.choice(texts)
