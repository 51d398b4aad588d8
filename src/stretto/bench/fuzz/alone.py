"""Spark's answers for the rows of an expression one by one, where they depend on what is around the expression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stretto.bench.fuzz.answers import Answer, Answered, Refused
from stretto.bench.fuzz.plain import plain_values
from stretto.bench.fuzz.shrinking import Case
from stretto.bench.fuzz.sparks import FAILED, ROW, Mode, SparkOracle


class Alone:
    """Asks Spark about rows one by one."""

    def __init__(self, oracles: Mapping[Mode, SparkOracle]) -> None:
        self._oracles = oracles

    def apart(self, case: Case) -> Answer | None:
        """Returns Spark's answer for a case of which each row is evaluated by its own copy of the expression."""
        oracle = self._oracles[Mode.EARLY]
        rows = oracle.apart(case.term.text, case.rows)
        return None if rows is None else self._answered(oracle, case, rows)

    def in_branches(self, case: Case) -> Answer | None:
        """Returns Spark's answer for a case of which each row is evaluated in a branch of a condition, and optimized.

        There a constant that fails is no error of planning. Nor is it one of a row if the optimizer leaves it out,
        which the wrapping of other queries would keep it from."""
        oracle = self._oracles[Mode.OPTIMIZED]
        return self._answered(oracle, case, [_in_branch(oracle, case, row) for row in range(case.rows.num_rows)])

    def _answered(self, oracle: SparkOracle, case: Case, rows: list[Any]) -> Answer | None:
        kind = oracle.kinds([case.term.text], case.rows)[0]
        return None if isinstance(kind, Refused) else Answered(kind, rows)


def _in_branch(oracle: SparkOracle, case: Case, row: int) -> Any:
    try:
        column = oracle.column(f"if({ROW} = {row}, {case.term.text}, NULL)", "branch")
        table = oracle.frame(case.rows).select(column).toArrow()
    except Exception:  # An error of Spark's, or of PySpark's for a type that Arrow does not have.
        return FAILED
    return plain_values(table.column(0).combine_chunks())[row]
