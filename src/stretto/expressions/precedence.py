"""Which operator binds tighter, as in Spark's grammar; sqlglot has || and all bit operators on one level.

From loose to tight: | then ^ then & then the shifts, then + - and ||, then * / % and div.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import TokenType

_SPARK_PARSER: Any = Spark.parser_class
_LEVELS: tuple[dict[TokenType, type[exp.Expression]], ...] = (
    {TokenType.PIPE: exp.BitwiseOr},
    {TokenType.CARET: exp.BitwiseXor},
    {TokenType.AMP: exp.BitwiseAnd},
)


class SparkPrecedence(_SPARK_PARSER):  # type: ignore[misc]
    """The part of the parser that reads operators between arithmetic and comparison."""

    TERM: ClassVar[dict[Any, Any]] = {**_SPARK_PARSER.TERM, TokenType.DPIPE: exp.DPipe}

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
            elif self._match_pair(TokenType.GT, TokenType.GT):
                name = "shiftrightunsigned" if self._match(TokenType.GT) else "shiftright"
            else:
                return tree
            tree = self.expression(exp.Anonymous(this=name, expressions=[tree, self._parse_term()]))
