"""Converts Spark's type names to Arrow types: `CAST(x AS decimal(10,2))` and "id bigint, name string"."""

from __future__ import annotations

import re

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from stretto.errors import ExpressionError
from stretto.expressions import types
from stretto.expressions.reads import refuse_unread

_SIMPLE = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.TINYINT,
    "SMALLINT": types.SMALLINT,
    "INT": types.INT,
    "BIGINT": types.BIGINT,
    "FLOAT": types.FLOAT,
    "DOUBLE": types.DOUBLE,
    "TEXT": types.STRING,
    "VARCHAR": types.STRING,
    "CHAR": types.STRING,
    "BINARY": types.BINARY,
    "DATE": types.DATE,
    "TIMESTAMP": types.TIMESTAMP,
    "TIMESTAMPTZ": types.TIMESTAMP,
    "TIMESTAMPLTZ": types.TIMESTAMP,
}
#: Types that have a length. Spark reads them as string, without a check of the length.
_LENGTHS = {"VARCHAR": 1, "CHAR": 1}
_KNOWN = (
    "boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), string, binary, date, timestamp, "
    "array<...>, map<..., ...>, struct<...>"
)
_COLUMN = re.compile(
    r"\s*(?P<name>`(?:[^`]|``)+`|\w+)(?:\s*:\s*|\s+)(?P<type>\w+(?:\s*[<(].*[>)])?)"
    r"(?P<required>\s+NOT\s+NULL)?(?:\s+COMMENT\s+(?:'[^']*'|\"[^\"]*\"))?\s*",
    re.IGNORECASE | re.DOTALL,
)


def type_from_ast(node: exp.DataType) -> pa.DataType:
    """Returns the Arrow type for a type name that sqlglot has parsed."""
    name = node.this.name if hasattr(node.this, "name") else str(node.this)
    if name in _SIMPLE and len(node.expressions) == _LENGTHS.get(name, 0):
        return _SIMPLE[name]
    if name == "DECIMAL" and len(node.expressions) <= 2:
        sizes = [int(param.this.name) for param in node.expressions]
        precision, scale = (*sizes, 0)[:2] if sizes else (10, 0)
        if not 1 <= precision <= types.DECIMAL_DIGITS_MAX or scale > precision:
            raise ExpressionError(
                f"there is no type decimal({precision},{scale})",
                None,
                "use 1 to 38 digits and no larger a scale",
            )
        return pa.decimal128(precision, scale)
    if name == "ARRAY" and len(node.expressions) == 1:
        return pa.list_(type_from_ast(node.expressions[0]))
    if name == "MAP" and len(node.expressions) == 2:
        return pa.map_(*map(type_from_ast, node.expressions))
    if name == "STRUCT":
        return pa.struct(_fields(node))
    raise ExpressionError(f"unknown type {node.sql('spark')!r}", None, f"types: {_KNOWN}")


def parse_schema(ddl: str) -> pa.Schema:
    """Returns the Arrow schema for Spark's column list, e.g. "id bigint, name string, tags array<string>"."""
    fields = [_column(text, ddl) for text in _columns(ddl)]
    names = [field.name.lower() for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise ExpressionError(f"column {name!r} is declared twice", f"in schema {ddl!r}", "rename one of them")
    return pa.schema(fields)


def _column(text: str, ddl: str) -> pa.Field:
    found = _COLUMN.fullmatch(text)
    if found is None:
        raise _unreadable(text, ddl)
    try:
        kind = exp.DataType.build(found["type"], dialect="spark")
    except (SqlglotError, ValueError):
        raise _unreadable(text, ddl) from None
    refuse_unread(kind, ddl)
    name = found["name"]
    if name.startswith("`"):
        name = name[1:-1].replace("``", "`")
    return pa.field(name, type_from_ast(kind), nullable=found["required"] is None)


def _fields(node: exp.DataType) -> list[pa.Field]:
    fields = []
    for column in node.expressions:
        if not isinstance(column, exp.ColumnDef) or column.args.get("kind") is None:
            raise ExpressionError(f"field {column.sql('spark')!r} has no type", None, "write 'name type'")
        required = any(isinstance(c.args.get("kind"), exp.NotNullColumnConstraint) for c in column.constraints)
        fields.append(pa.field(column.name, type_from_ast(column.args["kind"]), nullable=not required))
    return fields


def _columns(ddl: str) -> list[str]:
    """Returns the text of each column: the parts between commas that are outside brackets and quotes."""
    depth, quote, columns = 0, "", [""]
    for char in ddl:
        if quote:
            quote = "" if char == quote else quote
        elif char in "`'\"":
            quote = char
        elif char in "<(":
            depth += 1
        elif char in ">)":
            depth -= 1
        if char == "," and depth == 0 and not quote:
            columns.append("")
        else:
            columns[-1] += char
    return columns


def _unreadable(text: str, ddl: str) -> ExpressionError:
    return ExpressionError(
        f"cannot read the column {text.strip()!r}",
        f"in the schema {ddl!r}",
        'write "name type, name type", for example "id bigint, name string"',
    )
