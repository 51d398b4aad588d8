"""Balancing, allocation and assignment over any input: what they promise holds, and the same input gives the same."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stretto.elasticity.assignment import AssignmentProblem, assign, give_back, migration_bytes
from stretto.elasticity.balancing import Balanced, balance
from stretto.elasticity.queueing import JobDemand, Station, allocate, erlang_c, response_s

COSTS = st.one_of(st.just(0.0), st.floats(0.001, 5.0))


@st.composite
def shards(draw: st.DrawFn) -> tuple[list[float], list[int], list[float]]:
    """Costs, owners, and capacities of which at least one is not zero."""
    capacities = [draw(st.floats(0.1, 2.0)), *draw(st.lists(st.one_of(st.just(0.0), st.floats(0.1, 2.0)), max_size=6))]
    costs = draw(st.lists(COSTS, max_size=60))
    owners = draw(st.lists(st.integers(0, len(capacities) - 1), min_size=len(costs), max_size=len(costs)))
    return costs, owners, capacities


@given(shards(), st.floats(1.0, 1.5))
def test_balancing_moves_each_shard_once_empties_what_leaves_and_never_makes_it_worse(
    case: tuple[list[float], list[int], list[float]], theta: float
) -> None:
    costs, owners, capacities = case
    result = balance(costs, owners, capacities, theta)
    now = list(owners)
    for shard, source, target in result.moves:
        assert now[shard] == source == owners[shard]
        assert source != target
        now[shard] = target
    assert len({shard for shard, _, _ in result.moves}) == len(result.moves)
    assert all(capacities[owner] > 0 for owner in now)
    if all(capacities[owner] > 0 for owner in owners):
        assert result.after <= result.before * (1 + 1e-9)
    if result.ended is Balanced.WITHIN:
        assert result.after <= theta * (1 + 1e-6)
    assert result.after < inf
    assert balance(costs, owners, capacities, theta) == result


@given(shards())
def test_what_was_balanced_needs_no_further_move(case: tuple[list[float], list[int], list[float]]) -> None:
    costs, owners, capacities = case
    result = balance(costs, owners, capacities)
    now = list(owners)
    for shard, _, target in result.moves:
        now[shard] = target
    if result.ended is not Balanced.BOUNDED:
        assert balance(costs, now, capacities).moves == ()


@given(st.floats(0.01, 400.0), st.integers(1, 500))
def test_more_cores_never_make_anybody_wait_longer(load: float, cores: int) -> None:
    here, more = erlang_c(cores, load), erlang_c(cores + 1, load)
    assert 0.0 <= more <= here <= 1.0


def expected_latency_s(stations: Sequence[Station], cores: Sequence[int]) -> float:
    """E[T] of a job (equation 1)."""
    pairs = zip(stations, cores, strict=True)
    return sum(station.visits * response_s(k, station) for station, k in pairs if station.arrivals_per_s)


STATIONS = st.builds(
    Station,
    arrivals_per_s=st.one_of(st.just(0.0), st.floats(1.0, 1000.0)),
    services_per_s=st.floats(50.0, 1000.0),
    visits=st.floats(0.1, 3.0),
    cores_max=st.integers(1, 30),
)
JOBS = st.builds(
    JobDemand,
    stations=st.lists(STATIONS, min_size=1, max_size=4).map(tuple),
    latency_s_max=st.one_of(st.none(), st.floats(0.001, 1.0)),
)


@given(st.lists(JOBS, min_size=1, max_size=4), st.integers(0, 80), st.floats(0.0, 1.0))
def test_no_more_cores_are_given_than_there_are_and_everybody_has_one(
    jobs: list[JobDemand], more: int, light: float
) -> None:
    cores = sum(len(job.stations) for job in jobs) + more
    found = allocate(jobs, cores, light)
    assert sum(sum(each) for each in found.cores) + found.left == cores
    for job, given_cores, latency_s in zip(jobs, found.cores, found.latency_s, strict=True):
        assert all(1 <= k <= station.cores_max for k, station in zip(given_cores, job.stations, strict=True))
        expected = expected_latency_s(job.stations, given_cores)
        assert latency_s == expected or abs(latency_s - expected) <= 1e-9 * expected
    # More cores make no job with an objective slower: those come first.
    richer = allocate(jobs, cores + 1, light)
    assert sum(sum(each) for each in richer.cores) >= sum(sum(each) for each in found.cores)


@st.composite
def problems(draw: st.DrawFn) -> AssignmentProblem:
    """A cluster with some assignment that fits, and any wishes."""
    nodes, executors = draw(st.integers(1, 6)), draw(st.integers(1, 10))
    homes = np.array(draw(st.lists(st.integers(0, nodes - 1), min_size=executors, max_size=executors)))
    free = np.array(draw(st.lists(st.integers(0, 6), min_size=nodes, max_size=nodes)))
    cores = free + np.bincount(homes, minlength=nodes)
    current = np.zeros((nodes, executors), np.int64)
    current[homes, np.arange(executors)] = 1
    for node in range(nodes):
        count = int(free[node])
        for owner in draw(st.lists(st.integers(-1, executors - 1), min_size=count, max_size=count)):
            if owner >= 0:
                current[node, owner] += 1
    wanted = np.array(draw(st.lists(st.integers(1, 6), min_size=executors, max_size=executors)))
    state = np.array(draw(st.lists(st.floats(0.0, 1e9), min_size=executors, max_size=executors)))
    rates = np.array(draw(st.lists(st.floats(0.0, 1e8), min_size=executors, max_size=executors)))
    lost = np.array(draw(st.lists(st.integers(0, 2), min_size=nodes, max_size=nodes)))
    cores = np.maximum(cores - lost, np.bincount(homes, minlength=nodes))
    return AssignmentProblem(cores, wanted, homes, state, rates, current)


@settings(max_examples=300)
@given(problems(), st.booleans())
def test_every_assignment_is_within_its_constraints(asked: AssignmentProblem, blind: bool) -> None:
    found = assign(asked, blind=blind)
    if found is None:
        assert asked.wanted.sum() > asked.cores.sum()
        return
    executors = np.arange(len(asked.homes))
    assert (found.cores >= 0).all()
    assert (found.cores.sum(axis=1) <= asked.cores).all()
    assert (found.cores.sum(axis=0) >= asked.wanted).all()
    assert (found.cores[asked.homes, executors] >= 1).all()
    for j in np.flatnonzero(asked.intensity > found.threshold):
        assert found.cores[asked.homes[j], j] == found.cores[:, j].sum()
    assert found.moved_bytes == pytest.approx(migration_bytes(asked.state_bytes, asked.current, found.cores))
    kept = give_back(found.cores, asked.wanted, asked.homes, asked.state_bytes)
    assert (kept.sum(axis=0) == asked.wanted).all()
    assert (kept <= found.cores).all()
    assert (kept[asked.homes, executors] >= 1).all()
    again = assign(asked, blind=blind)
    assert again is not None
    assert (again.cores == found.cores).all()


@given(problems())
def test_who_has_what_it_wants_where_it_wants_it_keeps_it(asked: AssignmentProblem) -> None:
    current = np.minimum(asked.current, asked.cores[:, None])
    fits = (asked.current.sum(axis=1) <= asked.cores).all()
    calm = AssignmentProblem(
        asked.cores, current.sum(axis=0), asked.homes, asked.state_bytes, np.zeros(len(asked.homes)), current
    )
    if fits:
        found = assign(calm)
        assert found is not None
        assert (found.cores == current).all()
        assert found.moved_bytes == 0.0
