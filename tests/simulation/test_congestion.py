"""The cause of congestion, in observations of whole simulated clusters, against functions that are slow by design.

Operators have known costs, so which one cannot keep up is known without any observation: the one whose instances would
need more time per batch than any other. Each dataflow is run by the production machines.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from stretto.observation.congestion import Congestion, Pressure, congestion_of, load_of
from stretto.observation.model import Observation
from stretto.simulator.experiments.dataflows import JOB, OperatorModel, dataflow, run_phase

SLOW_MS, FAST_MS = 20.0, 1.0
NAMES = ("parse", "enrich", "join", "output")


def chain(slow: str | None, cost_ms: float = SLOW_MS) -> dict[str, OperatorModel]:
    costs = {name: cost_ms if name == slow else FAST_MS for name in NAMES}
    links = dict(pairwise(NAMES))
    middle = [OperatorModel(name, cost, (links[name],) if name in links else ()) for name, cost in costs.items()]
    return dict(dataflow(OperatorModel("spout", 0.1, ("parse",)), *middle))


def observed(flow: dict[str, OperatorModel], apart: bool = True, every_ms: float | None = None) -> Observation:
    homes = {name: (f"w{place if apart else 0}~1",) for place, name in enumerate(flow)}
    step_ns = int((every_ms or 0) * 1e6)
    pace = None if every_ms is None else lambda partition, of: range(1_000_000_000, 9_000_000_000, step_ns)
    return run_phase(flow, homes, len(flow), 4.0, 1, pace, warm_s=1.0).observation


def judged(observation: Observation) -> Congestion:
    return congestion_of(observation.jobs[JOB], load_of(observation))


@pytest.mark.parametrize("slow", NAMES)
def test_the_slow_function_is_the_cause_wherever_it_is_and_all_above_it_are_victims(slow: str) -> None:
    found = judged(observed(chain(slow)))
    above = ["spout", *NAMES[: NAMES.index(slow)]]
    assert [(cause.job, cause.function) for cause in found.causes] == [(JOB, slow)]
    assert list(found.causes[0].victims) == above[::-1], "the nearest comes first"
    assert {name for name, pressure in found.pressures.items() if pressure is Pressure.VICTIM} == set(above)
    assert found.pressures[slow] is Pressure.CAUSE


def test_waits_name_the_function_that_has_given_no_credits() -> None:
    functions = observed(chain("join")).jobs[JOB].functions
    assert list(functions["enrich"].waits) == ["join"]
    assert list(functions["parse"].waits) == ["enrich"]
    # Of each 20 ms, the function that feeds the slow one runs for one.
    assert 0.85 < functions["enrich"].waits_share < 1
    assert functions["join"].waits_share == functions["output"].waits_share == 0


def test_a_job_that_keeps_up_has_no_cause() -> None:
    found = judged(observed(chain("join", 5.0), every_ms=20.0))
    assert (found.causes, set(found.pressures.values())) == ((), {Pressure.NONE})


def test_of_a_fork_only_the_slow_branch_is_the_cause() -> None:
    flow = dataflow(
        OperatorModel("spout", 0.1, ("fork",)),
        OperatorModel("fork", 1.0, ("slow", "fast")),
        OperatorModel("slow", SLOW_MS),
        OperatorModel("fast", 1.0),
    )
    found = judged(observed(dict(flow)))
    assert [cause.function for cause in found.causes] == ["slow"]
    assert found.pressures["fast"] is Pressure.NONE
    assert found.causes[0].victims == ("fork", "spout")


def test_on_one_worker_what_takes_most_of_it_is_the_cause() -> None:
    found = judged(observed(chain("enrich"), apart=False, every_ms=10.0))
    assert [cause.function for cause in found.causes] == ["enrich"]


def test_a_function_that_has_not_run_for_long_still_waits() -> None:
    """One message takes longer than the second after which an instance counts as idle."""
    found = judged(observed(chain("join", 3_000.0)))
    assert [cause.function for cause in found.causes] == ["join"]
    assert found.pressures["enrich"] is Pressure.VICTIM
