"""Fair shares in virtual time: they hold on every worker, idle shares are lent, and a returning job repays nothing."""

from __future__ import annotations

import pytest

from stretto.simulator.experiments.shares import POINTS_MAX, RESTING, SHARES, SharesReport, simulated


@pytest.fixture(scope="module", params=[(1, 5), (3, 1)], ids=["one worker", "three workers"])
def report(request: pytest.FixtureRequest) -> SharesReport:
    workers, seed = request.param
    found = simulated(workers, seconds=0.6, seed=seed)
    assert all(len(phase.found) == workers for phase in found.phases)
    return found


def test_shares_hold_on_every_worker_while_all_compete(report: SharesReport) -> None:
    competing = report.phases[0]
    assert competing.expected == {"small": 20.0, "middle": 40.0, "large": 40.0}
    assert competing.points_off <= POINTS_MAX


def test_an_idle_share_is_lent_by_weight(report: SharesReport) -> None:
    resting = report.phases[1]
    assert resting.expected == pytest.approx({"small": 100 / 3, "middle": 200 / 3})
    assert resting.points_off <= POINTS_MAX
    assert all(shares[RESTING] == 0 for shares in resting.found.values())


def test_who_comes_back_has_its_share_again_and_no_more(report: SharesReport) -> None:
    back = report.phases[2]
    assert set(back.expected) == set(SHARES)
    assert back.points_off <= POINTS_MAX
    assert report.holds
