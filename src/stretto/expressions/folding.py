"""What Spark knows of a function before it evaluates it: whether it is NULL at once, and whether it is a constant.

Most functions are NULL if an argument is: Spark's optimizer makes them NULL where an argument is a NULL that it sees,
and does not evaluate the others, which might fail. It sees a NULL that is written, such a function of one, and the
value of an expression of constants, unless that is part of a larger one that fails. Functions that take NULLs are
evaluated.
`tests/spark/test_folding.py` compares the tables with Spark's own classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stretto.expressions.nodes import Folds, Node, null
from stretto.expressions.vectors import is_null

TAKES_NULLS = frozenset(
    (
        "array", "array_append", "array_compact", "array_insert", "array_join", "array_prepend", "array_repeat",
        "array_size", "array_sort", "arrays_zip", "assert_true", "bround", "btrim", "cardinality", "coalesce", "concat",
        "concat_ws", "date_trunc", "elt", "equal_null", "format_string", "get_json_object", "greatest", "hash",
        "ifnull", "isnan", "isnotnull", "isnull", "least", "locate", "ltrim", "map", "map_concat", "mask",
        "named_struct", "nanvl", "nullif", "nullifzero", "nvl", "nvl2", "position", "printf", "raise_error", "round",
        "rtrim", "sequence", "size", "struct", "to_unix_timestamp", "trim", "trunc", "typeof", "unix_timestamp",
        "xxhash64", "zeroifnull",
    )
)  # fmt: skip
"""Functions that are not NULL merely because an argument is, or that Spark evaluates though they are."""

_TAKES_NULLS_FROM = {
    "ceil": 2,
    "ceiling": 2,
    "decode": 3,
    "floor": 2,
    "to_date": 2,
    "to_timestamp": 2,
    "to_timestamp_ltz": 2,
    "try_to_date": 2,
    "try_to_timestamp": 2,
}
"""Functions of which only calls with so many arguments take NULLs."""

CHOOSES = frozenset(("coalesce", "decode", "ifnull", "nullif", "nullifzero", "nvl", "nvl2", "typeof", "zeroifnull"))
"""Functions of which Spark leaves out arguments that are not needed."""

OPTIMIZED = frozenset(
    (
        "array_append", "array_compact", "array_prepend", "array_size", "btrim", "current_timezone",
        "date_part", "datepart", "decode", "encode", "equal_null", "ifnull", "ilike", "is_valid_utf8", "left",
        "luhn_check", "make_valid_utf8", "map_contains_key", "nullif", "nullifzero", "nvl", "nvl2", "parse_url",
        "regexp_count", "regexp_substr", "right", "split_part", "to_binary", "to_date", "to_timestamp",
        "to_timestamp_ltz", "try_add", "try_divide", "try_element_at", "try_make_timestamp",
        "try_mod", "try_multiply", "try_parse_url", "try_subtract", "try_to_binary",
        "try_to_date", "try_to_timestamp", "try_url_decode", "try_validate_utf8", "url_decode", "url_encode",
        "validate_utf8", "zeroifnull",
    )
)  # fmt: skip
"""Functions that stand for others, by which Spark replaces them after it has checked the arguments around them."""

NEVER_FOLDED = frozenset(("array_sort", "assert_true", "elt", "map_concat", "raise_error"))
"""Functions that are no constants, whatever their arguments are. Those that take functions are such too."""


def takes_nulls(name: str, arguments: int) -> bool:
    """Whether Spark evaluates a function of a NULL that it sees."""
    return name in TAKES_NULLS or arguments >= _TAKES_NULLS_FROM.get(name, arguments + 1)


def folds_of(name: str) -> Folds:
    """Returns when Spark sees that a function of constants is one."""
    return Folds.NEVER if name in NEVER_FOLDED else Folds.OPTIMIZED if name in OPTIMIZED else Folds.ANALYSED


def as_seen(name: str, node: Node, operands: Sequence[Node]) -> Node:
    """Returns the call of a function with what Spark knows of it before it evaluates it."""
    folds = min(node.folds, folds_of(name), *(operand.folds for operand in operands), Folds.ANALYSED)
    if not takes_nulls(name, len(operands)):
        return replace(of_seen_nulls(node, operands), folds=folds)
    if name in CHOOSES:
        return replace(node, folds=folds)
    # Also a function whose value is known here, such as array_join(a, s, NULL), reads what Spark reads.
    columns = frozenset().union(*(operand.columns for operand in operands))
    return replace(node, folds=folds, columns=node.columns | columns, nulled=False)


def is_null_constant(node: Node) -> bool:
    """Whether a node reads no column and is NULL."""
    return not node.columns and not node.fallible and bool(is_null(node.constant, node.type))


def sees_null(operands: Sequence[Node], others: Sequence[Node] = ()) -> bool:
    """Whether Spark sees that one of the operands of a function is NULL, which may have other arguments too.

    Of constants alone the whole is evaluated, and where that fails no part of it becomes a NULL."""
    if any(operand.nulled for operand in operands):
        return True
    if all(operand.folded for operand in (*operands, *others)):
        return False
    return any(operand.folded and is_null_constant(operand) for operand in operands)


def of_seen_nulls(node: Node, operands: Sequence[Node]) -> Node:
    """Returns a NULL if Spark sees that an operand is one, and otherwise the node, which may be known here alone."""
    if not sees_null(operands):
        return replace(node, nulled=False) if node.nulled else node
    return replace(null(node.type, node.site), fields=node.fields)


def is_plain(node: Node) -> bool:
    """Whether Spark sees at once that this is a constant."""
    return not node.columns and node.folds is Folds.ANALYSED


def later(node: Node) -> Node:
    """Returns a node that Spark takes for a constant only after it has checked the arguments around it."""
    return replace(node, folds=min(node.folds, Folds.OPTIMIZED))
