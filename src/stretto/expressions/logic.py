"""Three-valued AND, OR and NOT, and the conditionals, which evaluate a branch only for the rows that reach it.

A row must not fail in a branch that it does not take: `IF(b = 0, 0, a / b)`. Branches that cannot fail run for all
rows, since that is cheaper than selecting rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stretto.errors import ExpressionError
from stretto.expressions import types
from stretto.expressions.casts import cast
from stretto.expressions.comparisons import (
    among,
    beyond_bigints,
    compare,
    is_in,
    promoted,
    without_untyped,
)
from stretto.expressions.folding import is_null_constant, of_seen_nulls, sees_null
from stretto.expressions.nodes import Node, Site, combine, elementwise, null, selected
from stretto.expressions.vectors import Value, arrow_mask, dtype_of, is_null, is_wide, null_of, widened


def boolean(node: Node, site: Site) -> Node:
    """Returns the node; raises if it is not a boolean."""
    if node.type == types.NULL:
        return cast(node, types.BOOLEAN, node.site)
    if node.type != types.BOOLEAN:
        raise site.error(
            "not a boolean", f"{node.site.part!r} is {types.spark_type_name(node.type)}", "compare it with a value"
        )
    return node


def conjunction(left: Node, right: Node, site: Site) -> Node:
    return _connective(*_truths(left, right, site), site, decisive=False)


def disjunction(left: Node, right: Node, site: Site) -> Node:
    return _connective(*_truths(left, right, site), site, decisive=True)


def _truths(left: Node, right: Node, site: Site) -> tuple[Node, Node]:
    """Returns the operands of AND or OR; a string beside a boolean is cast, as in Spark, and else refused."""
    if left.type == right.type == types.NULL:  # Which may fail, and is not evaluated.
        return null(types.BOOLEAN, left.site), null(types.BOOLEAN, right.site)
    if types.BOOLEAN not in (left.type, right.type):
        return boolean(left, site), boolean(right, site)
    return _truth(left, site), _truth(right, site)


def _truth(node: Node, site: Site) -> Node:
    return cast(node, types.BOOLEAN, site) if node.type == types.STRING else boolean(node, site)


def _connective(left: Node, right: Node, site: Site, decisive: bool, leaves_out: bool = True) -> Node:
    """Returns AND (`decisive` false) or OR (true): a decisive value decides, even if the other is null.

    `leaves_out` says that the left one is not evaluated if a constant on the right decides."""
    deciding = leaves_out and not right.columns and not right.fallible and _settles(right.constant, decisive)
    if deciding and (left.columns or right.literal or not left.fallible):
        # It decides alone, so Spark does not evaluate the other, which may fail. Two constants are evaluated in order.
        return right
    first, second, fallible = left.run, selected(right), right.fallible
    apply = np.logical_or if decisive else np.logical_and

    def run(batch: pa.RecordBatch) -> Value:
        a, a_valid = first(batch)
        open_rows: Any = True
        if fallible:
            settled = a if decisive else ~a
            open_rows = ~(settled if a_valid is None else settled & a_valid)
        b, b_valid = second(batch, open_rows)
        if a_valid is None and b_valid is None:
            return apply(a, b), None
        a_settles = a == decisive if a_valid is None else (a == decisive) & a_valid
        b_settles = b == decisive if b_valid is None else (b == decisive) & b_valid
        settled = a_settles | b_settles
        known = (True if a_valid is None else a_valid) & (True if b_valid is None else b_valid)
        return (settled if decisive else ~settled), settled | known

    return combine(types.BOOLEAN, run, site, (left, right))


def _settles(value: Value, decisive: bool) -> bool:
    values, valid = value
    return bool(values == decisive) and (valid is None or bool(valid))


def strict(node: Node, operands: Sequence[Node], site: Site, casts: bool = False, folds: bool = True) -> Node:
    """Returns an operator's node that is null where an operand is, and fails only where Spark evaluates it.

    Spark evaluates the operands in their order, and for a row not the rest after a null. Rows with nulls are rare among
    those that fail, so it is only after a failure that the other rows are selected and run. `casts` says that the node
    casts its operands itself, which may fail too. `folds` says that Spark makes it NULL at once if it sees that an
    operand is NULL (`folding.py`).
    """
    if folds and sees_null(operands):
        return null(node.type, site)
    node = replace(node, nulled=False) if node.nulled else node
    nulls = [place for place, operand in enumerate(operands) if is_null_constant(operand)]
    if nulls:
        found = _null_after(operands[: nulls[0]], node.type, site)
        return replace(found, columns=node.columns.union(*(operand.columns for operand in operands)))
    untyped = [place for place, operand in enumerate(operands) if operand.type == types.NULL and operand.fallible]
    if untyped:  # assert_true is NULL wherever it does not fail.
        return _null_after(operands[: untyped[0] + 1], node.type, site)
    if not (node.fallible if casts else any(operand.fallible for operand in operands[1:])):
        return node
    run, kind, reached = node.run, node.type, selected(node)

    def run_where_reached(batch: pa.RecordBatch) -> Value:
        try:
            return run(batch)
        except ExpressionError:
            rows = _not_null(operands, batch)
            if np.all(rows):
                raise
        return choose(rows, reached(batch, rows), null_of(kind), kind)

    return replace(node, run=run_where_reached)


def _null_after(operands: Sequence[Node], kind: pa.DataType, site: Site) -> Node:
    """Returns NULL, which fails where one of the operands does that are evaluated before."""

    if not any(operand.fallible for operand in operands):
        return replace(null(kind, site), nulled=False)

    def run(batch: pa.RecordBatch) -> Value:
        _not_null(operands, batch)
        return null_of(kind)

    return combine(kind, run, site, operands)


def after_all(node: Node, operands: Sequence[Node], site: Site) -> Node:
    """Returns a node that fails wherever one of its operands does, also where another one is null."""
    runs = [operand.run for operand in operands if operand.fallible]
    if not runs:
        return node
    inner = node.run

    def run(batch: pa.RecordBatch) -> Value:
        for each in runs:
            each(batch)
        return inner(batch)

    return combine(node.type, run, site, operands, fallible=node.fallible)


def _not_null(operands: Sequence[Node], batch: pa.RecordBatch) -> Any:
    """Returns the rows on which no operand is null; each operand is evaluated where those before it are not null."""
    rows: Any = np.ones(batch.num_rows, np.bool_) if batch.num_rows else np.True_  # A constant has no rows.
    for operand in operands:
        rows = rows & ~is_null(selected(operand)(batch, rows), operand.type)
    return rows


def compared(operator: str, left: Node, right: Node, site: Site) -> Node:
    """Returns a comparison that fails only where Spark evaluates it."""
    if types.STRING in (left.type, right.type):
        left, right = promoted(without_untyped(left, right), site)
    elif types.is_temporal(left.type) and types.is_temporal(right.type):
        left, right = promoted((left, right), site)  # A date may be too far away for a timestamp.
    found = compare(operator, left, right, site)
    return found if beyond_bigints(operator, left, right) is not None else strict(found, (left, right), site)


def member(node: Node, choices: Sequence[Node], site: Site) -> Node:
    """Returns `x IN (...)`; Spark evaluates the choices in their order until one is equal."""
    found = is_in(node, choices, site)
    if sees_null((node,), choices):
        return null(types.BOOLEAN, site)
    value, *others = among((node, *choices), site)
    if any(each.type == types.NULL and each.fallible for each in (node, *choices)):
        return _in_order(value, others, site)  # Such as raise_error, which is evaluated though it has no value.
    if not any(other.fallible for other in others):
        return found
    run, run_in_order = found.run, _in_order(value, others, site).run

    def run_until_equal(batch: pa.RecordBatch) -> Value:
        try:
            return run(batch)
        except ExpressionError:
            return run_in_order(batch)

    return replace(found, run=run_until_equal, fallible=True)


def _in_order(node: Node, choices: Sequence[Node], site: Site) -> Node:
    """Returns `x = a OR x = b`, which has the same values and does not evaluate b where x equals a."""
    found = compared("=", node, choices[0], site)
    for choice in choices[1:]:
        found = _connective(found, compared("=", node, choice, site), site, decisive=True, leaves_out=False)
    return found


def negation(node: Node, site: Site) -> Node:
    truth = _truth(node, site)
    found = of_seen_nulls(elementwise(types.BOOLEAN, np.logical_not, site, (truth,)), (truth,))
    return replace(found, literal=truth.literal)  # NOT true is a literal of Spark's, as 1 = 2 is not.


def case(branches: Sequence[tuple[Node, Node]], default: Node | None, site: Site) -> Node:
    """Returns `CASE WHEN ... THEN ... ELSE ... END`; the branches are cast to their common type."""
    conditions = [boolean(condition, site) for condition, _ in branches]
    otherwise = default if default is not None else null(types.NULL, site)
    results = promoted([result for _, result in branches] + [otherwise], site)
    kind = results[0].type
    conditions, results = _reachable(conditions, results)
    if not conditions:
        return replace(results[0], literal=False, fields=None)  # An interval has the fields of all results.
    if all(sees_null((result,), (*conditions, *results)) for result in results):
        return null(kind, site)
    tests = [selected(condition) for condition in conditions]
    outcomes = [selected(result) for result in results]

    def run(batch: pa.RecordBatch) -> Value:
        waiting: Any = np.True_
        masks, values = [], []
        for test, outcome in zip(tests, outcomes, strict=False):
            holds, valid = test(batch, waiting)
            taken = waiting & (holds if valid is None else holds & valid)
            masks.append(taken)
            values.append(outcome(batch, taken))
            waiting = waiting & ~taken
        merged = outcomes[-1](batch, waiting)
        for mask, value in zip(reversed(masks), reversed(values), strict=True):
            merged = choose(mask, value, merged, kind)
        return merged

    return combine(kind, run, site, [*conditions, *results])


def _reachable(conditions: Sequence[Node], results: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """Returns the branches of a CASE that Spark leaves, of which the conditions of others are constants."""
    if all(node.folded for node in (*conditions, *results)):
        return list(conditions), list(results)
    left: list[tuple[Node, Node]] = []
    for condition, result in zip(conditions, results, strict=False):
        if not condition.folded or condition.fallible:
            left.append((condition, result))
        elif _settles(condition.constant, True):
            return [each for each, _ in left], [*(each for _, each in left), result]
    return [each for each, _ in left], [*(each for _, each in left), results[-1]]


def choose(mask: Any, chosen: Value, other: Value, kind: pa.DataType) -> Value:
    """Returns `chosen` where the mask is true, else `other`."""
    if np.ndim(mask) == 0:
        return chosen if mask else other
    if types.is_arrow_kept(kind):
        return pc.if_else(arrow_mask(mask), chosen[0], other[0]), None
    if kind == types.NULL:
        return null_of(kind)
    a, b = chosen[0], other[0]
    if is_wide(a) or is_wide(b):
        # As arrays, because numpy makes an int64 of two Python integers that do not fit one.
        a, b = np.asarray(widened(a), object), np.asarray(widened(b), object)
    values: Any = np.where(mask, a, b)
    if not is_wide(values) and values.dtype != dtype_of(kind):
        values = values.astype(dtype_of(kind))
    if chosen[1] is None and other[1] is None:
        return values, None
    return values, np.where(mask, True if chosen[1] is None else chosen[1], True if other[1] is None else other[1])


def coalesce(nodes: Sequence[Node], site: Site) -> Node:
    """Returns the first node that is not null; later ones run only for the rows that are still null."""
    nodes = promoted(nodes, site)
    kind = nodes[0].type
    if all(node.nulled for node in nodes):
        return null(kind, site)
    first, rest = nodes[0].run, [selected(node) for node in nodes[1:]]

    def run(batch: pa.RecordBatch) -> Value:
        merged = first(batch)
        for later in rest:
            missing = is_null(merged, kind)
            if not np.any(missing):
                break
            merged = choose(missing, later(batch, missing), merged, kind)
        return merged

    return combine(kind, run, site, nodes)


def nullif(left: Node, right: Node, site: Site) -> Node:
    """Returns `left`, but null where both are equal."""
    equal = compared("=", left, right, site)
    return case([(equal, null(left.type, site))], left, site)


def extreme(nodes: Sequence[Node], largest: bool, site: Site) -> Node:
    """Returns `greatest` or `least`, which ignore nulls."""
    nodes = promoted(nodes, site, strings=False)
    kind = nodes[0].type
    best = nodes[0]
    for node in nodes[1:]:
        best = _better(best, cast(node, kind, site), largest, site)
    return best


def _better(left: Node, right: Node, largest: bool, site: Site) -> Node:
    wins = compare(">=" if largest else "<=", left, right, site)
    first, second, test, kind = left.run, right.run, wins.run, left.type

    def run(batch: pa.RecordBatch) -> Value:
        a, b = first(batch), second(batch)
        holds, valid = test(batch)
        take_left = (holds if valid is None else holds & valid) | is_null(b, kind)
        return choose(take_left & ~is_null(a, kind), a, b, kind)

    return combine(kind, run, site, (left, right, wins))
