"""`= <> < <= > >= <=> IN BETWEEN`, null tests and LIKE, with Spark's rules for the types of both sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stretto.expressions import decimals, types
from stretto.expressions.casts import cast
from stretto.expressions.nodes import (
    Node,
    Site,
    arrayed,
    combine,
    constant,
    elementwise,
    kernel,
    known,
    null,
)
from stretto.expressions.ranks import ranks_together
from stretto.expressions.vectors import Value, is_null

_UFUNCS: dict[str, Callable[..., Any]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_KERNELS = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}

#: From this number of choices on, a set is faster than comparing with each.
_MANY_CHOICES = 4


def compare(operator: str, left: Node, right: Node, site: Site) -> Node:
    """Returns `left operator right` for the six comparison operators."""
    if _both_decimal_like(left.type, right.type):
        decided = beyond_bigints(operator, left, right)
        if decided is not None:
            return constant(types.BOOLEAN, (np.bool_(decided), None), site)
        return _compare_decimals(operator, left, right, site)
    if types.is_nested(left.type) and types.is_nested(right.type):
        return _compare_nested(operator, left, right, site)
    left, right = promoted((left, right), site)
    kind = left.type
    if kind in (types.STRING, types.BINARY):
        return kernel(types.BOOLEAN, _KERNELS[operator], site, (left, right))
    if types.is_nested(kind):  # One side is NULL.
        if not types.is_orderable(kind):
            raise not_orderable(kind, site)
        return null(types.BOOLEAN, site)
    apply = _nan_aware(operator, right) if types.is_fractional(kind) else _UFUNCS[operator]
    return elementwise(types.BOOLEAN, apply, site, (left, right))


def not_orderable(kind: pa.DataType, site: Site) -> Exception:
    return site.error(f"cannot compare {types.spark_type_name(kind)}", None, "compare what is inside of it instead")


def _compare_nested(operator: str, left: Node, right: Node, site: Site) -> Node:
    """Returns a comparison of arrays or structs from left to right; a null inside is below every value, and equals a
    null."""
    if not types.same_structure(left.type, right.type):
        kind = types.tightest(left.type, right.type)
        if kind is None:
            raise site.mismatch(left.type, right.type)
        left, right = cast(left, kind, site), cast(right, kind, site)
    for side in (left, right):
        if not types.is_orderable(side.type):
            raise not_orderable(side.type, site)
    ufunc = _UFUNCS[operator]

    def apply(one: pa.Array, other: pa.Array) -> pa.Array:
        # By position, since the names of fields may differ.
        a, b = ranks_together(one, other)
        missing = (a == 0) | (b == 0)
        return pa.array(ufunc(a, b), types.BOOLEAN, mask=missing)

    return arrayed(types.BOOLEAN, apply, site, (left, right))


def _both_decimal_like(left: pa.DataType, right: pa.DataType) -> bool:
    either = types.is_decimal(left) or types.is_decimal(right)
    return either and all(types.is_decimal(kind) or types.is_integral(kind) for kind in (left, right))


def beyond_bigints(operator: str, left: Node, right: Node) -> bool | None:
    """Returns what a comparison of an integer with a literal beyond all bigints is in Spark: the same for a NULL."""
    if operator not in _MIRRORED:
        return None
    if left.literal and types.is_decimal(left.type) and types.is_integral(right.type):
        return beyond_bigints(_MIRRORED[operator], right, left)
    if not (right.literal and types.is_decimal(right.type) and types.is_integral(left.type)):
        return None
    limit = known(right)
    if limit is None or -(2**63) <= limit <= 2**63 - 1:
        return None
    return bool((limit > 0) == (operator in ("<", "<=")))


def _compare_decimals(operator: str, left: Node, right: Node, site: Site) -> Node:
    """Returns a comparison at a common scale: the larger one, unless both sides need more than 38 digits then."""
    one, other = decimals.operand_type(left), decimals.operand_type(right)
    s1, s2, ufunc = one.scale, other.scale, _UFUNCS[operator]
    kept = types.wider_decimal(one, other).scale
    t1, t2 = min(s1, kept), min(s2, kept)

    def apply(a: Any, b: Any) -> Any:
        a, b = _wide_enough(a), _wide_enough(b)
        if t1 < s1 or t2 < s2:  # Spark rounds the fraction away, so that the whole part fits.
            a, b = decimals.rescale(a, s1, t1), decimals.rescale(b, s2, t2)
        a, b = decimals.align(a, b, t1, t2)
        return np.asarray(ufunc(a, b), np.bool_)[()]

    return elementwise(types.BOOLEAN, apply, site, (left, right))


def _wide_enough(values: Any) -> Any:
    return values.astype(np.int64) if getattr(values, "dtype", None) in (np.int8, np.int16, np.int32) else values


def _met(kind: pa.DataType, other: pa.DataType, strings: bool) -> pa.DataType | None:
    """Returns the common type of what came before and the next: from the left, as in Spark."""
    if strings and kind == types.STRING:
        return types.beside_string(other)
    if strings and other == types.STRING:
        return types.beside_string(kind)
    return types.wider(kind, other, strings)


def promoted(nodes: Sequence[Node], site: Site, strings: bool = True) -> list[Node]:
    """Returns the nodes cast to their common type; `strings` says whether a string becomes what is beside it."""
    kind: Any = types.NULL
    for node in nodes:
        met = _met(kind, node.type, strings)
        if met is None:
            raise site.mismatch(*((kind, node.type) if nodes[0].type == kind else (node.type, kind)))
        kind = met
    return [cast(node, kind, site) for node in nodes]


def comparable(nodes: Sequence[Node], site: Site) -> list[Node]:
    """Returns the nodes as types that can be compared: as they are if only names of fields differ, else promoted."""
    if types.is_nested(nodes[0].type) and all(types.same_structure(nodes[0].type, node.type) for node in nodes):
        return list(nodes)
    return promoted(nodes, site)


def _nan_aware(operator: str, right: Node) -> Callable[..., Any]:
    """Returns a comparison where NaN is above every number and equals itself, as in Spark but not in numpy."""
    ufunc, isnan = _UFUNCS[operator], np.isnan
    if not (right.columns or right.fallible) and right.constant[1] is None and not isnan(right.constant[0]):
        # With an ordinary constant on the right only > and >= differ: a NaN on the left is greater.
        return (lambda a, b: ufunc(a, b) | isnan(a)) if operator in (">", ">=") else ufunc
    if operator == "=":
        return lambda a, b: (a == b) | (isnan(a) & isnan(b))
    if operator == "<>":
        return lambda a, b: (a != b) & ~(isnan(a) & isnan(b))
    if operator == "<":
        return lambda a, b: (a < b) | (isnan(b) & ~isnan(a))
    if operator == "<=":
        return lambda a, b: (a <= b) | isnan(b)
    if operator == ">":
        return lambda a, b: (a > b) | (isnan(a) & ~isnan(b))
    return lambda a, b: (a >= b) | isnan(a)


def null_safe_equal(left: Node, right: Node, site: Site) -> Node:
    """Returns `left <=> right`: true if both are null, and never null."""
    left, right = without_untyped(left, right)
    equal = compare("=", left, right, site)
    if types.NULL in (left.type, right.type):
        return _both_null(left, right, site)
    first, second, same = left.run, right.run, equal.run

    def run(batch: pa.RecordBatch) -> Value:
        values, valid = same(batch)
        if valid is None:
            return values, None
        both = is_null(first(batch), left.type) & is_null(second(batch), right.type)
        return (values & valid) | both, None

    return combine(types.BOOLEAN, run, site, (left, right, equal))


def without_untyped(left: Node, right: Node) -> tuple[Node, Node]:
    """Returns both sides; beside a string Spark puts a NULL in place of a side without a type, which may fail."""
    if {left.type, right.type} != {types.STRING, types.NULL}:
        return left, right
    if left.type == types.NULL:
        return null(types.STRING, left.site), right
    return left, null(types.STRING, right.site)


def _both_null(left: Node, right: Node, site: Site) -> Node:
    """Returns `left <=> right` if one of them has no type, and so no value; it may fail, as raise_error does."""
    runs = [(side.run, side.type) for side in (left, right)]

    def run(batch: pa.RecordBatch) -> Value:
        first, second = (is_null(side(batch), kind) for side, kind in runs)
        return first & second, None

    return combine(types.BOOLEAN, run, site, (left, right))


def null_test(node: Node, site: Site) -> Node:
    """Returns `x IS NULL`."""
    inner, kind = node.run, node.type
    return combine(types.BOOLEAN, lambda batch: (is_null(inner(batch), kind), None), site, (node,))


def among(nodes: Sequence[Node], site: Site) -> list[Node]:
    """Returns a value and those that IN lists, as they are compared one by one: in the common type of all of them.

    Decimals are compared as they are, which is faster, unless their common type has fewer digits after the point."""
    kinds = [node.type for node in nodes if node.type != types.NULL]
    if types.STRING in kinds or not any(map(types.is_decimal, kinds)):
        return comparable(nodes, site)
    common = promoted(nodes, site)
    kind: Any = common[0].type
    exact = types.is_decimal(kind) and kind.scale == max(types.as_decimal(each).scale for each in kinds)
    return list(nodes) if exact else common


def is_in(node: Node, choices: Sequence[Node], site: Site) -> Node:
    """Returns `x IN (...)`: true on a match, else null if x or a choice is null, else false."""
    if not choices:
        raise site.error("an empty IN list", None, "list at least one value")
    known = [choice for choice in choices if choice.type != types.NULL]
    has_null = len(known) < len(choices)
    if node.type == types.NULL or not known:
        promoted((node, *choices), site)  # They must have a common type, still.
        return null(types.BOOLEAN, site)
    node, *known = among((node, *known), site)
    if node.type == types.STRING and not any(choice.columns or choice.fallible for choice in known):
        return _among_strings(node, known, has_null, site)
    if len(known) > _MANY_CHOICES and _can_be_a_set(node.type, known):
        return _among_numbers(node, known, has_null, site)
    equals = [compare("=", node, choice, site) for choice in known]
    runs = [equal.run for equal in equals]

    def run(batch: pa.RecordBatch) -> Value:
        found, valid = runs[0](batch)
        for other in runs[1:]:
            values, other_valid = other(batch)
            if valid is None and other_valid is None:
                found = found | values
                continue
            hit = _true(found, valid) | _true(values, other_valid)
            valid = hit | (_known(valid) & _known(other_valid))
            found = hit
        if has_null:
            found = _true(found, valid)
            valid = found
        return found, valid

    return combine(types.BOOLEAN, run, site, equals)


def _true(values: Any, valid: Any) -> Any:
    return values if valid is None else values & valid


def _known(valid: Any) -> Any:
    return np.True_ if valid is None else valid


def _among_strings(node: Node, choices: Sequence[Node], has_null: bool, site: Site) -> Node:
    values = [choice.constant[0].as_py() for choice in choices]
    has_null = has_null or None in values
    wanted = pa.array([value for value in values if value is not None], types.STRING)
    inner = node.run

    def run(batch: pa.RecordBatch) -> Value:
        strings = inner(batch)
        operand = strings[0] if not isinstance(strings[0], pa.Scalar) else pa.array([strings[0]], types.STRING)
        found = pc.is_in(operand, value_set=wanted).to_numpy(zero_copy_only=False)
        if isinstance(strings[0], pa.Scalar):
            found = found[0]
        missing = is_null(strings, types.STRING)
        if has_null:
            return found, found
        return found, (~missing if np.any(missing) else None)

    return combine(types.BOOLEAN, run, site, (node,))


def _can_be_a_set(kind: pa.DataType, choices: Sequence[Node]) -> bool:
    exact = types.is_integral(kind) or types.is_temporal(kind)
    return exact and all(
        choice.type == kind and not (choice.columns or choice.fallible) and choice.constant[1] is None
        for choice in choices
    )


def _among_numbers(node: Node, choices: Sequence[Node], has_null: bool, site: Site) -> Node:
    wanted, inner = np.array([choice.constant[0] for choice in choices]), node.run

    def run(batch: pa.RecordBatch) -> Value:
        values, valid = inner(batch)
        found = np.isin(values, wanted)[()]
        if not has_null:
            return found, valid
        hits = _true(found, valid)
        return hits, hits

    return combine(types.BOOLEAN, run, site, (node,))
