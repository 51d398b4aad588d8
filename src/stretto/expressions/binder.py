"""Turns sqlglot's tree into a typed, runnable node: resolves names in the schema, and calls the operators' modules."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from stretto.errors import ExpressionError
from stretto.expressions import (
    arrays,
    bits,
    comparisons,
    elements,
    functions,
    likes,
    logic,
    patterns,
    signs,
    structs,
    types,
    vectors,
)
from stretto.expressions.arithmetic import arithmetic, negate
from stretto.expressions.attempts import try_cast
from stretto.expressions.calendar_fields import extracted
from stretto.expressions.casts import cast
from stretto.expressions.date_arithmetic import UNIT_FIRST
from stretto.expressions.ddl import type_from_ast
from stretto.expressions.folding import is_plain, later, of_seen_nulls
from stretto.expressions.implicit_casts import casts_of
from stretto.expressions.intervals import interval, is_interval, united_over
from stretto.expressions.lambdas import Lambda, Scope
from stretto.expressions.literals import bytes_of, number
from stretto.expressions.nodes import Node, Site, constant, constant_argument, null, slot
from stretto.expressions.parse import too_deep
from stretto.expressions.reads import refuse_unread, unsupported
from stretto.expressions.refused import refusal_of_word
from stretto.expressions.shifts import time_arithmetic
from stretto.expressions.udf import known_udfs
from stretto.expressions.vectors import Value

_ARITHMETIC = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div"}
_BITWISE = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^"}
_COMPARISON = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}


def bind(tree: exp.Expression, schema: pa.Schema, whole: str) -> Node:
    """Returns the typed node for a tree over a schema; `whole` is the text that errors quote."""
    try:
        refuse_unread(tree, whole)
        return _Binder(schema, whole).bind(tree)
    except RecursionError:
        raise too_deep(whole) from None


def resolve(name: str, schema: pa.Schema, whole: str) -> str:
    """Returns the column of this name; case does not matter, as in Spark."""
    matches = [column for column in schema.names if column.lower() == name.lower()]
    if len(matches) == 1:
        return str(matches[0])
    if matches:
        raise ExpressionError(
            f"column {name!r} is ambiguous", f"in the expression {whole!r}: {', '.join(matches)}", "rename one of them"
        )
    refusal = refusal_of_word(name)
    if refusal is not None:
        detail = f"in the expression {whole!r}: {refusal.reason}"
        raise ExpressionError(f"the function {name} is not supported ({refusal.title})", detail, refusal.fix)
    close = difflib.get_close_matches(name.lower(), [column.lower() for column in schema.names], 1)
    original = [column for column in schema.names if close and column.lower() == close[0]]
    hint = f"did you mean {original[0]!r}?" if original else "use one of those"
    columns = ", ".join(schema.names) or "none"
    raise ExpressionError(f"unknown column {name!r}", f"in the expression {whole!r}; columns: {columns}", hint)


def read_column(name: str, kind: pa.DataType, site: Site) -> Node:
    """Returns a node that reads a column of the batch."""
    read = vectors.reader(kind)
    described = f"{name!r} of type {kind}"

    def run(batch: pa.RecordBatch) -> Value:
        try:
            array = batch.column(name)
        except KeyError:
            raise site.error(
                f"the batch has no column {described}", None, "the batch must have the schema given"
            ) from None
        if array.type != kind:
            raise site.error(f"the batch has {array.type} where {described} was expected") from None
        return read(array)

    return Node(
        types.canonical(kind), run, site, frozenset((name,)), fractional=types.has_fractions(types.canonical(kind))
    )


class _Binder:
    def __init__(
        self, schema: pa.Schema, whole: str, variables: Mapping[str, Node] | None = None, depth: int = 0
    ) -> None:
        self._schema = schema
        self._whole = whole
        #: The parameters of the functions around, by their names in lower case.
        self._variables = variables or {}
        self._depth = depth
        #: What was bound within the part that is being bound.
        self._parts: list[Node] = []
        self._forms: dict[type, Callable[[Any, Site], Node]] = {
            exp.Paren: lambda tree, site: self.bind(tree.this),
            exp.Column: self._column,
            exp.Dot: self._field,
            exp.Bracket: self._subscript,
            exp.Identifier: lambda tree, site: self._named([tree.name], site),
            exp.Tuple: self._struct,
            exp.Literal: self._literal,
            exp.Concat: self._adjacent_strings,
            exp.RawString: lambda tree, site: constant(types.STRING, (pa.scalar(tree.name), None), site, literal=True),
            exp.HexString: lambda tree, site: constant(types.BINARY, (bytes_of(tree.name), None), site, literal=True),
            exp.Boolean: lambda tree, site: constant(types.BOOLEAN, (np.bool_(tree.this), None), site, literal=True),
            exp.Null: lambda tree, site: null(types.NULL, site),
            exp.Interval: self._interval,
            exp.Neg: self._negative,
            exp.BitwiseNot: lambda tree, site: bits.inverted(self.bind(tree.this), site),
            exp.And: lambda tree, site: logic.conjunction(self.bind(tree.this), self.bind(tree.expression), site),
            exp.Or: lambda tree, site: logic.disjunction(self.bind(tree.this), self.bind(tree.expression), site),
            exp.Not: lambda tree, site: logic.negation(self.bind(tree.this), site),
            exp.NullSafeEQ: self._null_safe,
            exp.NullSafeNEQ: lambda tree, site: logic.negation(self._null_safe(tree, site), site),
            exp.Is: self._is,
            exp.In: self._in,
            exp.Between: self._between,
            exp.Like: self._like,
            exp.ILike: self._like,
            exp.Escape: self._like,
            exp.RegexpLike: self._rlike,
            exp.Case: self._case,
            exp.If: self._if,
            exp.Cast: self._cast,
            exp.TryCast: self._cast,
            exp.DPipe: lambda tree, site: functions.call(
                "concat", [self.bind(tree.this), self.bind(tree.expression)], site
            ),
            exp.Anonymous: self._call,
            exp.Extract: self._extract,
        }

    def bind(self, tree: Any) -> Node:
        """Returns a part of the expression as a node, which is not seen as a constant before its own parts are."""
        around, self._parts = self._parts, []
        node = self._bound(tree)
        parts, self._parts = self._parts, around
        if is_plain(node) and not all(map(is_plain, parts)) and not _names_type(tree):
            node = later(node)
        around.append(node)
        return node

    def _bound(self, tree: Any) -> Node:
        site = Site(tree, self._whole)
        kind = type(tree)
        if kind in _ARITHMETIC:
            return self._arithmetic(_ARITHMETIC[kind], tree, site)
        if kind in _COMPARISON:
            return logic.compared(_COMPARISON[kind], self.bind(tree.this), self.bind(tree.expression), site)
        if kind in _BITWISE:
            left, right = self.bind(tree.this), self.bind(tree.expression)
            with casts_of((left, right)) as operands:
                node = bits.bitwise(_BITWISE[kind], left, right, site)
            return logic.strict(node, operands, site, casts=True)
        form = self._forms.get(kind)
        if form is None:
            raise unsupported(site)
        return form(tree, site)

    def _column(self, tree: exp.Column, site: Site) -> Node:
        if isinstance(tree.this, exp.Star):
            raise unsupported(Site(tree.this, self._whole))
        return self._named([part.name for part in tree.parts], site)

    def _named(self, parts: Sequence[str], site: Site) -> Node:
        """Returns a parameter of a function around or else a column, and what further names reach in it."""
        node = self._variables.get(parts[0].lower())
        if node is None:
            column = resolve(parts[0], self._schema, self._whole)
            node = read_column(column, self._schema.field(column).type, site)
        for part in parts[1:]:
            node = elements.named(node, part, site)
        return node

    def _field(self, tree: exp.Dot, site: Site) -> Node:
        if not isinstance(tree.expression, exp.Identifier):
            raise site.error("not the name of a field", f"{Site(tree.expression, self._whole).part!r}", "name a field")
        return elements.named(self.bind(tree.this), tree.expression.name, site)

    def _subscript(self, tree: exp.Bracket, site: Site) -> Node:
        if len(tree.expressions) != 1:
            raise site.error("not one index", None, "write a[0], or m['key']")
        return elements.subscript(self.bind(tree.this), self.bind(tree.expressions[0]), site)

    def _lambda(self, tree: exp.Lambda, kinds: Sequence[pa.DataType]) -> Lambda:
        """Returns a function of parameters of these types, whose body may name columns and other parameters too."""
        names = [parameter.name for parameter in tree.expressions]
        columns = tuple(f"\0{self._depth}.{place}" for place in range(len(names)))
        site = Site(tree, self._whole)
        own = {name.lower(): slot(kind, column, site) for name, kind, column in zip(names, kinds, columns, strict=True)}
        if len(own) < len(names):
            raise site.error("two parameters of one name", ", ".join(names), "rename one of them")
        body = _Binder(self._schema, self._whole, {**self._variables, **own}, self._depth + 1).bind(tree.this)
        return Lambda(body, columns, tuple(sorted(body.columns - set(columns))))

    def _literal(self, tree: exp.Literal, site: Site) -> Node:
        if tree.is_string:
            return constant(types.STRING, (pa.scalar(tree.name, types.STRING), None), site, literal=True)
        return number(tree.name, site)

    def _adjacent_strings(self, tree: exp.Concat, site: Site) -> Node:
        """Returns `'a' 'b'`, which is one string; sqlglot has no other use for this node."""
        parts = [constant_argument(self.bind(part), types.STRING, "a part of a string") for part in tree.expressions]
        return constant(types.STRING, (pa.scalar("".join(parts), types.STRING), None), site, literal=True)

    def _negative(self, tree: exp.Neg, site: Site) -> Node:
        # A minus before digits belongs to the literal: -2147483648 is an int, though 2147483648 is not.
        if isinstance(tree.this, exp.Literal) and not tree.this.is_string:
            return number("-" + tree.this.name, site)
        inner = self.bind(tree.this)
        return logic.strict(negate(signs.number(inner, site), site), (inner,), site)

    def _interval(self, tree: exp.Interval, site: Site) -> Node:
        unit, amount = tree.args.get("unit"), tree.this
        sign = "-" if isinstance(amount, exp.Neg) else ""
        amount = amount.this if sign else amount
        if not isinstance(amount, exp.Literal):
            raise site.error("an interval of an expression", None, "multiply: INTERVAL 1 SECOND * x")
        first, last = (unit.this, unit.expression) if isinstance(unit, exp.IntervalSpan) else (unit, None)
        words = [None if word is None else word.name for word in (first, last)]
        return interval(sign + amount.name, words[0], words[1], site)

    def _arithmetic(self, operator: str, tree: Any, site: Site) -> Node:
        left, right = self.bind(tree.this), self.bind(tree.expression)
        with casts_of((left, right)) as operands:
            node = time_arithmetic(operator, left, right, site)
        of_times = node is not None
        if node is None:
            left, right = signs.numbers(left, right, site)
            operands = [left, right]
            node = arithmetic(operator, left, right, site)
        # What takes an interval away may fail at the interval alone.
        operands = operands[::-1] if _right_first(operator, left, right) else operands
        checked = logic.strict(node, operands, site, casts=of_times)
        return replace(checked, fields=node.fields)

    def _null_safe(self, tree: Any, site: Site) -> Node:
        return comparisons.null_safe_equal(self.bind(tree.this), self.bind(tree.expression), site)

    def _is(self, tree: exp.Is, site: Site) -> Node:
        node = self.bind(tree.this)
        if isinstance(tree.expression, exp.Null):
            return comparisons.null_test(node, site)
        return comparisons.null_safe_equal(logic.boolean(node, site), self.bind(tree.expression), site)

    def _in(self, tree: exp.In, site: Site) -> Node:
        return logic.member(self.bind(tree.this), [self.bind(choice) for choice in tree.expressions], site)

    def _between(self, tree: exp.Between, site: Site) -> Node:
        node = self.bind(tree.this)
        low = logic.compared(">=", node, self.bind(tree.args["low"]), site)
        return later(logic.conjunction(low, logic.compared("<=", node, self.bind(tree.args["high"]), site), site))

    def _like(self, tree: Any, site: Site) -> Node:
        escape = likes.ESCAPE
        inner = tree
        if isinstance(tree, exp.Escape):
            escape = constant_argument(self.bind(tree.expression), types.STRING, "the escape character") or ""
            inner = tree.this
        if not isinstance(inner, (exp.Like, exp.ILike)):
            raise site.error("ESCAPE without LIKE", None, "put it after the pattern of LIKE")
        ignore_case, negate = isinstance(inner, exp.ILike), bool(inner.args.get("negate"))
        if isinstance(inner.expression, (exp.Any, exp.All)) and inner is tree:
            listed = inner.expression.this
            wanted = listed.expressions if isinstance(listed, exp.Tuple) else [listed]
            every = isinstance(inner.expression, exp.All)
            bound = [self.bind(pattern) for pattern in wanted]
            return likes.quantified(self.bind(inner.this), bound, site, every, negate, ignore_case)
        node = likes.like(self.bind(inner.this), self.bind(inner.expression), site, escape, ignore_case)
        found = logic.negation(node, site) if negate else node
        return later(found) if ignore_case else found

    def _rlike(self, tree: exp.RegexpLike, site: Site) -> Node:
        node = patterns.rlike(site, self.bind(tree.this), self.bind(tree.expression))
        return logic.negation(node, site) if tree.args.get("negate") else node

    def _case(self, tree: exp.Case, site: Site) -> Node:
        subject = None if tree.this is None else self.bind(tree.this)
        branches = []
        for branch in tree.args["ifs"]:
            condition = self.bind(branch.this)
            if subject is None and condition.type == types.NULL:
                raise site.error("not a boolean", "NULL after WHEN", "leave the branch out, or CAST(NULL AS boolean)")
            if subject is not None:
                condition = logic.compared("=", subject, condition, site)
            branches.append((condition, self.bind(branch.args["true"])))
        default = None if tree.args.get("default") is None else self.bind(tree.args["default"])
        values = [value for _, value in branches]
        return united_over(logic.case(branches, default, site), values if default is None else [*values, default])

    def _if(self, tree: exp.If, site: Site) -> Node:
        if tree.args.get("false") is None:
            raise site.error("if takes 3 arguments", None, "write if(condition, then, otherwise)")
        branch = (self.bind(tree.this), self.bind(tree.args["true"]))
        otherwise = self.bind(tree.args["false"])
        return united_over(logic.case([branch], otherwise, site), (branch[1], otherwise))

    def _cast(self, tree: Any, site: Site) -> Node:
        build = try_cast if tree.args.get("safe") else cast
        kind = types.canonical(type_from_ast(tree.args["to"]))
        return replace(build(self.bind(tree.this), kind, site), literal=False)

    def _call(self, tree: exp.Anonymous, site: Site) -> Node:
        name = tree.name.lower()
        if name == "struct":
            return self._struct(tree, site)
        if name == "arrays_zip":
            named = [(_own_name(argument), self.bind(argument)) for argument in tree.expressions]
            names = [own or str(place) for place, (own, _) in enumerate(named)]
            return arrays.arrays_zip(names, [node for _, node in named], site)
        if any(isinstance(argument, exp.Lambda) for argument in tree.expressions):
            return functions.call_with_functions(name, tree.expressions, Scope(self.bind, self._lambda), site)
        own = known_udfs().get(name)
        if own is not None:
            if self._variables:
                raise site.error(
                    f"{tree.name} inside of a function with ->", None, "call it outside; Spark cannot either"
                )
            return own.call([self.bind(argument) for argument in tree.expressions], site)
        if name not in functions.FUNCTIONS:
            raise functions.unknown_function(tree.name, site)
        return functions.call(tree.name, self._arguments(name, tree.expressions, site), site)

    def _arguments(self, name: str, trees: list[Any], site: Site) -> list[Node]:
        """Returns the arguments of a function. In dateadd(HOUR, 3, t) the first one is the name of a unit."""
        if len(trees) == 3 and name in UNIT_FIRST and isinstance(trees[0], exp.Column):
            unit = constant(types.STRING, (pa.scalar(trees[0].name), None), site)
            return [unit, *(self.bind(argument) for argument in trees[1:])]
        return [self.bind(argument) for argument in trees]

    def _extract(self, tree: exp.Extract, site: Site) -> Node:
        node = self.bind(tree.expression)
        return later(of_seen_nulls(extracted(tree.this.name, node, site), (node,)))

    def _struct(self, tree: exp.Expression, site: Site) -> Node:
        """Returns a struct. A field is named by its alias, its column, or else its place."""
        fields: list[tuple[str | None, Node]] = []
        for argument in tree.expressions:
            if isinstance(argument, exp.Star) or isinstance(argument.this, exp.Star):
                fields += self._all_fields(argument, site)
                continue
            inner = argument.this if isinstance(argument, exp.Alias) else argument
            fields.append((_own_name(argument), self.bind(inner)))
        names = [name or f"col{place}" for place, (name, _) in enumerate(fields, start=1)]
        return structs.struct(names, [node for _, node in fields], site)

    def _all_fields(self, star: exp.Expr, site: Site) -> list[tuple[str | None, Node]]:
        """Returns the columns of `*`, or the fields of `s.*`."""
        if isinstance(star, exp.Star):
            return [(name, self._named([name], site)) for name in self._schema.names]
        assert isinstance(star, exp.Column)
        node = self._named([part.name for part in star.parts[:-1]], site)
        return [(name, structs.field(node, name, site)) for name in structs.names_of(node, site)]


def _own_name(argument: exp.Expression) -> str | None:
    """Returns the name that an expression gives to a field of a struct."""
    if isinstance(argument, (exp.Alias, exp.Column, exp.Dot)):
        return str(argument.alias_or_name)
    if isinstance(argument, exp.Identifier):
        return str(argument.name)
    if isinstance(argument, exp.Bracket) and argument.expressions[0].is_string:
        return str(argument.expressions[0].name)
    return None


def _names_type(tree: Any) -> bool:
    """Whether this is typeof, which is a constant of any argument."""
    return isinstance(tree, exp.Anonymous) and str(tree.name).lower() == "typeof"


def _right_first(operator: str, left: Node, right: Node) -> bool:
    """Whether Spark evaluates the right operand first: a divisor, a time beside what is added to it, an interval beside
    its factor."""
    spans = [is_interval(side.type) for side in (left, right)]
    if operator == "+":
        return not types.is_temporal(left.type) and (types.is_temporal(right.type) or spans == [True, False])
    if operator == "*" or any(spans):
        return operator == "*" and spans == [False, True]
    return operator != "-"
