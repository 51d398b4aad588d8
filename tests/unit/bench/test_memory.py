"""Memory growth is computed correctly, and a slow sink keeps its rate."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from stretto.bench.memory import Sample, SlowSink, growth, slow_app


def test_growth_counts_from_the_end_of_the_warm_up() -> None:
    series = [Sample(second, {"w0": 100.0 + second, "w1": 100.0}) for second in range(0, 121, 10)]
    assert growth(series, 60.0) == {"w0": pytest.approx(60 / 160 * 100), "w1": 0.0}
    assert growth(series, 60.0)["w0"] > 5


def test_a_peak_after_the_warm_up_counts_even_if_it_went_away() -> None:
    series = [Sample(0, {"w": 900.0}), Sample(60, {"w": 100.0}), Sample(61, {"w": 150.0}), Sample(62, {"w": 90.0})]
    assert growth(series, 60.0) == {"w": pytest.approx(50.0)}


def test_a_run_that_ends_within_the_warm_up_shows_nothing() -> None:
    assert growth([Sample(5, {"w": 1.0})], 60.0) == {}


def test_the_slow_sink_takes_its_time() -> None:
    batch = pa.record_batch({"n": pa.array(range(100))})
    writer = SlowSink(10_000).writer(batch.schema, 0, 1)
    began = time.monotonic()
    for _ in range(5):
        writer.write(batch)
    assert time.monotonic() - began >= 0.049


def test_the_slow_app_is_a_plan() -> None:
    assert [node.name for node in slow_app(1_000, 1.0, 2).plan().sinks] == ["slow", "counts"]
