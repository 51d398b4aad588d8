"""Typed expressions, ready to run, which the binder builds from sqlglot's tree, bottom up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from stretto.errors import ExpressionError
from stretto.expressions import types, vectors
from stretto.expressions.parse import span_of
from stretto.expressions.vectors import Value

Run = Callable[[pa.RecordBatch], Value]
_NO_ROWS = pa.record_batch([], schema=pa.schema([]))


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the user's text, so that an error can quote it."""

    tree: exp.Expr
    whole: str

    @property
    def part(self) -> str:
        """The text of this place as the user wrote it, found only when an error needs it."""
        first, last = span_of(self.tree) or (0, len(self.whole))
        return self.whole[first : last + 1]

    @property
    def position(self) -> int:
        """The number of the first character of this place in the whole text, from 1."""
        first, _ = span_of(self.tree) or (0, 0)
        return first + 1

    def error(self, fact: str, detail: str | None = None, fix: str | None = None) -> ExpressionError:
        quoted = f"in the expression {self.whole!r}"
        return ExpressionError(f"{fact} in {self.part!r}", f"{detail}, {quoted}" if detail else quoted, fix)

    def mismatch(self, left: pa.DataType, right: pa.DataType) -> ExpressionError:
        names = f"{types.spark_type_name(left)} and {types.spark_type_name(right)}"
        return self.error(
            "types do not match", f"{names} have no common type here", "CAST one side to the other's type"
        )

    def wrong_type(self, wanted: str, got: pa.DataType) -> ExpressionError:
        return self.error(f"wrong type {types.spark_type_name(got)}", f"expected {wanted}", "CAST it first")


class Folds(IntEnum):
    """When Spark sees that an expression which reads no column is a constant."""

    NEVER = 0
    OPTIMIZED = 1
    """After the types of arguments were checked, so it is none where a constant is asked for."""
    ANALYSED = 2


@dataclass(frozen=True, slots=True)
class Node:
    """A typed expression. `run` takes a batch and returns a value of `type`.

    `literal` matters to Spark's decimal rules: in an operation with a decimal the literal 5 is decimal(1,0), and
    a folded 2 + 3 is not.
    `fallible` is true if running may raise, so a CASE runs it only on the rows that reach it.
    `fields` are the first and the last field of an interval's type, if they are known (`intervals.py`).
    `nulled` is true if Spark knows that it is NULL before it evaluates anything (`folding.py`).
    """

    type: pa.DataType
    run: Run
    site: Site
    columns: frozenset[str] = frozenset()
    fallible: bool = False
    literal: bool = False
    fractional: bool = False
    fields: tuple[str, str] | None = None
    nulled: bool = False
    folds: Folds = Folds.ANALYSED

    @property
    def folded(self) -> bool:
        """Whether Spark makes a constant of it, if it does not fail."""
        return not self.columns and self.folds is not Folds.NEVER

    @property
    def constant(self) -> Value:
        """The value of an expression that reads no column."""
        return self.run(_NO_ROWS)


def constant(kind: pa.DataType, value: Value, site: Site, literal: bool = False) -> Node:
    return Node(kind, lambda batch: value, site, literal=literal)


def integer(value: int, site: Site) -> Node:
    """Returns a constant int, such as the default of an argument."""
    return constant(types.INT, (np.int32(value), None), site)


def text_constant(value: str, site: Site) -> Node:
    """Returns a constant string, such as the default of an argument."""
    return constant(types.STRING, (pa.scalar(value, types.STRING), None), site)


def null(kind: pa.DataType, site: Site) -> Node:
    return replace(constant(kind, vectors.null_of(kind), site), nulled=True)


def combine(kind: pa.DataType, run: Run, site: Site, parts: Sequence[Node], fallible: bool = False) -> Node:
    """Returns a node over `parts`; one that reads no column is run once, here."""
    node = Node(
        kind,
        run,
        site,
        frozenset().union(*(part.columns for part in parts)),
        fallible or any(part.fallible for part in parts),
        False,
        types.has_fractions(kind) or any(part.fractional or types.has_fractions(part.type) for part in parts),
        folds=min((part.folds for part in parts), default=Folds.ANALYSED),
    )
    if node.columns or not parts:
        return node
    try:
        with np.errstate(all="ignore"):
            value = node.constant
    except ExpressionError:
        # It fails on every row; it must raise only when a row reaches it, as in Spark.
        return replace(node, fallible=True)
    return replace(constant(kind, value, site), fractional=node.fractional, folds=node.folds)


def elementwise(kind: pa.DataType, apply: Callable[..., Any], site: Site, parts: Sequence[Node]) -> Node:
    """Returns a numpy function of the values, which cannot fail and is null where any part is null."""
    if len(parts) == 1:
        only = parts[0].run

        def run_one(batch: pa.RecordBatch) -> Value:
            values, valid = only(batch)
            return apply(values), valid

        return combine(kind, run_one, site, parts)
    if len(parts) == 2:
        first, second = parts[0].run, parts[1].run

        def run_two(batch: pa.RecordBatch) -> Value:
            left, left_valid = first(batch)
            right, right_valid = second(batch)
            return apply(left, right), vectors.both_valid(left_valid, right_valid)

        return combine(kind, run_two, site, parts)
    raise ValueError("elementwise takes one or two parts")


def computed(
    kind: pa.DataType, apply: Callable[..., Value], site: Site, parts: Sequence[Node], fallible: bool = True
) -> Node:
    """Returns a function of the parts' common validity and their values, which returns values and their validity.

    For strings, which have their own nulls, take `kernel`."""
    runs = [part.run for part in parts]

    def run(batch: pa.RecordBatch) -> Value:
        valid, values = None, []
        for part in runs:
            one, one_valid = part(batch)
            values.append(one)
            valid = vectors.both_valid(valid, one_valid)
        return apply(valid, *values)

    return combine(kind, run, site, parts, fallible)


def kernel(
    kind: pa.DataType, apply: Callable[..., Any], site: Site, parts: Sequence[Node], fallible: bool = False
) -> Node:
    """Returns an Arrow kernel over the parts; the kernel handles nulls."""
    runs = [(part.run, part.type) for part in parts]

    def run(batch: pa.RecordBatch) -> Value:
        result = apply(*(vectors.arrow_operand(part(batch), part_type) for part, part_type in runs))
        return vectors.from_arrow(result, kind)

    return combine(kind, run, site, parts, fallible)


def arrayed(
    kind: pa.DataType, apply: Callable[..., Any], site: Site, parts: Sequence[Node], fallible: bool = False
) -> Node:
    """Returns a function of whole Arrow arrays, in which a constant is repeated for each row."""
    runs = [(part.run, part.type) for part in parts]

    def run(batch: pa.RecordBatch) -> Value:
        values = [(part(batch), part_type) for part, part_type in runs]
        fixed = all(vectors.is_constant(value, part_type) for value, part_type in values)
        count = 1 if fixed else batch.num_rows
        result = apply(*(vectors.to_arrow(value, part_type, count) for value, part_type in values))
        return vectors.from_arrow(result[0] if fixed else result, kind)

    return combine(kind, run, site, parts, fallible)


def slot(kind: pa.DataType, name: str, site: Site) -> Node:
    """Returns a node that reads a value of a canonical type, which was computed already, from the batch."""
    read = vectors.reader(kind)
    return Node(
        kind, lambda batch: read(batch.column(name)), site, frozenset((name,)), fractional=types.has_fractions(kind)
    )


def constant_argument(node: Node, wanted: pa.DataType, what: str, folds: Folds = Folds.ANALYSED) -> Any:
    """Returns the Python value of an argument that must be constant; Spark must see that as early as this."""
    if node.columns or node.folds < folds or node.type not in (wanted, types.NULL):
        raise node.site.error(f"{what} must be a constant {types.spark_type_name(wanted)}")
    return vectors.arrow_operand(node.constant, node.type).as_py()


def known(node: Node) -> Any:
    """Returns the Python value of a constant; None of a null, of a column, and of a constant that fails."""
    if node.columns or node.fallible:
        return None
    return vectors.arrow_operand(node.constant, node.type).as_py()


def selected(node: Node) -> Callable[[pa.RecordBatch, Any], Value]:
    """Returns a function that runs a node for the rows in a mask; a node that cannot fail runs for all rows."""
    run, kind, names = node.run, node.type, sorted(node.columns)
    if not node.fallible:
        return lambda batch, mask: run(batch)

    def run_selected(batch: pa.RecordBatch, mask: Any) -> Value:
        count = int(np.count_nonzero(mask)) * (batch.num_rows if np.ndim(mask) == 0 else 1)
        if count == 0 and (batch.num_rows or not mask.any()):
            return vectors.null_of(kind)
        if count == batch.num_rows or not names:
            return run(batch)
        return _scattered(run(batch.select(names).filter(pa.array(mask))), kind, mask)

    return run_selected


def _scattered(value: Value, kind: pa.DataType, mask: Any) -> Value:
    values, valid = value
    if types.is_arrow_kept(kind):
        if isinstance(values, pa.Scalar):
            return value
        places = np.cumsum(mask) - 1
        return values.take(pa.array(places, mask=~mask)), None
    if np.ndim(values):
        spread = np.zeros(len(mask), values.dtype)
        spread[mask] = values
        values = spread
    if valid is not None and np.ndim(valid):
        spread_valid = np.zeros(len(mask), np.bool_)
        spread_valid[mask] = valid
        valid = spread_valid
    return values, valid
