"""How many rows a run may have, for functions whose cost depends on rows in different ways."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from stretto.scheduling.run_length import ROWS_AT_FIRST, RowCost

MS = 1_000_000
BOUND_NS = 10 * MS
MESSAGE_ROWS = 4096

Costs = Callable[[int], float]


def pieces(costs: Costs, count: int = 200, known: RowCost | None = None) -> list[tuple[int, float]]:
    """Runs messages of 4,096 rows in pieces; returns the rows and the cost of each piece."""
    row_cost = known or RowCost(BOUND_NS)
    found, left = [], MESSAGE_ROWS
    for _ in range(count):
        rows = min(left, row_cost.rows)
        cost_ns = costs(rows)
        row_cost.learn(rows, round(cost_ns))
        found.append((rows, cost_ns))
        left = left - rows or MESSAGE_ROWS
    return found


def test_the_first_piece_is_small_and_the_next_ones_grow() -> None:
    rows = [rows for rows, _ in pieces(lambda rows: 2 * MS + rows * 1_000, 4)]
    assert rows[0] == ROWS_AT_FIRST
    assert rows == sorted(rows)
    assert rows[-1] > 20


def test_what_is_cheap_is_not_cut_for_want_of_experience() -> None:
    """One row in 20 us: five hundred cannot be over the bound."""
    assert pieces(lambda rows: 20_000 + rows * 10.0, 2)[1][0] == BOUND_NS // 20_010


def test_noise_of_cheap_runs_is_of_no_account() -> None:
    chance = random.Random(1)
    found = pieces(lambda rows: 20_000 * chance.uniform(0.5, 30), 300)[10:]
    assert sum(rows for rows, _ in found) / len(found) > MESSAGE_ROWS / 2


@pytest.mark.parametrize("per_row_ns", [2_000, 50_000, 400_000, 3_000_000])
def test_a_costly_function_stays_within_the_bound(per_row_ns: int) -> None:
    found = pieces(lambda rows: 100_000 + rows * per_row_ns)
    assert max(cost_ns for _, cost_ns in found) <= 1.3 * BOUND_NS
    assert sum(cost_ns for _, cost_ns in found[20:]) / len(found[20:]) > BOUND_NS / 4, "pieces are not needlessly small"


def test_a_cheap_function_gets_its_messages_whole() -> None:
    assert [rows for rows, _ in pieces(lambda rows: 100_000 + rows * 100)][-1] == MESSAGE_ROWS


@pytest.mark.parametrize("fixed_ms", [30, 300])
def test_a_function_whose_cost_does_not_depend_on_rows_is_not_cut(fixed_ms: int) -> None:
    """Each piece would cost as much as the whole."""
    assert [rows for rows, _ in pieces(lambda rows: fixed_ms * MS + rows * 10)][-1] == MESSAGE_ROWS


def test_the_fixed_part_never_outweighs_the_rest_by_much() -> None:
    """A fixed part of 20 ms and 100 us a row: 4,096 rows cost 430 ms at once, and at most twice that in pieces."""
    found = pieces(lambda rows: 20 * MS + rows * 100_000, 500)[50:]
    per_row_ns = sum(cost_ns for _, cost_ns in found) / sum(rows for rows, _ in found)
    assert per_row_ns <= 2.2 * (20 * MS / MESSAGE_ROWS + 100_000)
    assert max(cost_ns for _, cost_ns in found) < 100 * MS


def test_a_row_that_is_too_long_alone_runs_alone() -> None:
    rows = [rows for rows, _ in pieces(lambda rows: rows * 1_000 * MS)]
    assert rows.count(1) > 0.9 * len(rows)
    assert set(rows) == {1, 2}, "whether two rows cost as much as one is tried out at times"


def test_a_slow_first_run_is_forgotten() -> None:
    row_cost = RowCost(BOUND_NS)
    row_cost.learn(1, 500 * MS)
    assert max(rows for rows, _ in pieces(lambda rows: 100_000 + rows * 100, 60, row_cost)) == MESSAGE_ROWS


def test_a_function_that_becomes_slower_is_cut_smaller() -> None:
    row_cost = RowCost(BOUND_NS)
    pieces(lambda rows: rows * 1_000, 50, row_cost)
    later = pieces(lambda rows: rows * 100_000, 50, row_cost)
    assert max(cost_ns for _, cost_ns in later[5:]) <= 1.3 * BOUND_NS


def test_noise_does_not_break_the_bound_for_long() -> None:
    chance = random.Random(1)
    found = pieces(lambda rows: (0.2 * MS + rows * 20_000) * chance.uniform(0.7, 1.6), 1_000)[20:]
    late = sum(cost_ns > 2 * BOUND_NS for _, cost_ns in found)
    assert late < 0.02 * len(found)
    assert sum(rows for rows, _ in found) / len(found) > 100


@pytest.mark.parametrize("seed", range(5))
def test_runs_that_the_machine_holds_up_do_not_make_pieces_long(seed: int) -> None:
    """One in ten runs takes up to 30 ms longer than it should."""
    chance = random.Random(seed)
    proper: list[float] = []

    def costs(rows: int) -> float:
        proper.append(0.1 * MS + rows * 30_000)
        return proper[-1] + (chance.uniform(0, 30 * MS) if chance.random() < 0.1 else 0)

    pieces(costs, 1_000)
    assert sorted(proper)[int(0.99 * len(proper))] < 4 * BOUND_NS
