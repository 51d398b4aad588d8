"""Spark's grammar of intervals and of `extract`; sqlglot reads intervals of many dialects, and rewrites their texts."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from stretto.expressions.precedence import SparkPrecedence

_UNITS = frozenset(
    ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond", "nanosecond")
)


class SparkTimes(SparkPrecedence):
    """The part of the parser that reads `INTERVAL 1 DAY 2 HOURS` and `extract(field FROM x)`."""

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> Any:
        index = self._index
        if not self._match(TokenType.INTERVAL):
            return None
        tree = self._parse_amount()
        if tree is None:  # A column may have this name.
            self._retreat(index)
            return None
        while self._next_is_amount():
            tree = self.expression(exp.Add(this=tree, expression=self._parse_amount()))
        return tree

    def _parse_amount(self) -> Any:
        """Returns one amount with its unit, if it has one, or with two units around TO; None if no literal follows."""
        index = self._index
        negative = self._match(TokenType.DASH)
        if not negative:
            self._match(TokenType.PLUS)
        if not self._match_set((TokenType.NUMBER, TokenType.STRING)):
            self._retreat(index)
            return None
        is_number = self._prev.token_type == TokenType.NUMBER
        amount: Any = exp.Literal.string(self._prev.text)
        unit: Any = self._parse_unit(required=is_number)
        if unit is not None and self._match_text_seq("TO"):
            unit = self.expression(exp.IntervalSpan(this=unit, expression=self._parse_unit(required=True)))
        return self.expression(exp.Interval(this=exp.Neg(this=amount) if negative else amount, unit=unit))

    def _parse_unit(self, required: bool) -> Any:
        if self._curr is not None and (required or self._curr.text.lower().removesuffix("s") in _UNITS):
            return self._parse_var(any_token=True)
        if required:
            self.raise_error("a unit of the interval")
        return None

    def _next_is_amount(self) -> bool:
        """Whether another amount with its unit follows, as in INTERVAL 1 DAY 2 HOURS."""
        index = self._index
        self._match_set((TokenType.DASH, TokenType.PLUS))
        signed = self._index > index
        found = self._match_set((TokenType.NUMBER, TokenType.STRING))
        unit = found and self._curr is not None and self._curr.text.lower().removesuffix("s") in _UNITS
        self._retreat(index)
        return bool(unit) and not signed

    def parse_field_of(self) -> Any:
        """Returns the tree of what is inside the parentheses of extract."""
        field = self._parse_var_or_string()
        if not self._match(TokenType.FROM):
            self.raise_error("FROM after the field")
        return self.expression(exp.Extract(this=field, expression=self._parse_bitwise()))
