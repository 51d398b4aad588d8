"""What the binder reads of each kind of node in sqlglot's tree. Whatever else a text says is refused before binding.

sqlglot parses more than Spark's grammar and more than the binder knows, and marks the difference by a node's class or
by one of its arguments: `* EXCEPT (b)` is a star with an `except_`. A form that does not look at an argument would
return another answer than the text asks for, so every argument that is set must be in this table.

To add a form: an entry here with the arguments that it reads, and one in the table of `binder.py`.
"""

from __future__ import annotations

from sqlglot import exp

from stretto.errors import ExpressionError
from stretto.expressions.nodes import Site

_BOTH = ("this", "expression")
_OPERATORS = (
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Mod,
    exp.IntDiv,
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.And,
    exp.Or,
    exp.Is,
    exp.Escape,
    exp.Dot,
    exp.BitwiseAnd,
    exp.BitwiseOr,
    exp.BitwiseXor,
)
READS: dict[type[exp.Expr], tuple[str, ...]] = {
    **dict.fromkeys(_OPERATORS, _BOTH),
    # `typed` and `safe` are sqlglot's notes about the dialect, the same for every text.
    exp.Div: (*_BOTH, "typed", "safe"),
    exp.DPipe: (*_BOTH, "safe"),
    exp.Paren: ("this",),
    exp.Neg: ("this",),
    exp.BitwiseNot: ("this",),
    exp.Not: ("this",),
    exp.Column: ("this", "table", "db", "catalog"),
    exp.Identifier: ("this", "quoted"),
    exp.Var: ("this",),
    exp.Star: (),
    exp.Literal: ("this", "is_string"),
    exp.RawString: ("this",),
    exp.HexString: ("this",),
    exp.Concat: ("expressions",),
    exp.Boolean: ("this",),
    exp.Null: (),
    exp.Interval: ("this", "unit"),
    exp.IntervalSpan: _BOTH,
    exp.Extract: _BOTH,
    exp.In: ("this", "expressions"),
    exp.Between: ("this", "low", "high"),
    exp.Like: (*_BOTH, "negate"),
    exp.ILike: (*_BOTH, "negate"),
    exp.RegexpLike: (*_BOTH, "negate"),
    # Only behind LIKE.
    exp.Any: ("this",),
    exp.All: ("this",),
    exp.Tuple: ("expressions",),
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true", "false"),
    exp.Cast: ("this", "to"),
    exp.TryCast: ("this", "to", "safe"),
    exp.Anonymous: ("this", "expressions"),
    exp.Bracket: ("this", "expressions"),
    exp.Lambda: ("this", "expressions"),
    exp.Tuple: ("expressions",),
    exp.Alias: ("this", "alias"),
    # Types. `nested` is sqlglot's note of the brackets; `kind` is the name of a type that Spark does not have.
    exp.DataType: ("this", "expressions", "nested", "kind"),
    exp.DataTypeParam: ("this",),
    exp.ColumnDef: ("this", "kind", "constraints"),
    exp.ColumnConstraint: ("kind",),
    exp.NotNullColumnConstraint: (),
    exp.CommentColumnConstraint: ("this",),
}

_PYTHON = "use a function of Spark SQL that does the same, or map() with a Python function"
_QUERY = ("a query inside an expression", "join the streams instead")
_STAR = ("a star", "name one column; select takes '*' and '* EXCEPT (column, ...)'")
#: What users call a kind of node that has no form, and what they can write instead.
_KINDS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Query: _QUERY,
    exp.Exists: _QUERY,
    exp.Star: _STAR,
    exp.Window: ("OVER (...)", "use a window of the stream, for example key_by(...).window(...).aggregate(...)"),
    exp.Filter: ("FILTER (WHERE ...)", "use if(condition, value, NULL) inside the aggregate"),
    exp.WithinGroup: ("WITHIN GROUP (...)", "use quantile(value, fraction) in aggregate"),
    exp.IgnoreNulls: ("IGNORE NULLS", "filter the nulls out first"),
    exp.RespectNulls: ("RESPECT NULLS", "leave it out"),
    exp.Distinct: ("DISTINCT", "only count(DISTINCT x) in aggregate takes it"),
    exp.Lambda: ("a function with -> here", "it is an argument of transform, filter, aggregate and their like"),
    exp.JSONExtract: ("->", "-> makes a function inside the parentheses of another; reach a field with a point"),
    exp.Kwarg: ("an argument with a name", "pass the arguments in their order"),
    exp.PropertyEQ: ("an assignment with :=", "compare with ="),
    exp.Array: ("a list in [...]", "write array(...)"),
    exp.Slice: ("a slice in [...]", "write slice(array, start, length)"),
    exp.Any: ("ANY or SOME", "combine the conditions with OR"),
    exp.All: ("ALL", "combine the conditions with AND"),
    exp.Alias: ("a name with AS", "only a whole expression and the fields of struct(...) have names"),
    exp.Aliases: ("several names with AS", "give one name"),
    exp.Placeholder: ("a parameter", "put the value into the text"),
    exp.Parameter: ("a parameter", "put the value into the text"),
    exp.AtTimeZone: ("AT TIME ZONE", "use from_utc_timestamp or to_utc_timestamp"),
    exp.Collate: ("COLLATE", "strings are compared by their bytes; use lower() to ignore case"),
    exp.JSON: ("IS JSON", _PYTHON),
}
#: The same for a part of a node that has a form.
_PARTS: dict[tuple[type[exp.Expr], str], tuple[str, str]] = {
    (exp.In, "query"): ("a query after IN", "join the streams instead"),
    (exp.In, "field"): ("IN without parentheses", "list the values: x IN (1, 2)"),
    (exp.In, "unnest"): ("IN with UNNEST", "list the values: x IN (1, 2)"),
    (exp.Between, "symmetric"): ("BETWEEN SYMMETRIC", "it is not Spark SQL; use least() and greatest()"),
    (exp.Star, "except_"): _STAR,
    (exp.Star, "replace"): ("* REPLACE (...)", "it is not Spark SQL; name the columns"),
    (exp.Star, "rename"): ("* RENAME (...)", "it is not Spark SQL; name the columns, with AS"),
    (exp.Star, "ilike"): ("* ILIKE", "it is not Spark SQL; name the columns"),
    (exp.DataType, "collate"): ("a type with COLLATE", "strings are compared by their bytes; leave COLLATE out"),
    (exp.Cast, "format"): ("CAST with FORMAT", "it is not Spark SQL; cast without it"),
    (exp.TryCast, "format"): ("CAST with FORMAT", "it is not Spark SQL; cast without it"),
}


def refuse_unread(tree: exp.Expr, whole: str) -> None:
    """Raises if a part of the tree is one that the binder does not read."""
    for node in tree.walk():
        read = READS.get(type(node))
        if read is None:
            raise unsupported(Site(node, whole))
        for name, value in node.args.items():
            if value and name not in read:
                raise _unsupported_part(node, name, whole)


def unsupported(site: Site) -> ExpressionError:
    """Returns the error for a node that has no form, in the user's words."""
    for kind in type(site.tree).__mro__:
        if kind in _KINDS:
            return _refusal(*_KINDS[kind], site)
    return _refusal("this form", _PYTHON, site)


def _unsupported_part(node: exp.Expr, name: str, whole: str) -> ExpressionError:
    named = _PARTS.get((type(node), name))
    if named is not None:
        return _refusal(*named, Site(node, whole))
    value = node.args[name]
    part = value[0] if isinstance(value, list) else value
    return _refusal("an addition", _PYTHON, Site(part if isinstance(part, exp.Expr) else node, whole))


def _refusal(what: str, fix: str, site: Site) -> ExpressionError:
    return site.error(f"{what} is not supported", f"at position {site.position}", fix)
