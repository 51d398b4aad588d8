"""The arithmetic of bursts against a brute-force integral, a fluid queue, and the paper's own setting (sponge.txt 6.1):
five machines of four cores at 70 percent, 60 thousand events a second that become 300 thousand."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from stretto.elasticity.burst_prices import SECOND_NS, Prices, Spending, break_even_share
from stretto.elasticity.offloading import (
    Sample,
    events_in_queue,
    rate_per_core,
    simpson,
    target_throughput,
    transient_cores,
)

VM_CORES, BUSY = 20, 0.7
STABLE, BURST = 60_000.0, 300_000.0


def irregular(count: int, seed: int = 0) -> list[float]:
    chance = random.Random(seed)
    times = [0.0]
    for _ in range(count):
        times.append(times[-1] + chance.uniform(0.3, 0.7))
    return times


def riemann(value: object, begin: float, end: float, steps: int = 200_000) -> float:
    width = (end - begin) / steps
    return width * sum(value(begin + (step + 0.5) * width) for step in range(steps))  # type: ignore[operator]


def fitted(times: list[float], values: list[float], begin: float, end: float) -> float:
    """The integral of the parabola that is fitted to three samples."""
    integral = np.polyint(np.polyfit(times, values, 2))
    return float(np.polyval(integral, end) - np.polyval(integral, begin))


@pytest.mark.parametrize("count", range(2, 20))
def test_simpsons_rule_is_that_of_fitted_parabolas_at_unequal_distances(count: int) -> None:
    times = irregular(count, seed=count)
    values = [math.exp(math.sin(each)) for each in times]
    total = 0.0
    for first in range(0, count - 1, 2):
        total += fitted(times[first : first + 3], values[first : first + 3], times[first], times[first + 2])
    if count % 2:
        total += fitted(times[-3:], values[-3:], times[-2], times[-1])
    assert simpson(times, values) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 9])
def test_it_is_exact_for_parabolas(count: int) -> None:
    times = irregular(count)
    end = times[-1]
    assert simpson(times, [3 * t**2 - 2 * t + 7 for t in times]) == pytest.approx(end**3 - end**2 + 7 * end)


def test_the_queue_of_a_sine_burst_is_its_integral() -> None:
    """Figure 9 (b): the rate rises and falls on a sine curve, and what ordinary workers take stays."""

    def excess(second: float) -> float:
        return STABLE + (BURST - STABLE) * math.sin(math.pi * second / 60) - STABLE / BUSY

    begin = 60 / math.pi * math.asin((STABLE / BUSY - STABLE) / (BURST - STABLE))
    samples = [Sample(begin + each / 2, excess(begin + each / 2), 0.0) for each in range(50)]
    exact = riemann(excess, begin, samples[-1].time_s, steps=20_000)
    assert events_in_queue(samples) == pytest.approx(exact, rel=1e-4)


def test_a_queue_is_never_less_than_nothing() -> None:
    assert events_in_queue([]) == 0
    assert events_in_queue([Sample(0.0, 9.0, 1.0)]) == 0
    assert events_in_queue([Sample(0.0, 1.0, 3.0), Sample(1.0, 1.0, 3.0)]) == 0
    assert events_in_queue([Sample(0.0, 3.0, 1.0), Sample(2.0, 3.0, 1.0)]) == 4


@pytest.mark.parametrize("deadline_s", [1.0, 10.0])
@pytest.mark.parametrize("noticed_s", [0.5, 1.0, 3.0])
def test_what_has_piled_up_is_gone_by_the_deadline_and_not_before(deadline_s: float, noticed_s: float) -> None:
    most = rate_per_core(STABLE, VM_CORES * BUSY) * VM_CORES
    queued = events_in_queue([Sample(0.0, BURST, most), Sample(noticed_s, BURST, most)])
    throughput = target_throughput(BURST, queued, deadline_s)
    waiting, step_s = 0.0, 0.001
    gone_at = None
    for step in range(round((noticed_s + 2 * deadline_s) / step_s)):
        now = step * step_s
        waiting += step_s * (BURST - (most if now < noticed_s else throughput))
        if now > noticed_s and waiting <= 0 and gone_at is None:
            gone_at = now - noticed_s
    assert gone_at == pytest.approx(deadline_s, rel=0.01)


def test_the_papers_setting_needs_fewer_transient_cores_than_it_had() -> None:
    """A burst of five times that is noticed after a second, with windows that slide by a second: 200 were enough."""
    per_core = rate_per_core(STABLE, VM_CORES * BUSY)
    assert per_core == pytest.approx(60_000 / 14)
    most = per_core * VM_CORES
    queued = events_in_queue([Sample(0.0, BURST, most), Sample(1.0, BURST, most)])
    throughput = target_throughput(BURST, queued, 1.0)
    at_home = BUSY * VM_CORES * per_core
    cores = transient_cores(throughput - at_home, per_core, rho=1.0, target=BUSY)
    assert cores == math.ceil((300_000 + (300_000 - 60_000 / 0.7) - 60_000) / (0.7 * 60_000 / 14)) == 152
    # Once it is gone, four fifths of the burst are left to them.
    assert transient_cores(BURST - at_home, per_core, 1.0, BUSY) == 80


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0, 1.3])
def test_both_forms_of_equation_3_are_one(rho: float) -> None:
    usage_percent, rate, throughput = 63.0, 4_321.0, 98_765.0
    per_core = rate_per_core(rate, usage_percent / 100)
    printed = math.ceil(throughput * usage_percent / (0.7 * 100 * rho * rate))
    assert transient_cores(throughput, per_core, rho, 0.7) == printed


def test_a_whole_number_of_cores_is_not_rounded_up() -> None:
    assert transient_cores(0.7 * 3, 1.0, 1.0, 0.7) == 3
    assert transient_cores(0.0, 1.0, 1.0, 0.7) == 0


def test_the_break_even_share_of_figure_15() -> None:
    """80 transient cores (20 machines' worth) at four times the price, against machines that are always there."""
    prices = Prices()
    assert break_even_share(prices, transient=80, ordinary=20 * 4) == 0.25
    # Against 15 more machines, which do not suffice.
    assert break_even_share(prices, transient=80, ordinary=15 * 4) == pytest.approx(0.1875)


@pytest.mark.parametrize(("machines", "cheaper_up_to_percent"), [(20, 15), (25, 25)])
def test_in_steps_of_five_percent_figure_15_is_that_of_the_paper(machines: int, cheaper_up_to_percent: int) -> None:
    """The paper says 15 and 25 percent of a day. Both follow from five machines and 80 transient cores at four times
    the price only if shares are taken in steps, since the lines cross at 18.75 and 25: no price and number of cores has
    15 and 25, as long as all that Sponge pays for all day are five machines (the shares are as 15 to 20)."""
    prices = Prices()

    def sponge(percent: int) -> float:
        return 5 * 4 * prices.ordinary + percent / 100 * 80 * prices.transient

    cheaper = [percent for percent in range(0, 105, 5) if sponge(percent) <= machines * 4 * prices.ordinary]
    assert max(cheaper) == cheaper_up_to_percent


def test_transient_workers_are_dearer_after_the_break_even_share_of_the_time() -> None:
    prices = Prices(kept_s=100.0)
    spending = Spending(prices)
    second, dear_at = 0, None
    while dear_at is None and second < 100:
        spending.add(8, second * SECOND_NS, (second + 1) * SECOND_NS)
        second += 1
        if spending.is_dearer(8):
            dear_at = second
    assert dear_at == round(100 * break_even_share(prices, 8, 8)) == 25


def test_short_bursts_that_come_often_count_together_and_old_ones_do_not() -> None:
    spending = Spending(Prices(kept_s=100.0))
    for begin in (0, 20, 40):
        spending.add(8, begin * SECOND_NS, (begin + 9) * SECOND_NS)
    assert spending.is_dearer(8)
    spending.add(0, 140 * SECOND_NS, 141 * SECOND_NS)
    assert not spending.is_dearer(8)
    spending.add(8, 141 * SECOND_NS, 170 * SECOND_NS)
    assert spending.is_dearer(8)
    spending.forget()
    assert not spending.is_dearer(8)


def test_few_workers_are_not_worth_what_many_transient_ones_have_cost() -> None:
    spending = Spending(Prices(kept_s=100.0))
    spending.add(80, 0, 12 * SECOND_NS)
    # A worker that is added now costs 100, and of the 80 transient ones it stands for one: 48.
    assert not spending.is_dearer(1)
    assert not spending.is_dearer(80)
    spending.add(2, 12 * SECOND_NS, 25 * SECOND_NS)
    assert spending.is_dearer(2)
    assert not spending.is_dearer(3)


def test_prices_are_more_than_nothing() -> None:
    with pytest.raises(ValueError, match="more than nothing"):
        Prices(transient=0.0)
