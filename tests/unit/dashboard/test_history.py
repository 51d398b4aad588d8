"""What is kept of observations: exact sums, the bounds, and a model of the coarse rows."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from stretto.actors.metrics import LatencySketch, SketchBins
from stretto.bench.page.feed import MadeUp, MadeUpCluster
from stretto.dashboard.history import Bounds, History
from stretto.dashboard.kept import Kept
from stretto.dashboard.measures import LATENCY_EDGES_MS, latency_between, latency_row, within
from stretto.dashboard.series import COARSE_KEPT, FINE_KEPT, Ring, Series
from stretto.dashboard.views import job_view
from stretto.observation.model import Observation

from .made import history_of


def test_a_ring_keeps_the_last_rows_in_order_whatever_it_has_held() -> None:
    for kept in (1, 3, 32, 33, 100):
        ring = Ring(kept, 2)
        for place in range(250):
            ring.add(place, (place, -place))
            times, rows = ring.rows()
            expected = list(range(max(0, place - kept + 1), place + 1))
            assert times.tolist() == expected
            assert rows[:, 1].tolist() == [-each for each in expected]
            assert len(ring) == len(expected)


def test_coarse_rows_are_means_and_sums_of_the_fine_ones() -> None:
    chance = random.Random(3)
    series = Series(("rate", "count"), sums=("count",))
    given = []
    for second in range(2_000):
        rate = math.nan if chance.random() < 0.3 else chance.uniform(0, 100)
        given.append((rate, float(chance.randint(0, 9))))
        series.add(second, given[-1])
    times, rows = series.rows()
    fine = [place for place, time in enumerate(times) if time >= 2_000 - FINE_KEPT]
    assert len(fine) == FINE_KEPT
    for time, row in zip(times[: fine[0]], rows[: fine[0]], strict=True):
        of_it = np.array(given[int(time) : int(time) + 10])
        assert row[0] == pytest.approx(np.nanmean(of_it[:, 0]), rel=1e-5)
        assert row[1] == of_it[:, 1].sum()
    # All that is left out is younger than a coarse row, and in a fine one.
    assert times[fine[0]] - times[fine[0] - 1] <= 20
    assert series.over_all()[:, 1].sum() == sum(count for _, count in given)


def test_an_hour_is_kept_and_no_more() -> None:
    series = Series(("a",))
    for second in range(3 * 3_600):
        series.add(second, (1.0,))
    times, _ = series.rows()
    assert 3_590 <= times[-1] - times[0] <= 3_620
    assert len(times) <= FINE_KEPT + COARSE_KEPT


def test_what_is_stated_is_what_it_takes_at_most() -> None:
    columns = 7
    ring_bytes = sum(ring._times.nbytes + ring._values.nbytes for ring in _full(columns))
    assert ring_bytes == Series.bytes_max(columns)
    assert Bounds().bytes_max < 100 << 20


def _full(columns: int) -> list[Ring]:
    series = Series(tuple(f"c{place}" for place in range(columns)))
    for second in range(12 * COARSE_KEPT):
        series.add(second, [0.0] * columns)
    return [series._fine, series._coarse]


def test_a_time_that_was_there_is_left_out() -> None:
    series = Series(("a",))
    for time in (1.0, 2.0, 2.0, 1.5, 3.0):
        series.add(time, (time,))
    assert series.plain() == {"t": [1.0, 2.0, 3.0], "a": [1.0, 2.0, 3.0]}
    assert series.plain(since_s=2.0) == {"t": [3.0], "a": [3.0]}


def test_observations_within_a_second_make_one_row() -> None:
    cluster, history = MadeUpCluster(MadeUp(1, 1)), History()
    for observation in cluster.observations(4):
        for quarter in range(4):
            history.observe(replace(observation, time_ns=observation.time_ns + quarter * 250_000_000))
    assert len(history.jobs["job-000"].series.rows()[0]) == 4


def test_every_result_is_counted_once_also_by_latency() -> None:
    history = history_of(seconds=30)
    for name in history.jobs:
        known = history.jobs[name]
        assert known.latency is not None
        total = known.latency.zeros + sum(known.latency.bins.values())
        assert known.results[0] == total
        assert known.latencies.over_all().sum() == total


def test_the_share_in_time_is_that_of_a_model() -> None:
    history = history_of(seconds=30)
    slow, fast = history.jobs["job-000"], history.jobs["job-001"]
    assert slow.results[1] == 0, "each of its results took 1.5 s or more"
    assert fast.results[1] / fast.results[0] > 0.99


def test_latencies_count_from_zero_again_after_a_restart() -> None:
    sketch = LatencySketch()
    sketch.add(5_000_000, 10)
    before = sketch.export()
    again = LatencySketch()
    again.add(5_000_000, 3)
    after = again.export()
    assert latency_between(after, before) == after
    assert latency_between(before, before) is None
    assert latency_between(before, None) == before


def test_steps_of_the_heat_map_hold_what_their_edges_say() -> None:
    sketch = LatencySketch()
    values = [0.0, 0.1, 0.3, 1.1, 70.0, 1e9]
    for value in values:
        sketch.add(int(value * 1e6), 1)
    bins = sketch.export() or SketchBins()
    row = latency_row(bins)
    for step, edge in enumerate(LATENCY_EDGES_MS):
        below = LATENCY_EDGES_MS[step - 1] if step else -1.0
        assert row[step] == sum(below < value <= edge for value in values), edge
    assert row[-1] == 1
    assert within(bins, 2.0) == 4


def test_the_oldest_job_that_has_ended_goes_first_and_a_new_one_beyond_the_bound_is_left_out() -> None:
    bounds = Bounds(jobs=3, functions=12, workers=2)
    history = History(bounds=bounds)
    cluster = MadeUpCluster(MadeUp(6, 5))
    history.observe(cluster.observe())
    assert list(history.jobs) == ["job-000", "job-001", "job-002"]
    assert sum(len(job.functions) for job in history.jobs.values()) == 12
    assert len(history.workers) == 2
    later = cluster.observe()
    only = {name: job for name, job in later.jobs.items() if name >= "job-001"}
    history.observe(replace(later, jobs=only))
    history.observe(replace(cluster.observe(), jobs=only))
    assert list(history.jobs) == ["job-001", "job-002", "job-003"]


def test_decisions_have_a_bound_and_a_later_record_replaces_the_one_before() -> None:
    history = History(bounds=Bounds(decisions=10))
    cluster = MadeUpCluster(MadeUp(2, 2))
    cluster.observe()
    records = [cluster.decide() for _ in range(25)]
    for record in records:
        history.decide(record)
    assert list(history.decisions) == list(range(16, 26))
    seen = history.decided
    history.decide(replace(records[20], reverted_ns=5))
    history.decide(replace(records[3], reverted_ns=5))  # It is no longer kept, and does not come back.
    assert [record.number for record in history.decided_since(seen)] == [21]
    assert history.decided_by == {"henge": 25}


def test_a_job_that_is_observed_no_more_is_gone_and_kept() -> None:
    history = history_of(seconds=3)
    history.observe(Observation(history.observation.time_ns + 5_000_000_000))
    assert all(job.gone and job.ended for job in history.jobs.values())
    assert all(worker.gone for worker in history.workers.values())


def test_the_last_observation_before_a_pause_is_shown_once_a_second_has_passed() -> None:
    first, second = MadeUpCluster(MadeUp(0, 1, banks=1)).observations(2)
    last = replace(second, time_ns=first.time_ns + 300_000_000)
    history = History()
    history.observe(first)
    history.observe(last)
    now_ns = last.time_ns
    kept = Kept(history, lambda: now_ns)

    def committed() -> int:
        found: int = kept.read(lambda history: job_view(history, "bank-000"))["entities"]["committed"]
        return found

    assert committed() == first.entities["bank-000"].totals.committed
    version = history.version
    now_ns = first.time_ns + 1_000_000_000
    assert committed() == last.entities["bank-000"].totals.committed
    assert history.version == version + 1, "pages that are open hear of it"
    committed()
    assert history.version == version + 1, "once"
