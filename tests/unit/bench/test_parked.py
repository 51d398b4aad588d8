"""What is reported of transient workers that wait."""

from __future__ import annotations

import pytest

from stretto.bench.burst.parked import ParkedCost, Run


def test_the_median_of_the_rounds_counts() -> None:
    cost = ParkedCost("q5")
    for alone, parked, share in ((100.0, 99.0, 0.001), (200.0, 190.0, 0.002), (100.0, 101.0, 0.9)):
        cost.rounds.append((Run(alone, 10.0), Run(parked, 11.0, share, 0.0)))
    found = cost.as_dict()
    assert found["throughput_ratio"] == 0.99
    assert found["cpu_ratio"] == pytest.approx(1.1)
    assert found["parked_cpu_share"] == 0.002
    assert found["within"] == {"throughput": True, "parked_cpu_share": True}
    assert len(found["rounds"]) == 3


def test_what_costs_too_much_is_said() -> None:
    cost = ParkedCost("q7", [(Run(100.0, 10.0), Run(97.9, 10.0, 0.001, 0.006))])
    assert cost.as_dict()["within"] == {"throughput": False, "parked_cpu_share": False}
