"""What `bench elastic` runs, and what it says of wrong answers."""

from __future__ import annotations

from stretto.bench.elastic.costs import Spending
from stretto.bench.elastic.exchange import Exchange
from stretto.bench.elastic.hot_partition import APPROACHES, HotPartition, HotReport, _check
from stretto.bench.elastic.micro import Microbenchmark
from stretto.bench.elastic.tuples import Tuples


def test_more_workers_get_as_many_more_rows() -> None:
    asked = HotPartition(row_us=100, scaling_s=2)
    assert [asked.scaled(count).tuples.events for count in (1, 2, 8)] == [20_000, 40_000, 160_000]


def test_the_shift_is_paced_above_one_worker_and_below_all() -> None:
    workload = HotPartition(workers=8, row_us=100, seconds=10, load=0.5, shift_s=5).shifting()
    assert isinstance(workload, Microbenchmark)
    assert workload.paced
    assert workload.calculators == 1
    assert workload.tuples.rate == 40_000
    assert workload.tuples.events == 400_000
    assert workload.tuples.shuffles_per_minute == 12


def test_the_exchange_and_functions_that_compute() -> None:
    asked = HotPartition(workers=2, exchange=True, compute=True, shift_s=3)
    workload = asked.shifting()
    assert isinstance(workload, Exchange)
    assert workload.orders.period_s == 3
    assert workload.cost.spending is Spending.COMPUTE


def test_a_wrong_row_is_told_by_its_run() -> None:
    workload = Microbenchmark(Tuples(events=50, key_count=5))
    right = workload.expected()["results"].table
    report = HotReport(throughput=dict.fromkeys(APPROACHES))
    _check("static", workload, {"results": right}, report)
    assert report.as_dict()["match"] is True
    _check("elastic", workload, {"results": right.slice(1)}, report)
    assert report.as_dict()["match"] is False
    assert report.wrong[0].startswith("elastic: sink 'results'")
