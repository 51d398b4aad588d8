"""Getafix's evaluation at a small size: what copies cost and bring, by the way to replicate."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from stretto.cli.program import program
from stretto.segments.replication import Getafix
from stretto.simulator.experiments.getafix.figures import WAYS, getafix_figures
from stretto.simulator.experiments.getafix.queues import Measured, Run, Setting
from stretto.simulator.experiments.getafix.workload import TIMES, weights

SMALL = Setting(6, nodes=6, segments=12, questions=1_000, hour_s=5.0)


def run(way: str, setting: Setting = SMALL) -> Measured:
    return Run(setting, WAYS[way]()).run()


def test_getafix_takes_less_memory_than_the_others_in_the_same_time() -> None:
    found = {way: run(way) for way in WAYS}
    for way, measured in found.items():
        assert len(measured.latency_s) > 3_000, way
        assert measured.makespan_s == pytest.approx(found["full"].makespan_s, rel=0.05), way
    assert found["full"].replication == pytest.approx(6.0, rel=0.05)
    assert found["uniform"].replication == pytest.approx(4.0, rel=0.1)
    assert found["getafix"].memory_mean * 1.4 < found["scarlett"].memory_mean < found["full"].memory_mean


def test_more_clients_take_more_copies_of_what_is_popular() -> None:
    few, many = run("getafix", replace(SMALL, clients=2)), run("getafix")
    assert 0.99 < few.replication < 1.1
    assert many.replication > few.replication + 0.1


def test_copies_that_stay_cost_fewer_loads() -> None:
    restless = Run(SMALL, Getafix(uneven=0.0, surplus=0.0)).run()
    assert run("getafix").loaded < 0.7 * restless.loaded


def test_questions_are_answered_when_nodes_die() -> None:
    measured = run("getafix", replace(SMALL, deaths=3))
    assert measured.from_storage > 0
    assert len(measured.latency_s) > 3_000


def test_slow_nodes_get_less() -> None:
    slow = Run(replace(SMALL, slow_nodes=3, clients=4), Getafix())
    slow.run()
    assert slow.measured.latency_ms()["mean"] < 200


def test_the_most_popular_are_asked_for_ten_times_as_often_as_the_least() -> None:
    figures = getafix_figures(replace(SMALL, segments=24), [4], ["getafix"], lambda: None)
    assert figures.asked_by_age["0"] == pytest.approx(10, rel=0.1)
    assert figures.asked_by_age["23"] == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("segments", [1, 2, 24, 100])
def test_popularity_falls_to_that_of_the_least(segments: int) -> None:
    found = weights(segments)
    assert found == sorted(found, reverse=True)
    assert found[0] == TIMES
    if segments > 2:
        assert found[-round(0.4 * segments) :] == pytest.approx([1.0] * round(0.4 * segments))


def test_the_command_prints_ratios_by_getafix() -> None:
    size = ["--nodes", "4", "--segments", "8", "--questions", "700", "--clients", "2", "--way", "full"]
    ended = CliRunner().invoke(program, ["simulate", "getafix", *size, "--json"])
    assert ended.exit_code == 0, ended.output
    found = json.loads(ended.stdout)["clients"]["2"]
    assert set(found) == {"getafix", "full"}
    assert found["getafix"]["memory_ratio"] == 1.0
    assert found["full"]["memory_ratio"] > 3
    for wrong in (["--way", "druid"], ["--nodes", "2", "--deaths", "2"], ["--nodes", "2", "--slow", "3"]):
        assert CliRunner().invoke(program, ["simulate", "getafix", *wrong]).exit_code == 2
