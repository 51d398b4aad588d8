"""Expressions over arrays, maps and structs, and Spark's answers to them, as recorded.

`python -m tests.nested_cases` asks Spark again and writes the answers to recorded_nested.json.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from stretto.expressions import parse_schema, spark_type_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAN = float("nan")
SCHEMA = parse_schema(
    "i int, n bigint, x double, d decimal(10,2), s string, b boolean, t timestamp, dt date, a array<int>, "
    "l array<bigint>, w array<string>, f array<double>, aa array<array<int>>, ps array<struct<p:int,q:string>>, "
    "st struct<a:int,B:string,c:array<int>>, m map<string,int>, mi map<int,string>, "
    "ms map<string,struct<p:int,q:string>>"
)
_ROWS = [
    (1, 10, 1.5, Decimal("1.50"), "a,b", True, datetime(2024, 2, 29, 12, 34, 56, 789000, UTC), date(2024, 2, 29),
     [3, 1, 2], [1, 2], ["b", "a", "é"], [1.5, NAN, -0.0], [[1, 2], [3]], [(1, "x"), (2, None)], (1, "x", [1, 2]),
     {"k": 1, "z": 2}, {1: "one", 2: "two"}, {"k": (1, "x")}),
    (-1, 20, NAN, Decimal("-2.00"), "", False, datetime(1969, 12, 31, 23, 59, 59, 0, UTC), date(1969, 12, 31),
     [], [], [], [], [], [], (None, None, None), {}, {}, {}),
    (None,) * 18,
    (0, None, -0.0, Decimal("0.00"), "😀x", None, datetime(2000, 1, 1, tzinfo=UTC), date(2000, 1, 31),
     [None, 5, None, 5], [None], [None, "a", "a", ""], [None, 0.0, -0.0, NAN, NAN], [None, [None], []],
     [None, (3, "y"), (None, None)], (2, "", [None]), {"k": None}, {3: None}, {"k": None, "j": (None, "q")}),
    (2, 2, 2.0, Decimal("9.99"), "zz", True, datetime(2020, 6, 1, 0, 0, 0, 1, UTC), date(2020, 6, 1),
     [7], [7, 8, 7], ["zz"], [2.0], [[1], None, [1]], [(1, "x"), (1, "x")], (1, "x", [1, 2]),
     {"k": 7, "a": 0}, {2: "b", 1: "a"}, {"a": (5, "e")}),
]  # fmt: skip
_FOLDER = Path(__file__).parent
_RECORDED = _FOLDER / "recorded_nested.json"

#: Select lists with a function that makes rows, or with the fields of a struct.
GENERATED = [
    ["i", "explode(a) AS e"],
    ["explode_outer(a)", "i"],
    ["posexplode(w)", "n"],
    ["posexplode_outer(m)"],
    ["explode(m) AS (k, v)", "s"],
    ["explode_outer(ms)"],
    ["posexplode_outer(aa) AS (place, inner)"],
    ["inline(ps)", "t"],
    ["inline_outer(ps) AS (x, y)"],
    ["stack(2, i, n, i + 1) AS (x, y)", "b"],
    ["stack(3, 'a', 'b') AS x", "i"],
    ["explode(transform(a, x -> x + i)) AS e", "10 div (i + 1) AS z"],
    ["*", "explode(array(1, 2)) AS e"],
    ["i", "st.*"],
    ["i", "json_tuple(to_json(st), 'a', 'B', 'c')"],
    ["json_tuple(concat('{\"k\":\"', s, '\"}'), 'k', s) AS (x, y)"],
]
Answer = tuple[str, list[str]] | None
"""The type and the value of each row; None if Spark refuses the text, or fails on a row."""


def _for_arrow(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if pat.is_struct(kind):
        return {field.name: _for_arrow(part, field.type) for field, part in zip(kind, value, strict=True)}
    if pat.is_map(kind):
        return [(key, _for_arrow(item, kind.item_type)) for key, item in value.items()]
    return [_for_arrow(part, kind.value_type) for part in value] if pat.is_list(kind) else value


ROWS = pa.record_batch(
    [pa.array([_for_arrow(row[place], field.type) for row in _ROWS], field.type) for place, field in enumerate(SCHEMA)],
    schema=SCHEMA,
)


def texts() -> list[str]:
    """Returns all the expressions."""
    lines = (_FOLDER / "nested_expressions.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line]


def recorded() -> dict[str, Answer]:
    """Returns Spark's answers, as they were when somebody last asked it."""
    answers = json.loads(_RECORDED.read_text(encoding="utf-8"))
    return {text: None if answer is None else (answer[0], answer[1:]) for text, answer in answers.items()}


def shown(column: Any) -> Answer:
    """Returns an Arrow column's type in Spark's words and a text for each of its values."""
    return spark_type_name(column.type), [_shown(value, column.type) for value in column]


def _shown(value: Any, kind: Any) -> str:
    if not value.is_valid:
        return "null"
    if pat.is_struct(kind):
        fields = (_shown(pc.struct_field(value, [place]), field.type) for place, field in enumerate(kind))
        return f"({', '.join(fields)})"
    if pat.is_map(kind):
        entries = [(pc.struct_field(entry, [0]), pc.struct_field(entry, [1])) for entry in value.values]
        return "{" + ", ".join(f"{_shown(k, kind.key_type)}: {_shown(v, kind.item_type)}" for k, v in entries) + "}"
    if pat.is_list(kind):
        return f"[{', '.join(_shown(element, kind.value_type) for element in value.values)}]"
    plain = value.as_py()
    if isinstance(plain, datetime):
        return plain.strftime("%Y-%m-%d %H:%M:%S.%f")
    return repr(plain) if not isinstance(plain, float) or not math.isnan(plain) else "nan"


def sparks_answers(spark: SparkSession, asked: list[str]) -> list[Answer]:
    """Returns Spark's own answers. Those that fail are found by asking for ever smaller parts of the list."""
    if not asked:
        return []
    try:
        selected = frame(spark).selectExpr(*(f"{text} AS `{place}`" for place, text in enumerate(asked)))
        table = selected.coalesce(1).toArrow().combine_chunks()
    except Exception:
        if len(asked) == 1:
            return [None]
        half = len(asked) // 2
        return sparks_answers(spark, asked[:half]) + sparks_answers(spark, asked[half:])
    return [shown(column.chunk(0)) for column in table.columns]


def frame(spark: SparkSession) -> Any:
    """Returns the rows as a DataFrame."""
    return spark.createDataFrame(pa.Table.from_batches([ROWS])).coalesce(1)


def main() -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[1]").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    known = recorded() if _RECORDED.exists() else {}
    new = [text for text in texts() if text not in known]
    found = known | dict(zip(new, sparks_answers(spark, new), strict=True))
    found = {text: found[text] for text in texts()}
    lines = (f"{json.dumps(text)}: {json.dumps(answer and [answer[0], *answer[1]])}" for text, answer in found.items())
    _RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
