"""What is supported of every function of Spark: the list behind `stretto functions` and docs/functions.md."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stretto.expressions.aggregates import GROUPING_CALLS, is_aggregate
from stretto.expressions.functions import FUNCTIONS
from stretto.expressions.refused import REFUSALS, refusal_of
from stretto.expressions.spark_functions import SPARK_FUNCTIONS

SYNTAX = {
    "!": "!b", "!=": "i != 1", "%": "i % 2", "&": "i & 1", "*": "i * 2", "+": "i + 1", "-": "i - 1", "/": "i / 2",
    "<": "i < 1", "<<": "i << 1", "<=": "i <= 1", "<=>": "i <=> 1", "<>": "i <> 1", "=": "i = 1", "==": "i == 1",
    ">": "i > 1", ">=": "i >= 1", ">>": "i >> 1", ">>>": "i >>> 1", "^": "i ^ 1", "|": "i | 1", "||": "s || 'x'",
    "~": "~i", "and": "b AND b", "or": "b OR b", "not": "NOT b", "between": "i BETWEEN 1 AND 2", "in": "i IN (1, 2)",
    "case": "CASE i WHEN 1 THEN 2 END", "when": "CASE WHEN b THEN 1 END", "if": "if(b, 1, 2)",
    "arrays_zip": "arrays_zip(array(i), array(s))",
    "cast": "CAST(i AS string)", "struct": "struct(i, s)", "like": "s LIKE 'a%'", "ilike": "s ILIKE 'a%'",
    "rlike": "s RLIKE 'a'", "regexp": "s REGEXP 'a'", "extract": "extract(YEAR FROM DATE '2026-01-01')",
}  # fmt: skip
"""Names that are syntax, each with an expression that has it."""


class Support(Enum):
    """How a name of Spark's is supported."""

    FUNCTION = "supported"
    SYNTAX = "supported, as syntax"
    AGGREGATE = "supported, as an aggregate"
    GROUPING = "supported, after rollup, cube and grouping_sets"
    REFUSED = "refused"
    UNEXPLAINED = "unknown"


@dataclass(frozen=True, slots=True)
class Entry:
    """A name of Spark's with its support; `group` is the title of the refusal."""

    name: str
    support: Support
    group: str = ""


def entries() -> list[Entry]:
    """Returns an entry for each function of Spark."""
    return [_entry(name) for name in SPARK_FUNCTIONS]


def _entry(name: str) -> Entry:
    if name in FUNCTIONS:
        return Entry(name, Support.FUNCTION)
    if name in SYNTAX:
        return Entry(name, Support.SYNTAX)
    if is_aggregate(name):
        return Entry(name, Support.AGGREGATE)
    if name in GROUPING_CALLS:
        return Entry(name, Support.GROUPING)
    refusal = refusal_of(name)
    return Entry(name, Support.REFUSED, refusal.title) if refusal else Entry(name, Support.UNEXPLAINED)


def markdown() -> str:
    """Returns the page docs/functions.md."""
    found = entries()
    lines = [
        "# Functions",
        "",
        f"Spark 4.3 has {len(found)} functions (`SHOW FUNCTIONS`). This page says which are supported. It is made",
        "from the registry; this writes it again:",
        "",
        "```sh",
        "stretto functions --markdown > docs/functions.md",
        "```",
        "",
        "`explode` and its like stand alone in a `select`, since they make rows.",
        "",
        "| support | functions |",
        "| --- | --- |",
    ]
    counts = {support: [each.name for each in found if each.support is support] for support in Support}
    lines += [f"| {support.value} | {len(names)} |" for support, names in counts.items() if names]
    for support, title in _TITLES.items():
        lines += ["", f"## {title}", "", _listed(counts[support])]
    lines += ["", "## Refused", "", "| functions | why | use instead |", "| --- | --- | --- |"]
    for refusal in REFUSALS:
        names = [each.name for each in found if each.group == refusal.title]
        if names:
            lines.append(f"| {refusal.title}: {_listed(names)} | {refusal.reason} | {refusal.fix} |")
    return "\n".join(lines) + "\n"


_TITLES = {
    Support.FUNCTION: "Functions",
    Support.SYNTAX: "Operators and other syntax",
    Support.AGGREGATE: "Aggregates",
    Support.GROUPING: "Of grouping sets",
}


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name.replace('|', chr(92) + '|')}`" for name in names)
