"""The queueing model (elasticutor.txt 4.1): Erlang C exactly, and the greedy allocation against all others."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import ceil, factorial, inf, isclose, log

import pytest

from stretto.elasticity.queueing import (
    JobDemand,
    Station,
    allocate,
    erlang_b,
    erlang_c,
    least_cores,
    mean_allowed_s,
    response_s,
)


def exact_erlang_c(cores: int, load: Fraction) -> Fraction:
    """The textbook's sum: P(wait) in M/M/k."""
    last = load**cores / factorial(cores) * cores / (cores - load)
    return last / (sum((load**n / factorial(n) for n in range(cores)), Fraction(0)) + last)


@pytest.mark.parametrize("cores", [1, 2, 3, 8, 50, 200])
@pytest.mark.parametrize("share", [Fraction(1, 100), Fraction(1, 2), Fraction(9, 10), Fraction(999, 1000)])
def test_erlang_c_is_the_direct_summation(cores: int, share: Fraction) -> None:
    load = cores * share
    assert isclose(erlang_c(cores, float(load)), float(exact_erlang_c(cores, load)), rel_tol=1e-9)


def test_erlang_c_is_stable_for_a_thousand_cores() -> None:
    assert isclose(erlang_c(1000, 999.0), float(exact_erlang_c(1000, Fraction(999))), rel_tol=1e-9)
    assert 0.0 <= erlang_c(1000, 100.0) < 1e-300
    assert erlang_c(1000, 1000.0) == 1.0
    assert 0.0 < erlang_b(1000, 1000.0) < 0.05


def test_a_known_table_of_telephone_traffic() -> None:
    # Erlang B: 10 circuits and 4.461 erlang block one call in a hundred.
    assert erlang_b(10, 4.461) == pytest.approx(0.01, rel=1e-3)


def test_m_m_1_is_one_by_the_difference_of_the_rates() -> None:
    assert response_s(1, Station(60.0, 100.0)) == pytest.approx(1 / 40)
    assert response_s(1, Station(100.0, 100.0)) == inf


def test_m_m_2_by_its_closed_form() -> None:
    # W = 1 / (mu (1 - rho^2)) with rho = lambda / 2 mu.
    assert response_s(2, Station(150.0, 100.0)) == pytest.approx(1 / (100 * (1 - 0.75**2)))


def expected_latency_s(stations: Sequence[Station], cores: Sequence[int]) -> float:
    """E[T] of a job (equation 1)."""
    pairs = zip(stations, cores, strict=True)
    return sum(station.visits * response_s(k, station) for station, k in pairs if station.arrivals_per_s)


def test_the_sum_of_equation_1() -> None:
    # lambda_0 = 50: one station sees each input once, the other twice.
    stations = [Station(50.0, 100.0, visits=1.0), Station(100.0, 400.0, visits=2.0)]
    assert expected_latency_s(stations, [1, 1]) == pytest.approx(1 / 50 + 2 / 300)
    assert expected_latency_s([Station(0.0, 1.0)], [1]) == 0.0


@pytest.mark.parametrize(("load", "cores"), [(0.1, 2), (1.0, 2), (1.1, 3), (2.0, 3), (7.5, 9)])
def test_the_start_is_the_papers(load: float, cores: int) -> None:
    assert least_cores(load) == cores == ceil(load) + 1


def test_a_light_load_shares_its_home() -> None:
    assert least_cores(0.5, light=0.7) == 1
    assert least_cores(0.8, light=0.7) == 2


def test_a_percentile_allows_the_mean_of_an_exponential_distribution() -> None:
    assert mean_allowed_s(1.0, 99.0) == pytest.approx(1 / log(100))
    assert mean_allowed_s(1.0, 50.0) == pytest.approx(1 / log(2))
    assert mean_allowed_s(1.0, 100.0) == pytest.approx(mean_allowed_s(1.0, 99.99))


def stations_of(source: random.Random, count: int) -> tuple[Station, ...]:
    rate = source.uniform(50.0, 400.0)
    found = []
    for _ in range(count):
        visits = source.uniform(0.2, 2.0)
        found.append(Station(rate * visits, rate * visits / source.uniform(0.2, 3.0), visits))
    return tuple(found)


@pytest.mark.parametrize("seed", range(60))
def test_greedy_needs_as_few_cores_as_the_best_of_all_allocations(seed: int) -> None:
    source = random.Random(seed)
    stations = stations_of(source, source.randint(1, 3))
    fastest = sum(station.visits / station.services_per_s for station in stations)
    allowed = fastest * source.uniform(1.06, 1.6)
    found = allocate([JobDemand(stations, allowed)], 1000)
    assert found.latency_s[0] <= allowed
    assert found.latency_s[0] == pytest.approx(expected_latency_s(stations, found.cores[0]))
    start = [least_cores(station.load) for station in stations]
    most = sum(found.cores[0]) - sum(start)
    choices = product(*(range(least, least + most + 1) for least in start))
    fewest = min(sum(each) for each in choices if expected_latency_s(stations, each) <= allowed)
    assert sum(found.cores[0]) == fewest


@pytest.mark.parametrize("seed", range(60))
def test_with_too_few_cores_greedy_has_the_least_latency_of_all_allocations(seed: int) -> None:
    source = random.Random(seed)
    stations = stations_of(source, source.randint(2, 3))
    start = [least_cores(station.load) for station in stations]
    cores = sum(start) + source.randint(0, 6)
    found = allocate([JobDemand(stations, 1e-9)], cores)
    # An objective that no number of cores meets is tried for until 5 percent above the service times.
    used = sum(found.cores[0])
    assert used == cores or found.latency_s[0] <= 1.05 * sum(s.visits / s.services_per_s for s in stations)
    choices = product(*(range(least, least + used - sum(start) + 1) for least in start))
    best = min(expected_latency_s(stations, each) for each in choices if sum(each) == used)
    assert found.latency_s[0] == pytest.approx(best, rel=1e-9)


def test_objectives_come_first_and_the_others_get_what_is_left() -> None:
    urgent = JobDemand((Station(300.0, 100.0),), 0.0105)
    lax = JobDemand((Station(300.0, 100.0),), None)
    alone = allocate([urgent], 100).cores[0][0]
    assert alone > least_cores(3.0) == 4
    assert allocate([lax, urgent], 100).cores == ((4,), (alone,))
    assert allocate([lax, urgent], alone + 2).cores == ((2,), (alone,))
    assert allocate([lax, urgent], 3).cores == ((1,), (2,))


def test_two_objectives_share_by_what_each_core_gains() -> None:
    hasty = JobDemand((Station(300.0, 100.0),), 0.0102)
    calm = JobDemand((Station(300.0, 100.0),), 0.02)
    found = allocate([hasty, calm], 100)
    assert found.latency_s[0] <= 0.0105 + 1e-12
    assert found.latency_s[1] <= 0.02
    assert found.cores[0] > found.cores[1]


def test_too_few_cores_to_be_stable_go_to_the_most_overloaded() -> None:
    stations = (Station(600.0, 100.0), Station(200.0, 100.0))
    assert allocate([JobDemand(stations)], 6).cores == ((4, 2),)
    assert allocate([JobDemand(stations)], 2).cores == ((1, 1),)


def test_what_a_station_cannot_use_is_not_given_to_it_nor_in_vain_to_others() -> None:
    narrow = Station(300.0, 100.0, cores_max=2)
    wide = Station(100.0, 100.0)
    found = allocate([JobDemand((narrow, wide), 0.001)], 100)
    assert found.cores == ((2, 2),)
    assert found.left == 96


def test_an_objective_below_the_service_time_takes_only_what_helps() -> None:
    found = allocate([JobDemand((Station(100.0, 100.0),), 0.001)], 1000)
    assert found.latency_s[0] <= 0.0105
    assert found.cores[0][0] <= 5


def test_an_idle_station_keeps_its_home() -> None:
    assert allocate([JobDemand((Station(0.0, 1.0),), 0.1)], 10).cores == ((1,),)
