"""ETP against a search of all paths, and what must hold for plans of all scaling strategies, on random small DAGs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.elasticity.effective_throughput import etp, etps
from stretto.elasticity.scaling_strategies import SCALING_STRATEGIES, scaling_strategy_named, workers_of
from stretto.elasticity.topology import Operator, Topology

RATES = st.integers(0, 20).map(float)


@st.composite
def topologies(draw: Any) -> Topology:
    names = [f"o{i}" for i in range(draw(st.integers(1, 8)))]
    operators = []
    for place, name in enumerate(names):
        children = draw(st.lists(st.sampled_from(names[place + 1 :]), unique=True)) if names[place + 1 :] else []
        sent, done = draw(RATES), draw(RATES)
        emits = {child: draw(RATES) for child in children}
        operators.append(Operator(name, sent, done, emits, draw(st.integers(1, 4)), weight=draw(st.integers(1, 3))))
    return Topology.of(operators)


def paths(topology: Topology, name: str) -> list[list[str]]:
    """All paths from an operator to any sink."""
    children = topology.operators[name].emits
    if not children:
        return [[name]]
    return [[name, *rest] for child in children for rest in paths(topology, child)]


@given(topologies())
def test_etp_is_the_share_of_the_sinks_at_the_end_of_a_path_without_congestion(topology: Topology) -> None:
    operators = topology.operators
    congested = {name for name, each in operators.items() if each.input_rate > 1.2 * each.processing_rate}
    worth = {name: each.processing_rate * each.weight for name, each in operators.items() if not each.emits}
    for name in operators:
        effective = {path[-1] for path in paths(topology, name) if not congested.intersection(path[1:])}
        total = sum(worth.values())
        expected = sum(worth[sink] for sink in effective) / total if total else 0.0
        assert etp(topology, name) == pytest.approx(expected)


@given(topologies())
def test_a_projection_lowers_congestion_and_changes_nothing_above(topology: Topology) -> None:
    for name in topology.operators:
        after = topology.grown(name)
        below = {name, *topology.reachable(name)}
        for other in topology.operators:
            if other not in below:
                assert after.operators[other] == topology.operators[other]
        assert after.operators[name].instances == topology.operators[name].instances + 1
        assert after.operators[name].congestion <= topology.operators[name].congestion or name in topology.sources


@given(topologies(), st.sampled_from(sorted(SCALING_STRATEGIES)), st.integers(1, 6), st.integers(1, 3))
def test_plans_place_every_instance_and_add_none_but_stelas(
    topology: Topology, name: str, slots: int, count: int
) -> None:
    placement = {
        each: tuple(f"w{(place + k) % 5}~1" for k in range(operator.instances))
        for place, (each, operator) in enumerate(topology.operators.items())
    }
    strategy = scaling_strategy_named(name)
    out = strategy.scale_out(topology, placement, ["new1~1", "new2~1"], slots)
    grew = sum(map(len, out.placement.values())) - sum(map(len, placement.values()))
    assert grew == (slots if name == "stela" else 0)
    assert set(workers_of(out.placement)) <= {*workers_of(placement), "new1~1", "new2~1"}
    if name == "stela":
        for each, homes in placement.items():
            assert out.placement[each][: len(homes)] == homes  # Nothing that runs is touched.
        sums = etps(topology)
        first = out.choices[0].operator
        assert first not in topology.congested or sums[first] == max(sums[each] for each in topology.congested)
    count = min(count, len(workers_of(placement)) - 1)
    gone = strategy.scale_in(topology, placement, count)
    assert len(set(gone.leaving)) == count
    assert not set(gone.leaving) & set(workers_of(gone.placement))
    assert {each: len(homes) for each, homes in gone.placement.items()} == {
        each: len(homes) for each, homes in placement.items()
    }
