"""stretto's answer for an expression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stretto.bench.fuzz.answers import Answer, Answered, Failure, Refused
from stretto.bench.fuzz.plain import plain_values
from stretto.errors import ExpressionError
from stretto.expressions import Scalar, compile_scalar, spark_type_name


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The answer of an expression that fails for a batch of rows, at rows that are still to be found."""

    scalar: Scalar
    rows: pa.RecordBatch
    kind: str
    failure: Failure
    on_nothing: Failure | None

    def finished(self, failing: Sequence[bool]) -> Answered:
        """Returns the answer for every row. Rows that are expected to fail are evaluated one by one, and the others
        together, or one by one if they fail."""
        found: dict[int, list[Any] | Failure] = {}
        fine = [place for place, fails in enumerate(failing) if not fails]
        values = _evaluated(self.scalar, self.rows.take(pa.array(fine))) if 0 < len(fine) < len(failing) else None
        if isinstance(values, list):
            found = {place: [value] for place, value in zip(fine, values, strict=True)}
        rest = [place for place in range(len(failing)) if place not in found]
        found |= zip(rest, _one_by_one(self.scalar, self.rows.take(pa.array(rest))), strict=True)
        # If every row is fine, the batch as a whole is at fault.
        together = not any(isinstance(each, Failure) for each in found.values())
        rows = [self.failure if together else _only(found[place]) for place in range(len(failing))]
        return Answered(self.kind, rows, self.on_nothing)


def answer(text: str, rows: pa.RecordBatch) -> Answer:
    """Returns the answer for every row; rows are evaluated one by one only if they fail together."""
    first = begun(text, rows)
    return first.finished([True] * rows.num_rows) if isinstance(first, Unfinished) else first


def begun(text: str, rows: pa.RecordBatch) -> Answer | Unfinished:
    """Returns the answer for every row, to be finished if they fail together."""
    try:
        scalar = compile_scalar(text, rows.schema)
        kind = spark_type_name(scalar.type)
    except ExpressionError as error:
        return Refused(error.fact)
    except Exception as error:
        return Refused(_described(error), crash=True)
    values = _evaluated(scalar, rows)
    evaluated = _evaluated(scalar, rows.slice(0, 0))
    nothing = evaluated if isinstance(evaluated, Failure) else None
    if isinstance(values, Failure):
        return Unfinished(scalar, rows, kind, values, nothing)
    return Answered(kind, values, nothing)


def kind(text: str, schema: pa.Schema) -> str | None:
    """Returns the type of an expression, or None if it is refused."""
    try:
        return spark_type_name(compile_scalar(text, schema).type)
    except Exception:  # Whatever is raised here is found when the vocabulary is explored.
        return None


def _one_by_one(scalar: Scalar, rows: pa.RecordBatch) -> list[list[Any] | Failure]:
    """Returns what is found for each row alone; rows that are the same to the expression are evaluated once."""
    read = rows.select(sorted(scalar.columns) or rows.schema.names[:1])
    alike = [repr(row) for row in zip(*(plain_values(rows.column(name)) for name in scalar.columns), strict=True)]
    found: dict[str, list[Any] | Failure] = {}
    for place, row in enumerate(alike or [""] * rows.num_rows):
        if row not in found:
            found[row] = _evaluated(scalar, read.slice(place, 1))
    return [found[row] for row in alike or [""] * rows.num_rows]


def _only(values: list[Any] | Failure) -> Any:
    return values if isinstance(values, Failure) else values[0]


def _evaluated(scalar: Scalar, rows: pa.RecordBatch) -> list[Any] | Failure:
    try:
        result = scalar.evaluate(rows)
        result.validate()
        if len(result) != rows.num_rows or result.type != scalar.type:
            return Failure(
                f"{len(result)} values of {result.type} for {rows.num_rows} rows of {scalar.type}", crash=True
            )
        return plain_values(result)
    except ExpressionError as error:
        return Failure(error.fact)
    except Exception as error:  # Anything else that is raised would end a job: a finding.
        return Failure(_described(error), crash=True)


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
