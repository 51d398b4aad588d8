"""The ways to make an expression of others: operators, casts, special syntax, and every function of the registry.

A form has no types: `vocabulary` tries arguments. Only constants that have a language of their own (units, formats,
patterns) are hinted here.
"""

from __future__ import annotations

from dataclasses import dataclass

from stretto.bench.fuzz import texts
from stretto.bench.fuzz.terms import Term
from stretto.expressions.functions import FUNCTIONS

ARGUMENTS_MAX = 4
"""More arguments than these are not tried."""

NOT_COMPARED = frozenset(
    (
        "rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "now", "current_timestamp", "current_date",
        "curdate", "localtimestamp", "current_time", "monotonically_increasing_id", "spark_partition_id",
        "current_user", "user", "session_user", "input_file_name", "current_database", "current_schema",
        "current_catalog", "version",
    )
)  # fmt: skip
"""Functions whose answer is another each time, or depends on the session: they are left out."""

MAKE_ROWS = frozenset(
    ("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple")
)
"""Functions that make rows of a row: they are no expressions, and left out."""


@dataclass(frozen=True, slots=True)
class Form:
    """A template: the texts around its arguments. `hints` are constants to try at a place, and nothing else there."""

    label: str
    pieces: tuple[str, ...]
    weight: float = 1.0
    hints: tuple[tuple[int, tuple[str, ...]], ...] = ()

    @property
    def arity(self) -> int:
        return len(self.pieces) - 1

    def of(self, arguments: tuple[Term, ...], family: str = "") -> Term:
        return Term(self.label, self.pieces, arguments, family)


_HINTS: dict[str, dict[int, tuple[str, ...]]] = {
    "date_trunc": {0: texts.UNITS},
    "trunc": {1: texts.UNITS},
    "date_part": {0: texts.UNITS},
    "datepart": {0: texts.UNITS},
    "date_format": {1: texts.TIME_FORMATS},
    "to_timestamp": {1: texts.TIME_FORMATS},
    "try_to_timestamp": {1: texts.TIME_FORMATS},
    "to_date": {1: texts.TIME_FORMATS},
    "try_to_date": {1: texts.TIME_FORMATS},
    "unix_timestamp": {1: texts.TIME_FORMATS},
    "to_unix_timestamp": {1: texts.TIME_FORMATS},
    "from_unixtime": {1: texts.TIME_FORMATS},
    "next_day": {1: ("'Mon'", "'FRIDAY'", "'tu'")},
    "from_utc_timestamp": {1: texts.ZONES},
    "to_utc_timestamp": {1: texts.ZONES},
    "regexp_extract": {1: texts.PATTERNS, 2: ("0", "1", "2")},
    "regexp_extract_all": {1: texts.PATTERNS, 2: ("0", "1")},
    "regexp_replace": {1: texts.PATTERNS, 2: ("'x'", "''", "'$1'", "'<$0>'")},
    "regexp_like": {1: texts.PATTERNS},
    "regexp": {1: texts.PATTERNS},
    "rlike": {1: texts.PATTERNS},
    "regexp_count": {1: texts.PATTERNS},
    "regexp_substr": {1: texts.PATTERNS},
    "regexp_instr": {1: texts.PATTERNS},
    "split": {1: texts.PATTERNS, 2: ("-1", "0", "2")},
    "like": {1: texts.LIKE_PATTERNS},
    "ilike": {1: texts.LIKE_PATTERNS},
    "get_json_object": {1: texts.PATHS},
    "from_json": {1: texts.JSON_SCHEMAS},
    "format_string": {0: texts.PRINTF},
    "printf": {0: texts.PRINTF},
    "format_number": {1: ("0", "2", "5")},
    "to_number": {0: texts.FORMATTED, 1: texts.NUMBER_FORMATS},
    "try_to_number": {0: texts.FORMATTED, 1: texts.NUMBER_FORMATS},
    "to_char": {1: texts.TEXT_FORMS},
    "to_varchar": {1: texts.TEXT_FORMS},
    "encode": {1: texts.ENCODINGS},
    "decode": {1: texts.ENCODINGS},
    "sha2": {1: ("0", "224", "256", "384", "512")},
    "conv": {1: ("2", "10", "16"), 2: ("2", "10", "16", "36")},
    "to_binary": {1: texts.BINARY_FORMATS},
    "try_to_binary": {1: texts.BINARY_FORMATS},
    "parse_url": {0: texts.URLS, 1: texts.URL_PARTS, 2: ("'q'", "'a'", "s")},
    "try_parse_url": {0: texts.URLS, 1: texts.URL_PARTS, 2: ("'q'", "'a'", "s")},
    "named_struct": {0: ("'a'", "'k'"), 2: ("'b'",)},
    "repeat": {1: ("0", "1", "3", "-1")},
    "lpad": {1: ("0", "3", "8", "-1")},
    "rpad": {1: ("0", "3", "8", "-1")},
    "space": {0: ("0", "3", "-1")},
    "array_repeat": {1: ("0", "2", "-1")},
    "array_insert": {1: ("1", "-1", "3", "0", "-4")},
}

_DATED, _JSON = ("sd", "sd2", "sd", "s"), ("sj", "sj", "s")
for _name in ("to_timestamp", "try_to_timestamp", "to_date", "try_to_date", "unix_timestamp", "to_unix_timestamp"):
    _HINTS[_name][0] = _DATED
for _name in ("get_json_object", "from_json", "json_array_length", "json_object_keys", "schema_of_json"):
    _HINTS.setdefault(_name, {})[0] = _JSON

_TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(38,18)",
    "decimal(38,0)", "string", "binary", "date", "timestamp",
)  # fmt: skip
_BINARY = (
    "+",
    "-",
    "*",
    "/",
    "%",
    "div",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "<=>",
    "and",
    "or",
    "||",
    "&",
    "|",
    "^",
    "<<",
    ">>",
)
_SPECIAL_CALLS: dict[str, tuple[tuple[str, ...], ...]] = {
    "transform": (("transform(", ", z -> z + 1)"), ("transform(", ", (z, place) -> concat(z, place))")),
    "filter": (("filter(", ", z -> z > 1)"),),
    "exists": (("exists(", ", z -> z > 1)"),),
    "forall": (("forall(", ", z -> z is not null)"),),
    "array_sort": (("array_sort(", ", (v, w) -> case when v < w then 1 when v > w then -1 else 0 end)"),),
    "aggregate": (("aggregate(", ", 0, (total, z) -> total + z)"), ("aggregate(", ", ", ", (total, z) -> z)")),
    "reduce": (("reduce(", ", 0D, (total, z) -> total + z, total -> total * 2)"),),
    "zip_with": (("zip_with(", ", ", ", (v, w) -> v <=> w)"),),
    "map_filter": (("map_filter(", ", (v, w) -> w > 1)"),),
    "map_zip_with": (("map_zip_with(", ", ", ", (k, v, w) -> coalesce(v, w))"),),
    "transform_keys": (("transform_keys(", ", (v, w) -> concat(v, 'k'))"),),
    "transform_values": (("transform_values(", ", (v, w) -> w is null)"),),
    "sequence": (
        ("sequence(pmod(", ", 5), pmod(", ", 9))"),
        ("sequence(pmod(", ", 5), pmod(", ", 9), ", ")"),
        ("sequence(date_add(date'2020-02-27', pmod(", ", 5)), date'2020-03-02')"),
        ("sequence(date_add(date'2020-02-27', pmod(", ", 5)), date'2020-03-02', ", ")"),
        *(
            (f"sequence({first}'2024-01-31', timestampadd(MINUTE, pmod(", f", 300000), timestamp'2024-02-01'), {step})")
            for first in ("date", "timestamp")
            for step in ("interval 1 month", "interval '36' hour", "interval '1' day", "interval '-1' month")
        ),
    ),
    **{
        name: tuple((f"{name}({unit}, ", ", ", ")") for unit in ("DAY", "MONTH", "HOUR", "MICROSECOND"))
        for name in ("timestampadd", "timestampdiff", "timediff", "dateadd", "datediff")
    },
}
"""Calls with a syntax of their own: lambdas, units that are words, and sequences that fit into memory."""
_WRITTEN_ONLY = frozenset(("sequence",))
"""Functions of which arbitrary arguments could make gigabytes: they have only the calls above."""


def all_forms() -> list[Form]:
    """Returns every form, operators first, in a fixed order."""
    return [*_operators(), *_casts(), *_special(), *_calls()]


def _operators() -> list[Form]:
    weights = dict.fromkeys("+-*/%", 3.0)
    binary = [Form(name, ("(", f" {name} ", ")"), weights.get(name, 1.0)) for name in _BINARY]
    unary = [Form("negative", ("(- ", ")")), Form("not", ("(NOT ", ")")), Form("positive", ("(+ ", ")"), 0.3)]
    tests = [Form(name, ("(", f" {name})")) for name in ("IS NULL", "IS NOT NULL", "IS TRUE", "IS NOT FALSE")]
    matches = [
        Form("LIKE", ("(", " LIKE ", ")"), hints=((1, texts.LIKE_PATTERNS),)),
        Form("NOT LIKE", ("(", " NOT LIKE ", ")"), 0.3, hints=((1, texts.LIKE_PATTERNS),)),
        Form("ILIKE", ("(", " ILIKE ", ")"), hints=((1, texts.LIKE_PATTERNS),)),
        Form("RLIKE", ("(", " RLIKE ", ")"), hints=((1, texts.PATTERNS),)),
    ]
    return [*binary, *unary, *tests, *matches]


def _casts() -> list[Form]:
    plain = [Form(f"cast as {kind}", ("CAST(", f" AS {kind})"), 1.0) for kind in _TYPES]
    trying = [Form(f"try_cast as {kind}", ("try_cast(", f" AS {kind})"), 0.5) for kind in _TYPES]
    return [*plain, *trying]


def _special() -> list[Form]:
    return [
        Form("CASE", ("(CASE WHEN ", " THEN ", " ELSE ", " END)"), 3.0),
        Form("CASE of", ("(CASE ", " WHEN ", " THEN ", " END)"), 1.0),
        Form("if", ("if(", ", ", ", ", ")"), 2.0),
        Form("IN", ("(", " IN (", ", ", "))"), 2.0),
        Form("NOT IN", ("(", " NOT IN (", ", ", "))"), 1.0),
        Form("BETWEEN", ("(", " BETWEEN ", " AND ", ")"), 2.0),
        Form("NOT BETWEEN", ("(", " NOT BETWEEN ", " AND ", ")"), 0.5),
        Form("struct", ("struct(", ", ", ")")),
        Form("array", ("array(", ", ", ")")),
        Form("map", ("map(", ", ", ")")),
        Form("field a", ("(", ").a")),
        Form("field b", ("(", ").b")),
        Form("element", ("(", ")[", "]")),
        *(
            Form(f"extract {unit}", (f"extract({unit} FROM ", ")"), 0.3)
            for unit in ("YEAR", "MONTH", "DOW", "SECOND", "WEEK")
        ),
        *(
            Form(name, pieces, 1 / len(all_pieces))
            for name, all_pieces in _SPECIAL_CALLS.items()
            for pieces in all_pieces
        ),
    ]


def _calls() -> list[Form]:
    return [
        form for name in sorted(set(FUNCTIONS) - NOT_COMPARED - MAKE_ROWS - _WRITTEN_ONLY) for form in calls_of(name)
    ]


def calls_of(name: str) -> list[Form]:
    """Returns the calls of a function of the registry, one for each number of arguments; their weights sum up to 1."""
    function = FUNCTIONS[name]
    counts = range(function.least, max(function.least, min(function.most, ARGUMENTS_MAX)) + 1)
    hints = tuple(_HINTS.get(name, {}).items())
    return [
        Form(
            name,
            (f"{name}(", *[", "] * (count - 1), ")") if count else (f"{name}()",),
            1.0 / len(counts),
            tuple((place, texts) for place, texts in hints if place < count),
        )
        for count in counts
    ]
