"""Simulated clusters are watched without any effect, and a report is made of what was seen."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stretto.dashboard.simulated import SimulationRecording
from stretto.errors import UserError
from stretto.simulator.checking.elastic import try_seed
from stretto.simulator.engine.watching import watched_by
from stretto.simulator.experiments import shares

SEEDS = range(4)


def test_a_watched_run_is_the_same_as_one_that_nobody_watches() -> None:
    alone = [try_seed(seed, 4, 5, None) for seed in SEEDS]
    recording = SimulationRecording()
    with watched_by(recording):
        watched = [try_seed(seed, 4, 5, None) for seed in SEEDS]
    assert recording.clusters == len(SEEDS)
    for one, other in zip(alone, watched, strict=True):
        assert (one.log, one.messages, one.barriers, one.moved) == (
            other.log,
            other.messages,
            other.barriers,
            other.moved,
        )


def test_a_report_has_the_jobs_of_the_last_cluster_by_the_virtual_second(tmp_path: Path) -> None:
    recording = SimulationRecording()
    with watched_by(recording):
        shares.simulated(workers=2, seconds=3.0)
    recording.write_report(str(tmp_path / "run.html"))
    text = (tmp_path / "run.html").read_text("utf-8")
    (data,) = re.findall(r'id="recorded">(.*?)</script>', text, flags=re.DOTALL)
    found = json.loads(data)
    assert found["clock"] == "run"
    assert [job["name"] for job in found["overview"]["jobs"]] == sorted(shares.SHARES)
    times = found["rows"]["middle"]["job"]["t"]
    assert len(times) >= 9
    # All sources have more input than the workers can take: each job is held back by its costly function.
    assert {job["held_back"][0]["function"] for job in found["jobs"].values()} == {"work"}


def test_without_a_cluster_there_is_nothing_to_report(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is nothing to report"):
        SimulationRecording().write_report(str(tmp_path / "run.html"))
