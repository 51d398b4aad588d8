"""The controller of objectives on measured cases, small: near the clairvoyant bound, few decisions, no oscillation."""

from __future__ import annotations

from itertools import product

import pytest

from stretto.elasticity.transfers import Goal
from stretto.simulator.experiments.henge import (
    BATCHES_MAX,
    FUNCTIONS,
    HOUR_S,
    LEAST,
    LEVELS,
    STEP_S,
    Cases,
    Config,
    Experiment,
    Run,
    split,
)

HOURS = 14


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    """Five jobs from midnight to just after the peak: 14 hours of 10 minutes."""
    return Experiment(5, 4.0, HOURS, 1, lambda: None)


@pytest.fixture(scope="module")
def controlled(experiment: Experiment) -> Run:
    return experiment.controlled(Goal.TOTAL)


def utility(run: Run) -> float:
    found = run.summary(5)["utility"]
    assert isinstance(found, float)
    return found


def test_the_controller_is_near_the_bound_and_above_all_fixed_shares(experiment: Experiment, controlled: Run) -> None:
    fixed = [
        experiment.fixed({job.name: LEAST for job in experiment.jobs}),
        experiment.fixed(experiment.first_come()),
        experiment.fixed(experiment.equal()),
        experiment.fixed(experiment.manual()),
    ]
    bound = experiment.clairvoyant()
    for run in (*fixed, controlled):
        assert all(ours <= best + 1e-9 for ours, best in zip(run.shares, bound.shares, strict=True))
    assert utility(controlled) > max(map(utility, fixed))
    assert utility(bound) - utility(controlled) < 5 < utility(bound) - utility(fixed[0])


def test_the_controller_decides_seldom(controlled: Run) -> None:
    assert 0 < controlled.summary(5)["time_in_actions"] < 0.5
    # Reductions are a minute apart, and an hour of the trace has ten minutes; most of them need nothing.
    assert sum(controlled.steps.values()) <= 3 * HOURS


@pytest.mark.parametrize("level", [10, 16, 18, 20])
def test_under_a_load_that_stays_the_same_it_comes_to_rest(experiment: Experiment, level: int) -> None:
    """Also where units would go to and fro between equal jobs, since what is predicted for them never comes true."""
    quiet = Experiment(5, 4.0, 1, 1, lambda: None)
    quiet.cases = experiment.cases
    quiet.levels = [[level] * (6 * HOUR_S // STEP_S)] * 2
    run = quiet.controlled(Goal.TOTAL)
    assert sum(run.steps.values()) <= 10
    assert run.records[-1].at_ns / 1e9 <= 3 * HOUR_S  # Nothing in the second half of an hour.


def test_the_fair_goal_gives_more_to_who_has_least(experiment: Experiment, controlled: Run) -> None:
    fair = experiment.controlled(Goal.FAIR)
    assert fair.summary(5)["least"] > controlled.summary(5)["least"]


@pytest.mark.parametrize(("level", "config"), [(4, (1, 1, 1)), (12, (1, 1, 1)), (20, (1, 2, 1)), (20, (2, 3, 1))])
def test_juice_is_what_is_processed_of_what_arrives_also_behind_credits(level: int, config: Config) -> None:
    """A batch takes a join 8 ms, so each processes 125 of them in a second, however many are due."""
    joins = config[FUNCTIONS.index("join")]
    arrives = BATCHES_MAX * level / LEVELS
    assert Cases(1, lambda: None).at(level, config).juice == pytest.approx(min(1, 125 * joins / arrives), abs=0.05)


def test_the_bound_is_what_trying_all_divisions_finds() -> None:
    small = Experiment(2, 5.0, 1, 1, lambda: None)
    small.levels = [[18], [16]]
    totals = []
    for both in product(range(3, 8), repeat=2):
        if sum(both) <= small.units:
            cases = [
                small.cases.at(small.level(job, 0), split(units)) for job, units in zip(small.jobs, both, strict=True)
            ]
            totals.append(sum(case.utility(job.slo) for job, case in zip(small.jobs, cases, strict=True)))
    assert small.clairvoyant().shares == [pytest.approx(max(totals) / small.total_max)]
