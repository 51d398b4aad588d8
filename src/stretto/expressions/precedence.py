"""Which operator binds tighter, as in Spark's grammar; sqlglot has other levels.

From loose to tight: one test (IN, BETWEEN, LIKE, IS), then all comparisons, then | then ^ then & then the shifts, then
+ - and ||, then * / % and div. So `a > 1 IN (true)` is `(a > 1) IN (true)`, and `a = b < c` is `(a = b) < c`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import TokenType

from stretto.expressions.other_grammars import refuse_shift_after_type

_SPARK_PARSER: Any = Spark.parser_class
_COMPARISONS: dict[TokenType, type[exp.Expression]] = {**_SPARK_PARSER.EQUALITY, **_SPARK_PARSER.COMPARISON}
_LEVELS: tuple[dict[TokenType, type[exp.Expression]], ...] = (
    {TokenType.PIPE: exp.BitwiseOr},
    {TokenType.CARET: exp.BitwiseXor},
    {TokenType.AMP: exp.BitwiseAnd},
)


class SparkPrecedence(_SPARK_PARSER):  # type: ignore[misc]
    """The part of the parser that reads operators between arithmetic and comparison."""

    TERM: ClassVar[dict[Any, Any]] = {**_SPARK_PARSER.TERM, TokenType.DPIPE: exp.DPipe}

    def _parse_equality(self, parse_is: bool = True) -> Any:
        """Returns a value with the test behind it. What is behind that has no place in Spark's grammar, but one in the
        tree, where it is refused with words (`parse.py`)."""
        tree = self._parse_comparison()
        while True:
            index = self._index
            tree = self._parse_comparison(self._parse_range(tree, parse_is=parse_is))
            if self._index == index:
                return tree

    def _parse_comparison(self, this: Any = None) -> Any:
        tree = this or self._parse_bitwise()
        while self._match_set(_COMPARISONS):
            kind = _COMPARISONS[self._prev.token_type]
            tree = self.expression(kind(this=tree, expression=self._parse_bitwise()))
        return tree

    def _parse_bitwise(self) -> Any:
        return self._parse_level(0)

    def _parse_level(self, level: int) -> Any:
        if level == len(_LEVELS):
            return self._parse_shift()
        tree = self._parse_level(level + 1)
        while self._match_set(_LEVELS[level]):
            kind = _LEVELS[level][self._prev.token_type]
            tree = self.expression(kind(this=tree, expression=self._parse_level(level + 1)))
        return tree

    def _parse_shift(self) -> Any:
        tree = self._parse_term()
        while True:
            if self._match_pair(TokenType.LT, TokenType.LT):
                name = "shiftleft"
            elif self._match_pair(TokenType.GT, TokenType.GT, advance=False):
                refuse_shift_after_type(self._tokens[: self._index], self.sql)
                self._match_pair(TokenType.GT, TokenType.GT)
                name = "shiftrightunsigned" if self._match(TokenType.GT) else "shiftright"
            else:
                return tree
            tree = self.expression(exp.Anonymous(this=name, expressions=[tree, self._parse_term()]))
