"""Which functions Spark evaluates argument by argument, and not further after a null.

Spark gives NULL for `power(NULL, 1 / 0)`: the second argument of a row is evaluated only if the first is not null. Most
functions of several arguments are such; those that take nulls (coalesce, concat_ws, array) are not named here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.types as pat

from stretto.expressions import types
from stretto.expressions.date_arithmetic import UNIT_FIRST
from stretto.expressions.folding import takes_nulls
from stretto.expressions.logic import after_all, nullif, strict
from stretto.expressions.nodes import Node, Site, constant, known, null

IN_ORDER = frozenset(
    (
        "power", "pow", "atan2", "hypot", "log", "shiftleft", "shiftright", "shiftrightunsigned", "getbit", "bit_get",
        "width_bucket", "conv", "try_add", "try_subtract", "try_multiply", "substring", "substr",
        "instr", "left", "right", "lpad", "rpad", "repeat", "replace", "translate", "split_part",
        "startswith", "endswith", "contains", "sha2", "substring_index", "regexp_replace",
        "regexp_extract", "regexp_extract_all", "regexp_count", "regexp_instr", "regexp_substr", "split", "find_in_set",
        "date_add", "date_sub", "dateadd", "datediff", "date_diff", "add_months", "months_between",
        "date_trunc", "next_day", "btrim", "try_to_date", "try_to_timestamp",
        "from_utc_timestamp", "to_utc_timestamp", "date_format", "from_unixtime",
        "make_date", "array_contains", "array_position", "array_remove", "arrays_overlap", "map_from_arrays", "slice",
        "sequence", "array_union", "array_intersect", "array_except", "array_join", "make_timestamp",
        "make_timestamp_ltz", "make_dt_interval", "make_ym_interval", "overlay", "convert_timezone", "str_to_map",
        "format_number", "get", "element_at", "try_element_at", "map_contains_key",
        "regexp_like", "regexp", "rlike", "like", "ilike", "sort_array", "unix_timestamp",
        "to_unix_timestamp", "to_timestamp", "to_timestamp_ltz", "to_date", "timestampadd", "timestampdiff",
        "try_make_timestamp", "try_make_timestamp_ltz", "to_char", "to_varchar",
    )
)  # fmt: skip
"""Functions whose arguments are evaluated from the first to the last."""

READS_TEXTS = frozenset(
    (
        "unix_timestamp",
        "to_unix_timestamp",
        "to_timestamp",
        "to_timestamp_ltz",
        "to_date",
        "try_to_date",
        "try_to_timestamp",
    )
)
"""Functions that read a text by a pattern, and also take times."""

EVERY = frozenset(("encode", "decode", "parse_url", "try_parse_url"))
"""Functions of which all arguments are evaluated, also after a null; decode of more arguments chooses, and is none."""

LAST_FIRST = frozenset(("trim", "ltrim", "rtrim", "round", "bround", "floor", "ceil", "ceiling", "trunc"))
"""Functions whose last argument is evaluated first: the text that is trimmed, the number of digits, a unit."""

FIRST_ONLY = frozenset(("array_append", "array_prepend", "format_string", "printf"))
"""Functions that are null where their first argument is, and take nulls elsewhere."""

TRYING = frozenset(("try_add", "try_subtract", "try_multiply", "try_divide", "try_mod"))
"""Operators that are NULL where they fail; of numbers, the arguments may fail still."""

DIVISOR_FIRST = frozenset(("mod", "pmod", "div", "try_mod", "try_divide"))
"""Divisions, of which the divisor is evaluated first."""


NULL_AFTER = frozenset(("abs", "array_size", "negative", "positive", "space", "unhex"))
"""Functions that evaluate an argument without a type, such as assert_true(b), and are NULL then."""

UNTYPED_IGNORED = frozenset(
    (
        "array_join", "array_repeat", "format_number", "from_json", "get_json_object", "json_array_length",
        "json_object_keys", "map_from_arrays", "mask", "sort_array", "soundex", "str_to_map", "timestamp_micros",
        "timestamp_millis", "timestamp_seconds", "to_unix_timestamp", "unix_date", "unix_micros", "unix_millis",
        "unix_seconds", "unix_timestamp",
    )
)  # fmt: skip
"""Functions for which Spark puts a NULL in place of an argument without a type, and does not evaluate it."""

_UNTYPED_IGNORED_BY_DAYS = frozenset(("date_add", "dateadd", "date_sub"))


def without_ignored(name: str, arguments: list[Node]) -> list[Node]:
    """Returns the arguments of a function, with a NULL for those without a type that Spark does not evaluate.

    Of array_repeat it evaluates the element; with a unit, date_add evaluates all."""
    if name not in UNTYPED_IGNORED and not (name in _UNTYPED_IGNORED_BY_DAYS and len(arguments) == 2):
        return arguments
    kept = 1 if name == "array_repeat" else 0
    return [
        null(types.NULL, node.site) if node.type == types.NULL and place >= kept else node
        for place, node in enumerate(arguments)
    ]


def in_sparks_order(name: str, node: Node, given: list[Node], arguments: list[Node], site: Site) -> Node:
    """Returns the call of a function that fails for a row only in what Spark evaluates for it.

    `given` are the arguments as they are written, of which `arguments` are the implicit casts."""
    folds = not takes_nulls(name, len(arguments))
    if len(arguments) < 2:
        return strict(node, arguments, site) if name in NULL_AFTER else node
    if name in TRYING and not all(types.is_numeric(argument.type) for argument in given):
        return node  # NULL where an argument fails, too.
    if name in UNIT_FIRST and len(arguments) == 3:
        return strict(node, arguments[1:], site, casts=True)
    if name in READS_TEXTS and types.is_temporal(arguments[0].type):
        return node  # The pattern is only for texts, and Spark does not look at it.
    if name in EVERY and not (name == "decode" and len(arguments) > 2):
        return after_all(node, arguments, site)
    if name in ("lpad", "rpad") and node.type == types.BINARY:
        return after_all(node, arguments, site)
    if name in IN_ORDER:
        return strict(node, arguments, site, casts=True, folds=folds)
    if name in FIRST_ONLY:
        return strict(node, arguments[:1], site, casts=True, folds=folds)
    if name == "array_insert":
        return strict(node, arguments[:2], site, casts=True, folds=folds)
    if name == "array_repeat":
        return strict(node, arguments[1:], site, casts=True, folds=folds)
    if name in ("locate", "position") and len(arguments) == 2:  # With a start that is null it is 0.
        return strict(node, arguments, site, casts=True, folds=folds)
    if name == "levenshtein":
        return strict(node, arguments[:2], site, casts=True)
    if name == "concat" and pat.is_list(node.type):
        return strict(node, arguments, site, casts=True, folds=folds)
    if name in ("round", "bround") and known(arguments[1]) is None:
        return node  # NULL, but no constant of Spark's if the number is none.
    if name in LAST_FIRST:
        return strict(node, (arguments[-1], *arguments[:-1]), site, casts=True, folds=folds)
    if name in ("try_mod", "try_divide"):
        # Where the divisor is zero the result is NULL, whatever the dividend is.
        zero = constant(types.INT, (np.int32(0), None), site, literal=True)
        checked = strict(node, (nullif(arguments[1], zero, site), arguments[0]), site, casts=True)
        return replace(checked, columns=node.columns)  # By a constant zero it is NULL, and no constant for Spark.
    if name in DIVISOR_FIRST:
        return strict(node, arguments[::-1], site, casts=True)
    return node
