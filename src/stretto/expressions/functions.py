"""All supported functions, from the tables of the modules that have them."""

from __future__ import annotations

import difflib
from dataclasses import replace

from sqlglot import exp

from stretto.errors import ExpressionError
from stretto.expressions import (
    array_comparators,
    array_order,
    array_sets,
    arrays,
    attempts,
    binaries,
    bits,
    calendar_fields,
    casing,
    casts_by_name,
    changing,
    checks,
    conditionals,
    cutting,
    date_arithmetic,
    digests,
    elements,
    encodings,
    epochs,
    folds,
    formatted_numbers,
    formatted_times,
    formatting,
    hashes,
    joining,
    json_paths,
    json_reading,
    json_writing,
    lambdas,
    lengths,
    likes,
    map_lambdas,
    map_texts,
    maps,
    mathematics,
    number_texts,
    patterns,
    radix,
    rounding,
    row_makers,
    searching,
    sequences,
    signs,
    structs,
    time_makers,
    truncation,
    urls,
    zone_functions,
)
from stretto.expressions.folding import as_seen
from stretto.expressions.implicit_casts import casts_of
from stretto.expressions.intervals import united_over
from stretto.expressions.lambdas import HigherOrder, Scope, without_function
from stretto.expressions.nodes import Folds, Node, Site
from stretto.expressions.overloads import with_array_forms
from stretto.expressions.reads import unsupported
from stretto.expressions.refused import refusal_of
from stretto.expressions.registry import Function
from stretto.expressions.strictness import in_sparks_order, without_ignored

_TABLES = (
    conditionals.FUNCTIONS,
    checks.FUNCTIONS,
    mathematics.FUNCTIONS,
    signs.FUNCTIONS,
    rounding.FUNCTIONS,
    bits.FUNCTIONS,
    radix.FUNCTIONS,
    attempts.FUNCTIONS,
    lengths.FUNCTIONS,
    joining.FUNCTIONS,
    searching.FUNCTIONS,
    changing.FUNCTIONS,
    encodings.FUNCTIONS,
    binaries.FUNCTIONS,
    digests.FUNCTIONS,
    hashes.FUNCTIONS,
    number_texts.FUNCTIONS,
    formatted_numbers.FUNCTIONS,
    formatting.FUNCTIONS,
    casing.FUNCTIONS,
    cutting.FUNCTIONS,
    likes.FUNCTIONS,
    patterns.FUNCTIONS,
    urls.FUNCTIONS,
    row_makers.FUNCTIONS,
    structs.FUNCTIONS,
    elements.FUNCTIONS,
    arrays.FUNCTIONS,
    array_sets.FUNCTIONS,
    array_order.FUNCTIONS,
    sequences.FUNCTIONS,
    maps.FUNCTIONS,
    map_texts.FUNCTIONS,
    json_paths.FUNCTIONS,
    json_reading.FUNCTIONS,
    json_writing.FUNCTIONS,
    calendar_fields.FUNCTIONS,
    truncation.FUNCTIONS,
    epochs.FUNCTIONS,
    formatted_times.FUNCTIONS,
    date_arithmetic.FUNCTIONS,
    time_makers.FUNCTIONS,
    zone_functions.FUNCTIONS,
    casts_by_name.FUNCTIONS,
)
#: Functions whose arguments may be functions, by their names.
HIGHER_ORDER: dict[str, HigherOrder] = {
    **lambdas.HIGHER_ORDER,
    **folds.HIGHER_ORDER,
    **array_comparators.HIGHER_ORDER,
    **map_lambdas.HIGHER_ORDER,
}
FUNCTIONS: dict[str, Function] = with_array_forms(
    {
        **{name: without_function(function) for name, function in HIGHER_ORDER.items()},
        **{name: function for table in _TABLES for name, function in table.items()},
    }
)


def call(name: str, arguments: list[Node], site: Site) -> Node:
    """Returns the call of a function by name."""
    function = FUNCTIONS.get(name.lower())
    if function is None:
        raise unknown_function(name, site)
    if not function.least <= len(arguments) <= function.most:
        raise site.error(f"{name} takes {function.counts}, not {len(arguments)}", None, "see Spark's documentation")
    arguments = without_ignored(name.lower(), arguments)
    # round(2L) is 2L again, but no longer a literal in Spark's decimal rules.
    with casts_of(arguments) as operands:
        # The type of nullif is that of its first argument, and the first one of nvl2 is a condition.
        typed = {"nullif": arguments[:1], "nvl2": arguments[1:]}.get(name.lower(), arguments)
        node = united_over(replace(function.build(site, *arguments), literal=False), typed)
    ordered = replace(in_sparks_order(name.lower(), node, arguments, operands, site), fields=node.fields)
    return as_seen(name.lower(), ordered, operands)


def call_with_functions(name: str, trees: list[exp.Expression], scope: Scope, site: Site) -> Node:
    """Returns the call of a function of which an argument is a function, such as transform(a, x -> x + 1)."""
    function = HIGHER_ORDER.get(name)
    if function is None:
        if name not in FUNCTIONS:
            raise unknown_function(name, site)
        raise unsupported(Site(next(tree for tree in trees if isinstance(tree, exp.Lambda)), site.whole))
    if not function.least <= len(trees) <= function.most:
        raise site.error(f"{name} takes {function.counts}, not {len(trees)}", None, "see Spark's documentation")
    return replace(function.build(site, scope, *trees), literal=False, folds=Folds.NEVER)


def unknown_function(name: str, site: Site) -> ExpressionError:
    refusal = refusal_of(name.lower())
    if refusal is not None:
        return site.error(f"the function {name} is not supported ({refusal.title})", refusal.reason, refusal.fix)
    if _is_aggregate(name):
        fix = f'aggregate first, with key_by("auction").aggregate(result="{name.lower()}(...)")'
        return site.error(f"{name} is an aggregate", "an expression has one row", fix)
    close = difflib.get_close_matches(name.lower(), [*FUNCTIONS, "if"], 1)
    hint = f"did you mean {close[0]}? " if close else ""
    return site.error(f"unknown function {name}", None, f"{hint}register a stretto.udf for other functions")


def _is_aggregate(name: str) -> bool:
    # Aggregates have scalar arguments, so their module imports this one.
    from stretto.expressions.aggregate_functions import FUNCTIONS as AGGREGATES

    return name.lower() in AGGREGATES
