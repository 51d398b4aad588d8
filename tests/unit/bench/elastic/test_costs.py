"""Costs of functions: per row and per batch, spread normally, waiting or computing."""

from __future__ import annotations

import time

import numpy as np
import pytest

from stretto.bench.elastic.costs import PAPER_DEVIATION, Cost, Spending
from stretto.errors import UserError

NUMBERS = np.arange(100)


def test_a_cost_is_per_row_and_per_batch() -> None:
    assert Cost().of_us(NUMBERS) == 0
    assert Cost(row_us=10, batch_us=500).of_us(NUMBERS) == 1_500
    assert Cost(row_us=10, batch_us=500).of_us(NUMBERS[:1]) == 510


def test_rows_cost_the_same_wherever_they_are_and_about_the_mean() -> None:
    cost = Cost(row_us=1_000, deviation=PAPER_DEVIATION)
    each = np.array([cost.of_us(np.array([number])) for number in range(20_000)])
    assert cost.of_us(np.arange(20_000)) == pytest.approx(each.sum())
    assert each.min() == 0
    # Of the normal distribution, what is below 0 counts as 0.
    assert 1_000 <= each.mean() <= 1_050
    assert each.std() == pytest.approx(1_000 * PAPER_DEVIATION, rel=0.1)


def test_waiting_takes_time_and_no_processor() -> None:
    began, computed = time.monotonic(), time.thread_time()
    Cost(batch_us=100_000).spend(NUMBERS)
    assert time.monotonic() - began >= 0.1
    assert time.thread_time() - computed < 0.05


def test_computing_takes_processor_time() -> None:
    computed = time.thread_time()
    Cost(row_us=500, spending=Spending.COMPUTE).spend(NUMBERS)
    assert time.thread_time() - computed >= 0.05


def test_a_negative_cost_is_refused() -> None:
    with pytest.raises(UserError, match="negative"):
        Cost(row_us=-1)
