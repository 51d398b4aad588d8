"""The supported functions: the name, the number of arguments, and the builder of each."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow.compute as pc

from stretto.errors import ExpressionError
from stretto.expressions import arithmetic, comparisons, logic, mathematics, nested, strings, times, types
from stretto.expressions.casts import cast
from stretto.expressions.nodes import Node, Site

Build = Callable[..., Node]
_MANY = 1_000


@dataclass(frozen=True, slots=True)
class Function:
    """A function: its builder, and the least and the greatest number of arguments."""

    build: Build
    least: int
    most: int


def _fixed(build: Build, count: int) -> Function:
    return Function(build, count, count)


def _as_type(kind: object) -> Build:
    return lambda site, node: cast(node, kind, site)


def _log(site: Site, base: Node, node: Node | None = None) -> Node:
    natural = mathematics.logarithm(np.log)
    if node is None:
        return natural(site, base)
    return arithmetic.arithmetic("/", natural(site, node), natural(site, base), site)


FUNCTIONS: dict[str, Function] = {
    # conditionals
    "coalesce": Function(lambda site, *nodes: logic.coalesce(nodes, site), 1, _MANY),
    "nvl": _fixed(lambda site, *nodes: logic.coalesce(nodes, site), 2),
    "nullif": _fixed(lambda site, a, b: logic.nullif(a, b, site), 2),
    "greatest": Function(lambda site, *nodes: logic.extreme(nodes, True, site), 2, _MANY),
    "least": Function(lambda site, *nodes: logic.extreme(nodes, False, site), 2, _MANY),
    "isnull": _fixed(lambda site, node: comparisons.null_test(node, site), 1),
    "isnotnull": _fixed(lambda site, node: logic.negation(comparisons.null_test(node, site), site), 1),
    # numbers
    "abs": _fixed(lambda site, node: arithmetic.absolute(node, site), 1),
    "round": Function(mathematics.round_half_up, 1, 2),
    "floor": _fixed(mathematics.floor, 1),
    "ceil": _fixed(mathematics.ceil, 1),
    "sqrt": _fixed(mathematics.of_doubles(np.sqrt), 1),
    "power": _fixed(mathematics.of_doubles(np.power), 2),
    "exp": _fixed(mathematics.of_doubles(np.exp), 1),
    "ln": _fixed(mathematics.logarithm(np.log), 1),
    "log10": _fixed(mathematics.logarithm(np.log10), 1),
    "log2": _fixed(mathematics.logarithm(np.log2), 1),
    "log": Function(_log, 1, 2),
    "sign": _fixed(mathematics.sign, 1),
    "mod": _fixed(lambda site, a, b: arithmetic.arithmetic("%", a, b, site), 2),
    "pmod": _fixed(lambda site, a, b: arithmetic.pmod(a, b, site), 2),
    # strings
    "length": _fixed(strings.length, 1),
    "lower": _fixed(strings.simple(pc.utf8_lower), 1),
    "upper": _fixed(strings.simple(pc.utf8_upper), 1),
    "trim": _fixed(strings.trim(pc.utf8_trim), 1),
    "ltrim": _fixed(strings.trim(pc.utf8_ltrim), 1),
    "rtrim": _fixed(strings.trim(pc.utf8_rtrim), 1),
    "concat": Function(strings.concat, 1, _MANY),
    "substring": Function(strings.substring, 2, 3),
    "replace": Function(strings.replace, 2, 3),
    "split_part": _fixed(strings.split_part, 3),
    "startswith": _fixed(strings.predicate(pc.starts_with), 2),
    "endswith": _fixed(strings.predicate(pc.ends_with), 2),
    "contains": _fixed(strings.predicate(pc.match_substring), 2),
    # times
    "year": _fixed(times.calendar_field(pc.year), 1),
    "month": _fixed(times.calendar_field(pc.month), 1),
    "day": _fixed(times.calendar_field(pc.day), 1),
    "hour": _fixed(times.clock_field(3_600_000_000, 24), 1),
    "minute": _fixed(times.clock_field(60_000_000, 60), 1),
    "second": _fixed(times.clock_field(1_000_000, 60), 1),
    "date_trunc": _fixed(times.date_trunc, 2),
    "to_date": _fixed(times.to_date, 1),
    "unix_seconds": _fixed(times.since_epoch(1_000_000), 1),
    "unix_millis": _fixed(times.since_epoch(1_000), 1),
    "unix_micros": _fixed(times.since_epoch(1), 1),
    "timestamp_seconds": _fixed(times.from_epoch(1_000_000), 1),
    "timestamp_millis": _fixed(times.from_epoch(1_000), 1),
    "timestamp_micros": _fixed(times.from_epoch(1), 1),
    # nested values
    "named_struct": Function(nested.named_struct, 2, _MANY),
    "size": _fixed(nested.size, 1),
    # casts by name
    "boolean": _fixed(_as_type(types.BOOLEAN), 1),
    "tinyint": _fixed(_as_type(types.TINYINT), 1),
    "smallint": _fixed(_as_type(types.SMALLINT), 1),
    "int": _fixed(_as_type(types.INT), 1),
    "bigint": _fixed(_as_type(types.BIGINT), 1),
    "float": _fixed(_as_type(types.FLOAT), 1),
    "double": _fixed(_as_type(types.DOUBLE), 1),
    "string": _fixed(_as_type(types.STRING), 1),
    "date": _fixed(_as_type(types.DATE), 1),
    "timestamp": _fixed(_as_type(types.TIMESTAMP), 1),
}
_ALIASES = {
    "ifnull": "nvl",
    "pow": "power",
    "ceiling": "ceil",
    "signum": "sign",
    "substr": "substring",
    "len": "length",
    "char_length": "length",
    "character_length": "length",
    "lcase": "lower",
    "ucase": "upper",
    "dayofmonth": "day",
    "array_size": "size",
    "cardinality": "size",
}
FUNCTIONS.update({alias: FUNCTIONS[name] for alias, name in _ALIASES.items()})


def call(name: str, arguments: list[Node], site: Site) -> Node:
    """Returns the call of a function by name."""
    function = FUNCTIONS.get(name.lower())
    if function is None:
        raise unknown_function(name, site)
    if not function.least <= len(arguments) <= function.most:
        raise site.error(f"{name} takes {_counts(function)}, not {len(arguments)}", None, "see Spark's documentation")
    # round(2L) is 2L again, but no longer a literal in Spark's decimal rules.
    return replace(function.build(site, *arguments), literal=False)


def unknown_function(name: str, site: Site) -> ExpressionError:
    close = difflib.get_close_matches(name.lower(), FUNCTIONS, 1)
    hint = f"did you mean {close[0]}? " if close else ""
    return site.error(f"unknown function {name}", None, f"{hint}use map() with a Python function for other functions")


def _counts(function: Function) -> str:
    if function.most == _MANY:
        return f"at least {function.least} argument(s)"
    if function.least == function.most:
        return f"{function.least} argument(s)"
    return f"{function.least} to {function.most} arguments"
