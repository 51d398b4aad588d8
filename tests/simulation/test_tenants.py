"""Tenants together in virtual time, at a smaller scale than `stretto simulate tenants`."""

from __future__ import annotations

import pytest

from stretto.scheduling.offloading import Anticipate
from stretto.scheduling.policies import FIFO, LLF, Policy
from stretto.simulator.experiments.provisioning import _tenants, bounds, figure_10
from stretto.simulator.experiments.tenancy import Scale, percentiles, satisfaction, together
from stretto.simulator.experiments.tenants import (
    EXPERIMENTS,
    TYPES,
    bulk_jobs,
    needed_workers,
    typed_jobs,
    urgent_jobs,
)
from stretto.simulator.experiments.workloads import IPQ1, IPQ2, IPQ3, IPQ4, SECOND_NS, Query, Tenant, timetable

SMALL = Scale(workers=8, seconds=5.0)
SLOS = {"counts": 500.0, "greatest": 1_300.0}


@pytest.mark.parametrize("query", [IPQ1, IPQ2, IPQ3, IPQ4])
@pytest.mark.parametrize("policy", [LLF, FIFO])
def test_every_query_gives_every_window_once_whatever_the_policy(query: Query, policy: type[Policy]) -> None:
    table = timetable([10.0] * 8, 5, 10_000_000, 1)
    fate = together([Tenant("one", query, table)], 3, policy, 1, warm_s=0).fates["one"]
    slides = 5_000_000 // query.slide_us
    assert len(fate.latencies_ms) == slides
    assert min(fate.latencies_ms) > 0
    # Sliding windows count each event twice, except in the first half second and in the window that ends after the run.
    overlap = query.size_us // query.slide_us
    expected = table.messages * overlap
    if query is IPQ4:
        assert fate.events > 0  # Pairs, which depend on the keys.
    else:
        assert fate.events == expected


def test_urgent_jobs_keep_their_latency_beside_too_much_bulk_work() -> None:
    found = {}
    for policy in (LLF, FIFO):
        outcome = together([*urgent_jobs(SMALL, SECOND_NS // 2), *bulk_jobs(SMALL, 1.1)], 8, policy, 1)
        found[policy] = outcome
    urgent = {policy: percentiles(outcome.latencies_ms("urgent")) for policy, outcome in found.items()}
    assert urgent[LLF]["p50"] < urgent[FIFO]["p50"] / 1.5
    assert urgent[LLF]["p99"] < urgent[FIFO]["p99"] / 1.5
    assert found[LLF].messages("bulk") > 0.95 * found[FIFO].messages("bulk")


def test_half_of_the_workers_time_is_half() -> None:
    tenants = urgent_jobs(Scale(workers=128, seconds=5.0), SECOND_NS)
    outcome = together(tenants, needed_workers(tenants, 5.0, 0.5), FIFO, 1)
    assert outcome.utilisation == pytest.approx(0.5, abs=0.05)


def test_with_fewer_workers_offloading_by_deadline_beats_the_default() -> None:
    scale = Scale(workers=16, seconds=8.0)
    rates = {}
    for policy, strategy in ((FIFO, None), (LLF, Anticipate())):
        tenants = _tenants(scale, SLOS, 2.5, 0.5, strategy)
        outcome = together(tenants, 11, policy, 1)
        rates[policy] = [satisfaction(outcome.latencies_ms(name), slo_ms) for name, slo_ms in SLOS.items()]
        bound = bounds(tenants, 11, SLOS)
        assert rates[policy][0] <= bound["counts"]
        assert rates[policy][1] <= bound["greatest"]
    assert sum(rates[LLF]) / 2 > sum(rates[FIFO]) / 2 + 20


def test_spread_actors_give_the_same_answers() -> None:
    events = []
    for strategy in (None, Anticipate()):
        outcome = together(_tenants(SMALL, SLOS, 2.5, 0.5, strategy), 6, LLF, 1)
        events.append({name: fate.events for name, fate in outcome.fates.items()})
    assert events[0] == events[1]
    assert min(events[0].values()) > 0


def test_type_1_has_twice_the_events_of_type_2() -> None:
    totals = {"type1": 0, "type2": 0}
    for tenant in typed_jobs(Scale(workers=32, seconds=10.0), 0.5, SECOND_NS):
        totals[tenant.name.split("-")[0]] += tenant.table.messages
    assert totals["type1"] / totals["type2"] == pytest.approx(2, rel=0.15)


def test_on_overloaded_workers_both_types_are_in_time_more_often_than_first_come_first_served() -> None:
    """By deadlines alone, skewed sources make everything on their workers late (thesis figure 5.10)."""
    slo_ms = 550.0
    in_time: dict[str, list[float]] = {}
    for policy in (LLF, FIFO):
        tenants = typed_jobs(Scale(workers=32, seconds=8.0), 0.75, int(slo_ms * 1e6))
        outcome = together(tenants, 32, policy, seed=1)
        in_time[policy.__name__] = [satisfaction(outcome.latencies_ms(kind), slo_ms) for kind in TYPES]
    even, skewed = (llf - fifo for llf, fifo in zip(in_time["LLF"], in_time["FIFO"], strict=True))
    assert min(even, skewed) > 20, in_time


def test_a_figure_is_the_same_each_time_and_says_when_a_run_is_done() -> None:
    scale = Scale(workers=8, seconds=3.0)
    done: list[None] = []
    first, again = (EXPERIMENTS["5.10"].make(scale, lambda: done.append(None)) for _ in range(2))
    assert first == again
    assert len(done) == 2 * EXPERIMENTS["5.10"].runs


def test_figure_10_has_a_point_for_each_share_of_the_workers() -> None:
    done: list[None] = []
    figure = figure_10(Scale(workers=4, seconds=2.0), lambda: done.append(None))
    assert len(done) == EXPERIMENTS["10"].runs
    assert {point["alpha"] for point in figure.points} == {5.0, 3.3, 2.5}
    for point in figure.points:
        assert point["ours"]["overall"] <= point["clairvoyant"]["overall"]
