"""Checks an answer against that of a model: the same rows, and the rows of each key in the same order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.bench.verify import WITNESSES_PER_SIDE, Match, Side, Verdict, Witness, compare
from stretto.errors import UserError


@dataclass(frozen=True)
class Answer:
    """The right rows. The rows of each value of the column `key` are in the right order."""

    table: pa.Table
    key: str


def check(actual: pa.Table, expected: Answer) -> Verdict:
    """Returns whether the rows are those expected, and those of each key came in the right order.

    The actual rows must be in the order of their arrival. A mismatch has rows that are missing or not expected, or if
    there are none, rows that came out of order."""
    verdict = compare(actual, expected.table)
    if verdict.match is Match.MISMATCH:
        return verdict
    witness = _misplaced(actual.select(expected.table.column_names), expected)
    return replace(verdict, match=Match.MISMATCH, witness=witness) if witness else verdict


def check_all(actual: Mapping[str, pa.Table], expected: Mapping[str, Answer]) -> dict[str, Verdict]:
    """Returns the verdict on each answer, by the name of its sink."""
    missing = sorted(set(expected) - set(actual))
    if missing:
        raise UserError("an answer is missing", f"that of the sink '{missing[0]}'")
    return {name: check(actual[name], answer) for name, answer in expected.items()}


def _misplaced(actual: pa.Table, expected: Answer) -> tuple[Witness, ...]:
    """Returns some rows that came where another row of their key was expected. Floating-point columns do not count:
    they are equal only within a tolerance."""
    came, due = _by_key(actual, expected.key), _by_key(expected.table, expected.key)
    differs = np.zeros(len(came), np.bool_)
    for field in expected.table.schema:
        if not pa.types.is_floating(field.type):
            mine = actual.column(field.name).cast(field.type).take(came).to_pylist()
            theirs = expected.table.column(field.name).take(due).to_pylist()
            differs |= np.array([one != other for one, other in zip(mine, theirs, strict=True)], np.bool_)
    places = np.flatnonzero(differs)[:WITNESSES_PER_SIDE].tolist()
    return tuple(Witness(Side.ORDER, actual.slice(int(came[place]), 1).to_pylist()[0]) for place in places)


def _by_key(table: pa.Table, key: str) -> npt.NDArray[np.int64]:
    """Returns the places of the rows, key by key, the rows of a key in the table's order."""
    return np.argsort(table.column(key).to_numpy(), kind="stable").astype(np.int64)
