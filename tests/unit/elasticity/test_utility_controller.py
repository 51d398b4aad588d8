"""Henge's state machine (thesis 3.2), step by step, on a model of jobs whose functions get units."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from stretto.api.slo import SLO, objective
from stretto.elasticity.decisions import GiveCapacity, TakeCapacity
from stretto.elasticity.intents import FunctionStanding, IntentView, JobStanding
from stretto.elasticity.records import DecisionRecord, Outcome, Trigger
from stretto.elasticity.transfers import Goal, best_transfer, wanted_units
from stretto.elasticity.utility_controller import SECOND_NS, IntentMachine, IntentSettings, Step

TEN = 10 * SECOND_NS


def job(name: str, slo: SLO, loads: Mapping[str, tuple[int, float]], latency_ms: float | None = None) -> JobStanding:
    """A job whose functions have units and loads; its juice is what the fullest lets pass."""
    functions = {each: FunctionStanding(each, units, load) for each, (units, load) in loads.items()}
    passes = min(1.0, 1 / max(load for _, load in loads.values()))
    return JobStanding(name, slo, latency_ms, passes, functions, rows_per_s=100.0)


def view(*jobs: JobStanding, spare: int = 0) -> IntentView:
    return IntentView({each.name: each for each in jobs}, spare)


def asked(records: list[DecisionRecord]) -> dict[str, int]:
    """What records ask for, by job and function."""
    found = {}
    for record in records:
        decision = record.decision
        assert isinstance(decision, GiveCapacity | TakeCapacity)
        found[f"{record.job}/{record.function}"] = (
            decision.units if isinstance(decision, GiveCapacity) else -decision.units
        )
    return found


def carried_out(before: IntentView, records: list[DecisionRecord]) -> IntentView:
    """The world does what the model predicts."""
    changes = {(each.job, each.function): before.units[each.job, each.function] for each in records}
    for record in records:
        decision = record.decision
        assert isinstance(decision, GiveCapacity | TakeCapacity)
        sign = 1 if isinstance(decision, GiveCapacity) else -1
        changes[record.job, record.function] += sign * decision.units
    return before.with_units(changes)


FULL_JUICE = objective(throughput=1.0)


def test_units_are_wanted_in_proportion_to_load_and_at_most_doubled() -> None:
    found = job("a", FULL_JUICE, {"light": (4, 0.5), "full": (4, 1.0), "over": (4, 3.0)})
    assert wanted_units(found, 0.7) == {"full": 2, "over": 4}
    assert wanted_units(job("a", FULL_JUICE, {"x": (4, 0.3), "y": (4, 0.6)}), 0.7) == {"y": 1}


def test_jobs_that_meet_their_objectives_are_left_alone() -> None:
    machine = IntentMachine()
    content = view(job("a", FULL_JUICE, {"f": (2, 0.9)}), spare=10)
    assert machine.decide(content, TEN) == []
    assert machine.last is Step.NONE


def test_a_job_that_misses_gets_spare_units_where_it_is_congested_with_a_record_that_says_why() -> None:
    machine = IntentMachine()
    now = view(
        job("a", FULL_JUICE, {"light": (2, 0.3), "over": (4, 1.6)}), job("b", FULL_JUICE, {"f": (2, 0.5)}), spare=9
    )
    records = machine.decide(now, TEN)
    assert asked(records) == {"a/over": 4}
    (record,) = records
    assert record.trigger is Trigger.OBJECTIVE
    assert record.outcome is Outcome.PENDING
    assert record.seen["utility"] == pytest.approx(1 / 1.6)
    assert record.seen["load"] == 1.6
    chosen, stay, other = record.candidates
    assert chosen.lost_because is None
    assert chosen.predicted["utility"] == 1.0
    assert stay.lost_because == "the objective would be missed"
    assert (other.what, other.lost_because) == ("give 4 units to light", "it is less full")


def test_it_waits_until_a_step_has_settled() -> None:
    machine = IntentMachine()
    now = view(job("a", FULL_JUICE, {"f": (1, 9.0)}), spare=1)
    assert machine.decide(now, TEN)
    assert machine.decide(now, 2 * TEN) == []
    again = view(job("a", FULL_JUICE, {"f": (2, 4.5)}), spare=1)
    assert asked(machine.decide(again, 3 * TEN)) == {"a/f": 1}


def test_those_that_lack_most_come_first_and_nobody_hogs() -> None:
    high = job("high", objective(throughput=1.0, priority=5), {"f": (4, 4.0)})
    low = job("low", FULL_JUICE, {"f": (4, 1.2)})
    assert asked(IntentMachine().decide(view(low, high, spare=1), TEN)) == {"high/f": 1}
    # low wants 3, so it gets them though high, which wants 4, came first.
    assert asked(IntentMachine().decide(view(low, high, spare=6), TEN)) == {"high/f": 3, "low/f": 3}


def test_reduction_takes_from_those_that_have_more_than_they_need_and_only_if_there_are_no_spare_units() -> None:
    rich = job("rich", FULL_JUICE, {"f": (8, 0.3)})
    poor = job("poor", FULL_JUICE, {"f": (4, 2.0)})
    assert asked(IntentMachine().decide(view(rich, poor, spare=1), TEN)) == {"poor/f": 1}
    machine = IntentMachine()
    records = machine.decide(view(rich, poor), TEN)
    found = asked(records)
    assert found["poor/f"] == -found["rich/f"] > 0
    assert machine.last is Step.REDUCTION
    taken = next(record for record in records if record.job == "rich")
    assert taken.trigger is Trigger.ROBBED
    assert taken.candidates[1].lost_because == "another job gains more by these units"


def test_reductions_are_rare() -> None:
    machine = IntentMachine(settings=IntentSettings(reduce_share=0.1))
    now = view(job("rich", FULL_JUICE, {"f": (16, 0.2)}), job("poor", FULL_JUICE, {"f": (4, 3.0)}))
    first = machine.decide(now, TEN)
    assert first
    now = carried_out(now, first)
    times = [at for at in range(2, 9) if machine.decide(now, at * TEN)]
    assert times == [7]


def test_units_move_between_jobs_that_both_miss_only_where_the_total_rises() -> None:
    dear = job("dear", objective(throughput=1.0, priority=10), {"f": (4, 2.0)})
    cheap = job("cheap", FULL_JUICE, {"f": (4, 2.0)})
    records = IntentMachine().decide(view(dear, cheap), TEN)
    found = asked(records)
    assert found["dear/f"] > 0 > found["cheap/f"]
    # Of two equal ones, nobody gains what the other does not lose.
    equal = view(dear, job("equal", objective(throughput=1.0, priority=10), {"f": (4, 2.0)}))
    assert IntentMachine().decide(equal, TEN) == []


def test_a_job_that_gains_by_several_units_only_gets_several_or_none() -> None:
    step = job("step", objective(throughput=1.0, utility="step", priority=3), {"f": (4, 1.4)})
    knee = job("knee", FULL_JUICE, {"f": (8, 1.0)})
    found = best_transfer(view(step, knee), "step", {"f": 4}, Goal.TOTAL, 0.005, 4)
    assert found is not None
    assert found.units == {("step", "f"): 6, ("knee", "f"): 6}
    assert found.gain == pytest.approx((3 - 0.25) / 4)


def test_the_fair_goal_raises_the_least_utility_at_the_cost_of_the_total() -> None:
    dear = job("dear", objective(throughput=1.0, priority=10), {"f": (6, 1.2)})
    cheap = job("cheap", FULL_JUICE, {"f": (2, 4.0)})
    now = view(dear, cheap)
    by_total = asked(IntentMachine(goal=Goal.TOTAL).decide(now, TEN))
    assert by_total["dear/f"] > 0 > by_total["cheap/f"]
    records = IntentMachine(goal=Goal.FAIR).decide(now, TEN)
    found = asked(records)
    assert found["cheap/f"] > 0 > found["dear/f"]
    after = carried_out(now, records)
    assert after.least > now.least
    assert after.total < now.total


def test_when_utility_fell_the_best_configuration_is_restored() -> None:
    machine = IntentMachine()
    rich = job("rich", FULL_JUICE, {"f": (8, 0.4)})
    poor = job("poor", FULL_JUICE, {"f": (4, 1.3)})
    now = view(rich, poor)
    first = machine.decide(now, TEN)
    taken = -asked(first)["rich/f"]
    # The world is not as predicted: what was taken from the rich one was needed.
    worse = view(job("rich", FULL_JUICE, {"f": (8 - taken, 3.0)}), job("poor", FULL_JUICE, {"f": (4 + taken, 1.2)}))
    back = machine.decide(worse, 3 * TEN)
    assert asked(back) == {"poor/f": -taken, "rich/f": taken}
    assert machine.last is Step.REVERSION
    assert all(record.trigger is Trigger.UTILITY_FELL for record in back)
    # And it does not try the same again soon.
    assert [at for at in range(5, 33) if machine.decide(now, at * TEN)] == []


def test_a_fall_that_the_load_explains_is_not_reverted() -> None:
    machine = IntentMachine()
    now = view(job("a", FULL_JUICE, {"f": (4, 1.3)}), spare=2)
    assert machine.decide(now, TEN)
    surge = JobStanding("a", FULL_JUICE, None, 0.4, {"f": FunctionStanding("f", 6, 2.5)}, rows_per_s=300.0)
    assert asked(machine.decide(view(surge, spare=2), 3 * TEN)) == {"a/f": 2}


def test_a_job_that_nothing_helps_rests_so_that_others_get_units() -> None:
    machine = IntentMachine()
    hopeless = job(
        "hopeless", objective(latency="1 ms", throughput=None, priority=9), {"f": (2, 0.6)}, latency_ms=900.0
    )
    steps = []
    for at in range(1, 40, 2):
        units = hopeless.functions["f"].units + sum(each.get("hopeless/f", 0) for each in steps)
        stuck = job("hopeless", hopeless.slo, {"f": (units, 0.6)}, latency_ms=900.0)
        steps.append(asked(machine.decide(view(stuck, spare=100), at * TEN)))
    assert [bool(each) for each in steps[:4]] == [True, True, False, False]
    assert sum(map(bool, steps)) <= 4


def test_predictions_of_latency_fall_with_load_and_are_what_was_measured_without_a_change() -> None:
    now = job("a", objective(latency="100 ms"), {"f": (4, 0.9), "g": (4, 0.3)}, latency_ms=200.0)
    assert now.with_units({"f": 4}).latency_ms == pytest.approx(200.0)
    more = [now.with_units({"f": units}).latency_ms or 0.0 for units in (5, 6, 8, 16)]
    assert more == sorted(more, reverse=True)
    assert more[0] < 200.0
    fewer = [now.with_units({"f": units}).latency_ms or 0.0 for units in (3, 2, 1)]
    assert fewer == sorted(fewer)
    assert fewer[0] > 200.0


def test_a_job_that_is_stuck_without_a_result_attains_nothing_and_gets_units() -> None:
    slo = objective(latency="100 ms", priority=9)
    idle = JobStanding("idle", slo, None, None, {"f": FunctionStanding("f", 1, 0.0)})
    stuck = JobStanding("stuck", slo, None, None, {"f": FunctionStanding("f", 1, 0.0)}, is_stuck=True)
    assert (idle.utility, idle.attained) == (9, None)
    assert (stuck.utility, stuck.attained) == (0, 0)
    assert asked(IntentMachine().decide(view(idle, stuck, spare=3), TEN)) == {"stuck/f": 1}


def test_a_step_is_judged_when_it_has_been_carried_out() -> None:
    machine = IntentMachine()
    full, other = job("full", FULL_JUICE, {"f": (1, 4.0)}), job("other", FULL_JUICE, {"f": (1, 1.5)})
    now = view(full, other, spare=1)
    first = machine.decide(now, TEN)
    assert asked(first) == {"full/f": 1}
    # A long handover: at first the job has what it had, then it is not there.
    assert machine.decide(view(full, other, spare=5), 3 * TEN) == []
    assert machine.decide(view(other, spare=5), 4 * TEN) == []
    assert asked(machine.decide(view(job("full", FULL_JUICE, {"f": (2, 2.0)}), other, spare=5), 5 * TEN)) != {}
    # One that was refused is waited for as well, but not for ever.
    refused = IntentMachine()
    assert refused.decide(now, TEN)
    assert [at for at in range(2, 9) if refused.decide(now, at * TEN)] == [7]


def test_spare_units_that_did_harm_are_not_given_again_under_a_like_load() -> None:
    machine = IntentMachine()
    before = view(job("a", FULL_JUICE, {"f": (2, 1.2)}), spare=1)
    assert asked(machine.decide(before, TEN)) == {"a/f": 1}
    # The third unit shares its worker with others, and makes the job slower.
    assert asked(machine.decide(view(job("a", FULL_JUICE, {"f": (3, 1.6)})), 3 * TEN)) == {"a/f": -1}
    assert [at for at in range(5, 100) if machine.decide(before, at * TEN)] == []
    surge = JobStanding("a", FULL_JUICE, None, 0.6, {"f": FunctionStanding("f", 2, 1.6)}, rows_per_s=150.0)
    assert asked(machine.decide(view(surge, spare=1), 100 * TEN)) == {"a/f": 1}, "another load"
