"""Which functions Spark evaluates argument by argument, and not further after a null.

Spark gives NULL for `power(NULL, 1 / 0)`: the second argument of a row is evaluated only if the first is not null. Most
functions of several arguments are such; those that take nulls (coalesce, concat_ws, array) are not named here.
"""

from __future__ import annotations

import numpy as np

from stretto.expressions import types
from stretto.expressions.logic import nullif, strict
from stretto.expressions.nodes import Node, Site, constant

IN_ORDER = frozenset(
    (
        "power", "pow", "atan2", "hypot", "log", "shiftleft", "shiftright", "shiftrightunsigned", "getbit", "bit_get",
        "width_bucket", "conv", "try_add", "try_subtract", "try_multiply", "round", "bround", "substring", "substr",
        "instr", "left", "right", "lpad", "rpad", "repeat", "replace", "translate", "split_part",
        "startswith", "endswith", "contains", "levenshtein", "sha2", "substring_index", "regexp_replace",
        "regexp_extract", "regexp_extract_all", "regexp_count", "regexp_instr", "regexp_substr", "split", "find_in_set",
        "encode", "date_add", "date_sub", "dateadd", "datediff", "date_diff", "add_months", "months_between",
        "date_trunc", "trunc", "next_day", "from_utc_timestamp", "to_utc_timestamp", "date_format", "from_unixtime",
        "make_date", "array_contains", "array_position", "array_remove", "arrays_overlap", "map_from_arrays",
    )
)  # fmt: skip
"""Functions whose arguments are evaluated from the first to the last."""

DIVISOR_FIRST = frozenset(("mod", "pmod", "div", "try_mod", "try_divide"))
"""Divisions, of which the divisor is evaluated first."""


def in_sparks_order(name: str, node: Node, arguments: list[Node], site: Site) -> Node:
    """Returns the call of a function that fails for a row only in what Spark evaluates for it."""
    if len(arguments) < 2:
        return node
    if name in IN_ORDER:
        return strict(node, arguments, site, casts=True)
    if name in ("try_mod", "try_divide") and types.is_numeric(arguments[1].type):
        # Where the divisor is zero the result is NULL, whatever the dividend is.
        zero = constant(types.INT, (np.int32(0), None), site, literal=True)
        return strict(node, (nullif(arguments[1], zero, site), arguments[0]), site, casts=True)
    if name in DIVISOR_FIRST:
        return strict(node, arguments[::-1], site, casts=True)
    return node
