"""A user's scalar function in an expression: from Arrow arrays, or pandas Series, to one of as many values.

Functions are known by name while an app's verbs compile their texts (`knowing`). A compiled expression keeps them
(`setting.py`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from stretto.errors import ExpressionError, FunctionError, StrettoError
from stretto.expressions import types, vectors
from stretto.expressions.ddl import parse_schema
from stretto.expressions.nodes import Node, Site
from stretto.expressions.vectors import Value
from stretto.rendering import error_text, message_of, traceback_of

_NAME = re.compile(r"[A-Za-z_]\w*")


class Arguments(Enum):
    """What the function is called with."""

    ARROW = "pyarrow arrays"
    PANDAS = "pandas Series"


@dataclass(frozen=True)
class Udf:
    """A function with its name in expressions and its type. Calling it calls the function."""

    name: str
    function: Callable[..., Any]
    type: pa.DataType
    arguments: Arguments = Arguments.ARROW

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def evaluate(self, columns: Sequence[pa.Array], rows: int) -> pa.Array:
        """Returns one value of the declared type for each row. A batch without rows does not reach the function."""
        if rows == 0:
            return pa.array([], self.type)
        try:
            if self.arguments is Arguments.PANDAS:
                return self._from_pandas(self.function(*map(_as_series, columns)), rows)
            return self._checked(self.function(*columns), rows)
        except StrettoError:
            raise
        except Exception as error:
            raise FunctionError(
                f"function '{self.name}' in an expression raised {error_text(error)}", traceback_of(error).rstrip()
            ) from None

    def _from_pandas(self, result: Any, rows: int) -> pa.Array:
        if type(result).__module__.partition(".")[0] != "pandas":
            raise self._wrong(f"returned {type(result).__name__}, not a pandas Series")
        try:
            return self._checked(pa.Array.from_pandas(result, type=self.type), rows)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise self._wrong(f"returned a Series that is not {self._declared}: {message_of(error)}") from None

    def _checked(self, result: Any, rows: int) -> pa.Array:
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        if not isinstance(result, pa.Array):
            raise self._wrong(f"returned {type(result).__name__}, not a pyarrow Array")
        if len(result) != rows:
            raise self._wrong(f"returned {len(result)} values for {rows} rows")
        if result.type == self.type:
            return result
        if result.type != types.NULL and types.canonical(result.type) != self.type:
            raise self._wrong(f"is declared {self._declared} and returned {result.type}")
        return result.cast(self.type)

    @property
    def _declared(self) -> str:
        return types.spark_type_name(self.type)

    def _wrong(self, what: str) -> FunctionError:
        return FunctionError(
            f"function '{self.name}' in an expression {what}",
            None,
            "Return one value of the declared type for each row, or declare another type.",
        )

    def call(self, arguments: Sequence[Node], site: Site) -> Node:
        """Returns the call of this function in an expression."""
        self._check_count(len(arguments), site)
        parts = [(node.run, node.type) for node in arguments]
        columns = frozenset[str]().union(*(node.columns for node in arguments))

        def run(batch: pa.RecordBatch) -> Value:
            rows = batch.num_rows
            given = [vectors.to_arrow(part(batch), kind, rows) for part, kind in parts]
            return vectors.from_arrow(self.evaluate(given, rows), self.type)

        def run_once(batch: pa.RecordBatch) -> Value:
            given = [vectors.to_arrow(part(batch), kind, 1) for part, kind in parts]
            return vectors.from_arrow(self.evaluate(given, 1)[0], self.type)

        fractional = types.is_fractional(self.type) or any(node.fractional for node in arguments)
        return Node(
            self.type, run if columns else run_once, site, columns, fallible=True, literal=False, fractional=fractional
        )

    def _check_count(self, count: int, site: Site) -> None:
        signature = inspect.signature(self.function)
        try:
            if count == 0:
                raise TypeError("no argument")
            signature.bind(*range(count))
        except TypeError as error:
            names = str(signature.replace(parameters=[_bare(p) for p in signature.parameters.values()]))
            wanted = names.partition(" ->")[0]
            raise site.error(f"{self.name} takes {wanted}", str(error), "pass columns or expressions") from None


def declared(function: Callable[..., Any], returns: str | pa.DataType, name: str | None, arguments: Arguments) -> Udf:
    """Returns a user's function with its name and its type."""
    if not callable(function):
        raise ExpressionError("a udf is a Python function", f"got {type(function).__name__}", '@udf("double")')
    called = str(getattr(function, "__name__", "")) if name is None else name
    if not _NAME.fullmatch(called):
        raise ExpressionError(
            f"a function in an expression cannot be named {called!r}", None, 'name it: udf("double", name="euros")'
        )
    kind = parse_schema(f"value {returns}").field(0).type if isinstance(returns, str) else types.canonical(returns)
    return Udf(called, function, kind, arguments)


_known: ContextVar[Mapping[str, Udf]] = ContextVar("stretto_udfs", default={})  # noqa: B039 it is never changed


@contextmanager
def knowing(udfs: Mapping[str, Udf]) -> Iterator[None]:
    """Makes functions known to what is compiled in a block, by their names in lower case."""
    token = _known.set(udfs)
    try:
        yield
    finally:
        _known.reset(token)


def known_udfs() -> Mapping[str, Udf]:
    """Returns the functions that are known here."""
    return _known.get()


def _as_series(column: pa.Array) -> Any:
    """Returns a column as pandas_udf has it: times without a zone, in UTC."""
    if column.type == types.TIMESTAMP:
        column = column.cast(pa.timestamp("us"))
    return column.to_pandas()


def _bare(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(annotation=inspect.Parameter.empty)
