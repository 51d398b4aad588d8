"""Stela and its alternatives: the worked example of figure 2.2 of the thesis, scale-out slot by slot, scale-in."""

from __future__ import annotations

import pytest

from stretto.elasticity.effective_throughput import etp, etp_sums, etps, ranked
from stretto.elasticity.scaling_strategies import (
    SCALING_STRATEGIES,
    Change,
    next_to_grow,
    scaling_strategy_named,
    slots_for,
    workers_of,
)
from stretto.elasticity.topology import Operator, Topology
from stretto.errors import UserError


def figure_2_2() -> Topology:
    """The throughputs of the sinks and who is congested are the thesis' (4500 rows/s: 2000 at 4, 1000 at 7 and 8 each,
    500 at 9 and 10 together, since the ETP of 6 is 11 percent). The other rates are ours, and decide nothing."""
    rates = {
        "1": (5000.0, 4000.0, {"2": 2000.0, "3": 2000.0}),
        "2": (2000.0, 2000.0, {"4": 4000.0}),
        "3": (2000.0, 1500.0, {"5": 2000.0, "6": 1000.0}),
        "4": (4000.0, 2000.0, {}),
        "5": (2000.0, 2000.0, {"7": 1000.0, "8": 1000.0}),
        "6": (1000.0, 500.0, {"9": 250.0, "10": 250.0}),
        "7": (1000.0, 1000.0, {}),
        "8": (1000.0, 1000.0, {}),
        "9": (250.0, 250.0, {}),
        "10": (250.0, 250.0, {}),
    }
    return Topology.of((Operator(name, *each) for name, each in rates.items()), congestion_rate=1.0)


def test_the_worked_example_of_figure_2_2() -> None:
    topology = figure_2_2()
    assert topology.throughput == 4500
    assert topology.congested == {"1", "3", "4", "6"}
    assert ranked(topology) == ["3", "4", "6", "1"]
    assert [round(100 * etp(topology, name)) for name in ranked(topology)] == [44, 44, 11, 0]


def chain(*rates: tuple[float, float], instances: int = 2, congestion_rate: float = 1.2) -> Topology:
    """A chain of operators a, b, c with what each is sent and can process."""
    names = "abcdefgh"[: len(rates)]
    operators = []
    for place, (sent, can) in enumerate(rates):
        done = min(sent, can)
        emits = {names[place + 1]: done} if place + 1 < len(rates) else {}
        operators.append(Operator(names[place], sent, done, emits, instances, can))
    return Topology.of(operators, congestion_rate)


def test_an_operator_is_congested_above_the_threshold_only() -> None:
    assert chain((120.0, 100.0)).congested == frozenset()
    assert chain((120.1, 100.0)).congested == {"a"}


def test_a_projection_raises_the_rate_in_proportion_and_what_children_are_sent() -> None:
    before = chain((400.0, 100.0), (100.0, 130.0), (100.0, 1000.0))
    after = before.grown("a")
    assert after.operators["a"].processing_rate == pytest.approx(150.0)  # (k + 1) / k with k = 2
    assert after.operators["b"].input_rate == pytest.approx(150.0)
    assert after.operators["b"].processing_rate == pytest.approx(130.0)
    assert after.operators["c"].processing_rate == pytest.approx(130.0)
    assert not after.congested - {"a"}
    assert after.grown("a").congested == {"a", "b"}


def test_where_only_what_is_processed_is_known_children_become_congested_as_in_the_thesis() -> None:
    operators = [Operator("a", 400.0, 100.0, {"b": 100.0}, 2), Operator("b", 100.0, 100.0)]
    after = Topology.of(operators).grown("a")
    assert (after.operators["b"].input_rate, after.operators["b"].processing_rate) == (150.0, 100.0)
    assert after.congested == {"a", "b"}
    assert next_to_grow(after)[0] == "b"  # Of a, nothing is effective any more.


def test_stela_gives_slots_along_the_path_as_bottlenecks_move() -> None:
    topology = chain((900.0, 900.0), (900.0, 300.0), (300.0, 400.0), (300.0, 2000.0))
    placement = {name: (f"w{place}~1", f"w{place}~1") for place, name in enumerate("abcd")}
    plan = scaling_strategy_named("stela").scale_out(topology, placement, ["new~1"], slots=5)
    # b: 450, then c (sent 450 of 400) is not congested yet; b: 600, c is, and of b nothing is effective.
    assert [choice.operator for choice in plan.choices] == ["b", "b", "c", "b", "c"]
    assert all(choice.change is Change.ADDED and choice.worker == "new~1" for choice in plan.choices)
    assert plan.placement["b"] == ("w1~1", "w1~1", "new~1", "new~1", "new~1")
    assert plan.placement["a"] == placement["a"]


def test_stela_without_congestion_grows_a_source_or_else_the_fullest() -> None:
    topology = chain((100.0, 100.0), (100.0, 110.0), (100.0, 200.0))
    assert next_to_grow(topology)[0] == "a"
    fixed = Topology.of(
        Operator(each.name, each.input_rate, each.processing_rate, each.emits, 2, each.capacity, grows=each.name != "a")
        for each in topology.operators.values()
    )
    assert next_to_grow(fixed)[0] == "b"


def test_new_workers_get_as_many_instances_as_the_others_have() -> None:
    placement = dict.fromkeys("abc", ("w0~1", "w1~1", "w2~1", "w3~1"))
    assert slots_for(placement, 4, 1) == 3
    assert slots_for(placement, 4, 2) == 6
    assert slots_for({"a": ("w0~1",)}, 4, 1) == 1


def test_the_workers_with_the_least_sum_of_etp_leave_and_those_with_little_get_their_instances() -> None:
    # b is congested, so a, above it, is not effective.
    topology = chain((900.0, 900.0), (900.0, 300.0), (300.0, 1000.0))
    placement = {"a": ("u~1", "v~1"), "b": ("x~1", "y~1"), "c": ("y~1", "z~1")}
    assert etps(topology) == {"a": 0.0, "b": 1.0, "c": 1.0}
    sums = etp_sums(etps(topology), placement, workers_of(placement))
    assert sums == {"u~1": 0.0, "v~1": 0.0, "x~1": 1.0, "y~1": 2.0, "z~1": 1.0}
    plan = scaling_strategy_named("stela").scale_in(topology, placement, 2)
    assert plan.leaving == ("u~1", "v~1")
    # v gets what u had, and then the two instances of v go in turn to those with the least sums: x and z.
    assert plan.placement == {"a": ("x~1", "z~1"), "b": ("x~1", "y~1"), "c": ("y~1", "z~1")}


def test_of_equals_the_least_busy_leaves_and_its_instances_go_where_there_is_room() -> None:
    # b is congested; nothing depends on s or a, and s is idle. c is not busy.
    topology = Topology.of(
        [
            Operator("s", 900.0, 900.0, {"a": 900.0}, 2, busy=0.2),
            Operator("a", 900.0, 900.0, {"b": 900.0}, 2, busy=0.8),
            Operator("b", 900.0, 300.0, {"c": 300.0}, 2, busy=1.0),
            Operator("c", 300.0, 300.0, busy=0.3),
        ]
    )
    placement = {"s": ("x~1", "x~1"), "a": ("v~1", "v~1"), "b": ("y~1", "y~1"), "c": ("z~1",)}
    plan = scaling_strategy_named("stela").scale_in(topology, placement, 1)
    assert plan.leaving == ("x~1",)
    # In turn, one of them would be on v or y, which are full.
    assert plan.placement == {"s": ("z~1", "z~1"), "a": ("v~1", "v~1"), "b": ("y~1", "y~1"), "c": ("z~1",)}


def test_round_robin_deals_all_instances_again() -> None:
    placement = {"a": ("w0~1", "w0~1"), "b": ("w1~1", "w1~1")}
    plan = scaling_strategy_named("round-robin").scale_out(chain((1.0, 1.0), (1.0, 1.0)), placement, ["w2~1"])
    assert plan.placement == {"a": ("w0~1", "w1~1"), "b": ("w2~1", "w0~1")}


def star() -> Topology:
    """Two sources, one operator in the middle, and three sinks; the third gets little."""
    return Topology.of(
        [
            Operator("s1", 10.0, 10.0, {"middle": 10.0}),
            Operator("s2", 30.0, 30.0, {"middle": 30.0}),
            Operator("middle", 40.0, 40.0, {"t1": 20.0, "t2": 15.0, "t3": 5.0}),
            Operator("t1", 20.0, 20.0),
            Operator("t2", 15.0, 15.0),
            Operator("t3", 5.0, 5.0),
        ]
    )


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("distance-from-source", ["s1", "s2"]),
        ("distance-from-sink", ["t1", "t2"]),
        ("descendants", ["s1", "s2"]),
        ("centrality", ["middle", "s1"]),
        ("least-link-load", ["t3", "middle"]),
        ("most-link-load", ["middle", "s2"]),
    ],
)
def test_the_alternatives_move_instances_of_what_they_deem_important(name: str, first: list[str]) -> None:
    placement = dict.fromkeys(star().operators, ("w0~1",))
    plan = scaling_strategy_named(name).scale_out(star(), placement, ["new~1"], slots=2)
    assert [choice.operator for choice in plan.choices] == first
    assert all(choice.change is Change.MOVED for choice in plan.choices)
    assert all(len(homes) == 1 for homes in plan.placement.values())
    assert [name for name, homes in plan.placement.items() if homes == ("new~1",)] == sorted(
        first, key=list(placement).index
    )


def test_a_strategy_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(UserError, match="stela") as caught:
        scaling_strategy_named("stella")
    assert all(name in str(caught.value) for name in SCALING_STRATEGIES)


def test_somebody_must_stay() -> None:
    with pytest.raises(UserError, match="no worker would be left"):
        scaling_strategy_named("stela").scale_in(chain((1.0, 1.0)), {"a": ("w0~1",)}, 1)
