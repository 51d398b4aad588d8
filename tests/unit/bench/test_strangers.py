"""How strangers are divided over processes, and what their report says."""

from __future__ import annotations

import pytest

from stretto.bench.half_open import _target
from stretto.bench.strangers import Phase, Report, shared
from stretto.errors import UserError


def test_strangers_are_spread_over_processes_where_one_may_not_hold_all() -> None:
    assert shared(10_000, 20_000) == [10_000]
    assert shared(10_000, 4_000) == [3_334, 3_333, 3_333]


def test_limits_that_do_not_allow_the_strangers_are_named() -> None:
    with pytest.raises(UserError, match="10,000 connections need 157 processes here") as caught:
        shared(10_000, 64)
    assert "ulimit -Hn" in str(caught.value)


def test_only_loopback_is_besieged() -> None:
    assert _target("127.0.0.1:80") == ("127.0.0.1", 80)
    with pytest.raises(Exception, match=r"10\.0\.0\.1 is not a loopback address"):
        _target("10.0.0.1:80")


def test_the_ratio_is_that_of_the_phases_of_a_round_in_whichever_order() -> None:
    alone, besieged = Phase(False, 100.0, 3, 50), Phase(True, 95.0, 3, 90)
    slower = [Phase(True, 40.0, 2, 90), Phase(False, 50.0, 2, 50)]
    report = Report(10, 1.0, [alone, besieged, *slower, alone, besieged])
    assert report.throughput_ratio == 0.95
    assert report.is_undisturbed


@pytest.mark.parametrize(
    "report",
    [
        Report(10, 1.0, [Phase(False, 1.0, 1, 1), Phase(True, 1.0, 0, 1)]),
        Report(10, 1.0, [Phase(False, 1.0, 1, 1)], checkpoints_failed={3: "Too many open files"}),
        Report(10, 1.0, [Phase(False, 1.0, 1, 1)], recoveries=1),
    ],
)
def test_a_lost_checkpoint_shows(report: Report) -> None:
    assert not report.is_undisturbed
