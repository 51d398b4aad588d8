"""Juice as defined in the thesis (3.3), and latency sketches that merge."""

from __future__ import annotations

import random

import msgspec
import pytest

from stretto.actors.juice import juice
from stretto.actors.metrics import FunctionMetrics, LatencySketch, SketchBins, difference, merged


def function(executed: dict[str, int] | None = None, sent: dict[str, int] | None = None) -> FunctionMetrics:
    return FunctionMetrics(messages_in=1 if executed else 0, executed_from=executed or {}, sent_to=sent or {})


def test_juice_is_one_when_nothing_waits() -> None:
    chain = {
        "spout": function(sent={"map": 100}),
        "map": function({"spout": 100}, {"sink": 7}),
        "sink": function({"map": 7}),
    }
    assert juice(chain) == 1.0


def test_juice_falls_with_what_waits_in_any_queue_of_the_path() -> None:
    chain = {
        "spout": function(sent={"map": 100}),
        "map": function({"spout": 80}, {"sink": 40}),
        "sink": function({"map": 30}),
    }
    assert juice(chain) == pytest.approx(0.8 * 0.75)


def test_a_fork_splits_juice_and_a_merge_adds_it_up() -> None:
    diamond = {
        "spout": function(sent={"left": 100, "right": 100}),
        "left": function({"spout": 100}, {"sink": 10}),
        "right": function({"spout": 50}, {"sink": 50}),
        "sink": function({"left": 10, "right": 50}),
    }
    assert juice(diamond) == pytest.approx(0.5 + 0.25)


def test_juice_is_averaged_over_spouts() -> None:
    join = {
        "a": function(sent={"join": 10}),
        "b": function(sent={"join": 1000}),
        "join": function({"a": 10, "b": 500}, {"sink": 5}),
        "sink": function({"join": 5}),
    }
    assert juice(join) == pytest.approx((1.0 + 0.5) / 2)


def test_a_filter_that_drops_everything_has_processed_it() -> None:
    assert juice({"spout": function(sent={"filter": 10}), "filter": function({"spout": 10})}) == 1.0


def test_juice_is_unknown_before_the_first_row() -> None:
    assert juice({"spout": function(), "sink": function()}) is None


def test_a_function_that_emits_nothing_in_an_interval_is_an_end() -> None:
    # The difference of two readings has a zero for each child that got rows before.
    window = {
        "spout": function(sent={"window": 100}),
        "window": function({"spout": 90}, {"sink": 0}),
        "sink": function({"window": 0}),
    }
    assert juice(window) == pytest.approx(0.9)


def test_a_backlog_that_is_worked_off_does_not_hide_that_another_function_falls_behind() -> None:
    fork = {
        "spout": function(sent={"left": 50, "right": 50}),
        "left": function({"spout": 80}),
        "right": function({"spout": 20}),
    }
    assert juice(fork) == pytest.approx(0.5 + 0.2)


def test_a_source_without_input_is_not_counted_and_a_timer_is_no_source() -> None:
    join = {
        "a": function(sent={"join": 10}),
        "quiet": function(sent={"join": 0}),
        "join": function({"a": 5}),
        "timer": function(sent={"sink": 3}),
        "sink": function({"timer": 0}),
    }
    assert juice(join, {"a", "quiet"}) == pytest.approx(0.5)


def test_what_is_due_and_not_read_is_input_of_a_source_that_is_held_back() -> None:
    chain = {"spout": function(sent={"sink": 60}), "sink": function({"spout": 60})}
    chain["spout"].rows_in, chain["spout"].rows_due = 60, 100
    assert juice(chain) == pytest.approx(0.6)
    # Working off what was due earlier is no more than all.
    earlier = FunctionMetrics(rows_in=10, rows_due=80)
    assert juice({**chain, "spout": difference(chain["spout"], earlier)}) == 1.0


def test_a_source_that_reads_nothing_of_what_is_due_has_no_juice() -> None:
    shut = FunctionMetrics(rows_due=5)
    assert juice({"shut": shut, "sink": function()}, {"shut"}) == 0.0
    both = {"shut": shut, "open": function(sent={"sink": 5}), "sink": function({"open": 5})}
    assert juice(both, {"shut", "open"}) == 0.5


def test_merged_sketches_answer_like_one_over_all_values() -> None:
    draws = random.Random(1)
    values = [int(draws.lognormvariate(12, 2)) for _ in range(5_000)]
    whole, parts = LatencySketch(), [LatencySketch() for _ in range(4)]
    for index, value in enumerate(values):
        whole.add(value, 1 + index % 3)
        parts[index % 4].add(value, 1 + index % 3)
    together = LatencySketch()
    for part in parts:
        wire = msgspec.msgpack.decode(msgspec.msgpack.encode(part.export()), type=SketchBins)
        together.merge(wire)
    assert together.percentiles() == pytest.approx(whole.percentiles())
    assert together.count == whole.count
    assert together.max_ms == max(values) / 1e6


def test_quantiles_are_within_one_percent_of_the_exact_ones() -> None:
    draws = random.Random(2)
    values = sorted(draws.randint(1, 10**9) for _ in range(2_000))
    sketch = LatencySketch()
    for value in values:
        sketch.add(value, 1)
    for q in (0.5, 0.95, 0.99):
        exact = values[int(q * (len(values) - 1))] / 1e6
        assert sketch.quantile(q) == pytest.approx(exact, rel=0.011)
    assert sketch.quantile(1.0) == pytest.approx(values[-1] / 1e6, rel=0.011)
    assert sketch.max_ms == values[-1] / 1e6


def test_a_sketch_answers_as_the_reference_implementation_does() -> None:
    """The figures are those of the package ddsketch 3.0.1 over the same values."""
    draws = random.Random(3)
    sketch = LatencySketch()
    for _ in range(1_000):
        sketch.add(int(draws.lognormvariate(16, 2)), draws.randint(1, 9))
    for _ in range(20):
        sketch.add(-1, 5)
    assert sketch.count == 5_158
    expected = {
        0.0: 0.0,
        0.25: 2.4350801357,
        0.5: 7.7680435316,
        0.95: 232.7888163727,
        0.99: 1107.8579755585,
        1.0: 3519.941502,
    }
    assert {q: sketch.quantile(q) for q in expected} == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("latency_ns", "key"),
    [(1, -690), (500_000, -34), (1_000_000, 0), (1_020_000, 1), (20_000_000, 150), (3_000_000_000_000, 746)],
)
def test_a_value_is_in_the_bin_of_the_reference_implementation(latency_ns: int, key: int) -> None:
    sketch = LatencySketch()
    sketch.add(latency_ns, 3)
    assert sketch.export() == SketchBins({key: 3.0}, 0.0, 3 * latency_ns / 1e6, latency_ns / 1e6, latency_ns / 1e6)


def test_a_latency_is_that_of_at_least_one_row() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        LatencySketch().add(1_000, 0)


def test_an_empty_sketch_knows_nothing() -> None:
    sketch = LatencySketch()
    assert sketch.export() is None
    assert sketch.percentiles() == {"p50": None, "p95": None, "p99": None, "max": None}


def test_totals_of_instances_add_up() -> None:
    one = FunctionMetrics(rows_in=1, rows_out=2, queued=3, executed_from={"a": 1}, counts={"late_rows": 2})
    other = FunctionMetrics(rows_in=10, rows_out=20, queued=30, executed_from={"a": 5, "b": 7})
    total = merged([one, other])
    assert (total.rows_in, total.rows_out, total.queued, total.instances) == (11, 22, 33, 2)
    assert total.executed_from == {"a": 6, "b": 7}
    assert total.counts == {"late_rows": 2}


def test_what_was_counted_between_two_readings() -> None:
    sketch = LatencySketch()
    sketch.add(900_000_000, 10_000)
    earlier = FunctionMetrics(
        rows_in=10_000, messages_in=5, busy_ns=70, executed_from={"a": 10_000}, latency=sketch.export()
    )
    sketch.add(2_000_000, 90)
    sketch.add(40_000_000, 10)
    later = FunctionMetrics(
        rows_in=10_100,
        messages_in=7,
        busy_ns=90,
        queued=3,
        executed_from={"a": 10_060, "b": 40},
        latency=sketch.export(),
    )
    between = difference(later, earlier)
    assert (between.rows_in, between.messages_in, between.busy_ns, between.queued) == (100, 2, 20, 3)
    assert between.executed_from == {"a": 60, "b": 40}
    assert between.latency is not None
    latency = LatencySketch()
    latency.merge(between.latency)
    assert latency.count == 100
    assert latency.quantile(0.5) == pytest.approx(2.0, rel=0.02)
    assert latency.max_ms == pytest.approx(40.0, rel=0.02), "the slow rows before the interval are not in it"


def test_counts_that_restarted_at_zero_are_all_new() -> None:
    earlier, later = FunctionMetrics(rows_in=500, messages_in=9), FunctionMetrics(rows_in=20, messages_in=2)
    assert difference(later, earlier) is later
    assert difference(earlier, earlier).latency is None
