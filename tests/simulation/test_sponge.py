"""Sponge's evaluation at a small size: what each way to scale does in a burst, and how its parts are measured."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from stretto.cli.program import program
from stretto.simulator.experiments.sponge.approaches import Approach, Measured, Setting, Trial
from stretto.simulator.experiments.sponge.figures import COMPARED, SPONGE_FIGURES, burst_scale
from stretto.simulator.experiments.sponge.machines import Usage
from stretto.simulator.experiments.sponge.patterns import SECOND_NS, Arrivals, Pattern
from stretto.simulator.experiments.sponge.queries import QUERIES
from stretto.worker.bursts import redirecting

SMALL = Setting("q4", Approach.SPONGE, Pattern(before_s=6.0, burst_s=8.0, after_s=6.0), 1, 30, window_s=4)


def run(query: str, approach: Approach) -> Measured:
    return Trial(replace(SMALL, query=query, approach=approach)).run()


@pytest.mark.parametrize("query", QUERIES)
def test_a_burst_is_redirected_and_brought_back(query: str) -> None:
    alone, led = run(query, Approach.NO_SCALING), run(query, Approach.SPONGE)
    assert led.redirected_s is not None
    assert 0 < led.redirected_s < 1.5
    assert led.ended_s is not None
    assert led.peak_s < 0.3 * alone.peak_s
    assert alone.utilisation()["during"] > 0.95
    assert led.utilisation()["transient_cores"] > 6  # Of 11.2, which the machines lack at 70 percent.


def test_functions_come_sooner_than_machines_and_states_take_time() -> None:
    found = {
        each: run("q8", each) for each in (Approach.VM_INIT, Approach.SF_BASE, Approach.ROUTERS, Approach.TRANSIENT)
    }
    scaled_s = {each: measured.scaled_s or 100.0 for each, measured in found.items()}
    assert 1 < scaled_s[Approach.TRANSIENT] < scaled_s[Approach.ROUTERS] - 2.5
    assert all(measured.moved_bytes > 1e6 for measured in found.values())
    machines = run("q8", Approach.VM_BASE)
    assert machines.scaled_s is None  # They take half a minute.
    assert machines.peak_s > found[Approach.SF_BASE].peak_s


def test_too_many_machines_need_nothing_else() -> None:
    over = run("q1", Approach.OVER)
    assert over.peak_s < 0.5
    assert over.utilisation()["before"] == pytest.approx(0.7 / 5, abs=0.02)
    assert over.utilisation()["during"] == pytest.approx(0.7, abs=0.03)


def test_each_instance_begins_with_another_transient_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    spread = run("q5", Approach.SPONGE)
    monkeypatch.setattr(redirecting, "_from_own", lambda seat, members: members)
    crowded = run("q5", Approach.SPONGE)
    assert spread.peak_s < crowded.peak_s


def test_events_arrive_as_the_pattern_says() -> None:
    for form, events in (("sudden", 10 * 5), ("sine", 10 * (1 + 4 * 2 / np.pi)), ("gradual", 10 * 3)):
        pattern = Pattern(form, 5.0, 4.0, 10.0, 4.0)
        due = np.sort(np.concatenate([Arrivals(pattern, 100.0, 3, SECOND_NS).of(source) for source in range(3)]))
        seconds = (due - SECOND_NS) / SECOND_NS
        assert ((seconds >= 4) & (seconds < 14)).sum() == pytest.approx(100 * events, rel=0.02)
        assert (seconds < 4).sum() == pytest.approx(400, abs=2)


def test_usage_is_counted_in_the_seconds_in_which_it_was() -> None:
    usage = Usage(0)
    usage.add(True, SECOND_NS // 2, 2 * SECOND_NS)
    assert [usage.cores(True, second, second + 1) for second in range(4)] == [0.5, 1.0, 0.5, 0.0]
    assert usage.cores(False, 0, 4) == 0.0


def test_the_peak_counts_what_never_came_out() -> None:
    measured = Measured(SMALL, [1.0, 2.0, 7.0, 7.5], [0.1, 0.1, 0.3, 0.2])
    assert measured.peak_s == pytest.approx(20 - 7.5 - 1)


def test_the_command_prints_figures_with_the_papers() -> None:
    size = ["--machines", "1", "--transient", "30", "--burst", "4", "--window", "2", "--query", "q4"]
    ended = CliRunner().invoke(program, ["simulate", "sponge", *size, "--only", "10", "--only", "15", "--json"])
    assert ended.exit_code == 0, ended.output
    found = json.loads(ended.stdout)
    assert found["10"]["paper"]["reduction_against"] == {"VMBase": 0.88, "SFBase": 0.7}
    assert set(found["10"]["ours"]["by_query"]["q4"]) == {each.value for each in COMPARED}
    # By hand, in cores: 12 that are there all the time, or 16, by four times the price of 16 in bursts.
    assert found["15"]["ours"]["break_even_share"]["with_the_least_cores"] == {"20-VMs": 0.1875, "25-VMs": 0.25}
    assert CliRunner().invoke(program, ["simulate", "sponge", "--query", "q2"]).exit_code == 2


def test_figures_say_how_many_runs_they_take() -> None:
    scale = burst_scale(["q4"], 1, 30, 4.0, 2, 100.0, 1)
    for name in ("13", "14"):
        done: list[int] = []
        SPONGE_FIGURES[name].make(scale, lambda done=done: done.append(1))
        assert len(done) == SPONGE_FIGURES[name].runs_of(scale)
