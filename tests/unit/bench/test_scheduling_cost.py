"""The scheduling bench measures what it claims: both workers run the same messages, and one has no priorities."""

from __future__ import annotations

from collections import Counter

from stretto.actors.deadlines import NEVER_NS
from stretto.bench import scheduling_cost
from stretto.bench.scheduling_cost import BareWorker, BatchCost, SchedulingReport, _Feed
from stretto.worker.machine import Worker


def test_both_workers_run_messages_of_all_jobs() -> None:
    for kind in (Worker, BareWorker):
        feed = _Feed(kind, rows=3, jobs=4, decides_each=True)
        feed.run(200)
        ran = Counter({tenant.sums.address.job: tenant.sums.metrics.rows_in for tenant in feed.tenants.values()})
        assert sum(ran.values()) == 3 * 200
        assert min(ran.values()) > 0, "of which some more than others, by what their runs happen to cost"
        assert all(tenant.sums.instance.ctx.counts == {} for tenant in feed.tenants.values()), "nothing is late"
        assert len(feed.outside_ns) == 1
        assert feed.close_ns[0] > 0


def test_the_bare_worker_has_no_deadlines_and_the_real_one_has() -> None:
    bare, full = (_Feed(kind, rows=1, jobs=3, decides_each=True) for kind in (BareWorker, Worker))
    for feed in (bare, full):
        feed.run(100)
    waiting = [
        [message.deadline_ns for tenant in feed.tenants.values() for message in tenant.sums.mailbox]
        for feed in (bare, full)
    ]
    assert all(len(deadlines) >= 2 for deadlines in waiting), "all but the one that runs"
    assert set(waiting[0]) == {NEVER_NS}
    assert all(0 < deadline_ns < NEVER_NS for deadline_ns in waiting[1])
    assert any(tenant.out.expected_ns for tenant in full.tenants.values()), "windows' ends are foreseen"
    assert not any(tenant.out.expected_ns for tenant in bare.tenants.values())


def test_a_cheap_function_keeps_the_worker_for_its_quantum() -> None:
    feed = _Feed(Worker, rows=1, jobs=3)
    feed.run(5)
    assert max(tenant.sums.metrics.messages_in for tenant in feed.tenants.values()) > 1


def test_the_parts_and_the_growth_are_told() -> None:
    parts = scheduling_cost.parts_us(5)
    assert list(parts) == ["frontier, map of progress, deadline", "queue by urgency", "reply context", "mean cost"]
    assert parts["queue by urgency"] > 0
    growth = scheduling_cost.growth((4, 16), 50, lambda text: None)
    assert list(growth.with_deadlines_us.points) == [4, 16]
    assert all(cost > 0 for cost in growth.with_deadlines_us.points.values())
    assert growth.bare_fifo_us.log_error_percent < 0.01, "two points are on their line"


def test_the_queue_compares_no_more_than_in_proportion_to_the_logarithm() -> None:
    counts = {jobs: scheduling_cost.comparisons_per_message(jobs, 300) for jobs in (8, 64, 512)}
    assert 0 < counts[8] < counts[64] < counts[512]
    # A heap sifts down and up again: at most three comparisons for each doubling.
    assert counts[512] - counts[8] <= 3 * 6
    assert scheduling_cost.line_through({2: 1.0, 4: 2.0, 8: 3.0}).per_doubling == 1.0


def test_percent_is_what_scheduling_adds_by_the_execution() -> None:
    cost = BatchCost(1, 50.0, 20.0, 30.0, 12.0, 10.0, 14.0, 11.0)
    assert cost.percent == 4.0
    assert cost.percent_deciding_each == 6.0
    growth = scheduling_cost.Growth(*[scheduling_cost.Line({}, 0.0, 0.0, 0.0)] * 4)
    report = SchedulingReport([cost], {"one": 1.0, "other": 1.5}, growth)
    assert report.parts_percent == 5.0
    assert report.as_dict()["batches"][0]["percent"] == 4.0
