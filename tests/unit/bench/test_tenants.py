"""The streams and the arithmetic of `stretto bench tenants`, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from stretto.bench.tenant_jobs import EPOCH_US, TIME, WINDOWS, Phase, Stream, StreamReader, Tenant, compute, rounds_for
from stretto.bench.tenants import Comparison, TenantsRun, window_latencies_ms
from stretto.sinks import null

MS = 1_000_000


def stream(paced: bool = True) -> Stream:
    return Stream(rows=10, gap_us=1_000, start_ns=50 * MS, end_ns=54 * MS, partitions=2, paced=paced)


def test_a_batch_is_due_with_its_last_event() -> None:
    one = stream()
    assert one.batches == 4
    assert one.due_ns(0) == 51 * MS
    times = one.batch(1, 0).column("t").cast(pa.int64()).to_pylist()
    assert times[-1] == EPOCH_US + 2_000
    assert min(times) > EPOCH_US + 1_000
    assert not one.batch(1, 0).equals(one.batch(1, 1)), "partitions differ"


def test_a_paced_reader_waits_for_what_is_due_and_ends() -> None:
    reader = StreamReader(stream(), 0)
    early = reader.read(50 * MS, 100)
    assert early.batch is None
    assert early.next_ns == 51 * MS
    readings = [reader.read(60 * MS, 100) for _ in range(4)]
    assert [reading.arrived_ns for reading in readings] == [51 * MS, 52 * MS, 53 * MS, 54 * MS]
    assert reader.read(60 * MS, 100).done


def test_a_reader_without_a_pace_always_has_more_until_its_time_is_over() -> None:
    reader = StreamReader(stream(paced=False), 0)
    assert reader.read(49 * MS, 100).next_ns == 50 * MS
    readings = [reader.read(53 * MS, 100) for _ in range(20)]
    assert all(reading.batch is not None and reading.next_ns is None for reading in readings)
    assert {reading.arrived_ns for reading in readings} == {53 * MS}
    assert reader.read(54 * MS, 100).done


def test_a_reader_rests_while_the_file_exists(tmp_path: Path) -> None:
    rests = tmp_path / "rests"
    reader = StreamReader(replace(stream(paced=False), rests=rests), 0)
    assert reader.read(50 * MS, 100).batch is not None
    rests.touch()
    at_rest = reader.read(52 * MS, 100)
    assert at_rest.batch is None
    assert at_rest.next_ns is not None
    assert at_rest.next_ns > 52 * MS
    rests.unlink()
    assert reader.read(53 * MS, 100).batch is not None


def test_latency_counts_from_the_end_of_a_window_after_the_warm_up() -> None:
    tenant = Tenant("one", stream(), rounds=1, window_us=2_000, phases=(Phase("measured", 50 * MS, 60 * MS),))

    def row(window: int) -> pa.RecordBatch:
        columns = [pa.array([EPOCH_US + window * 2_000], TIME), *(pa.array([1], pa.int64()) for _ in range(3))]
        return pa.RecordBatch.from_arrays(columns, schema=WINDOWS)

    # The windows end at 52 and 54 ms; the end of the stream closes the third one, not its time.
    arrivals = [(53 * MS, row(0)), (55 * MS, row(0)), (61 * MS, row(1)), (61 * MS, row(2))]
    assert window_latencies_ms(tenant, arrivals) == [3.0, 7.0]
    warm = Tenant("one", stream(), rounds=1, window_us=2_000, phases=(Phase("measured", 53 * MS, 60 * MS),))
    assert window_latencies_ms(warm, arrivals) == [7.0]


def test_ratios_and_satisfaction() -> None:
    fifo = TenantsRun(2.0, "fifo", [100.0] * 10, [1_000.0], [0.9])
    llf = TenantsRun(2.0, "llf", [*[10.0] * 9, 30.0], [980.0], [0.9])
    ratios = Comparison(fifo, llf).ratios()
    assert ratios["p50"] == 10.0
    assert ratios["bulk"] == 0.98
    assert llf.satisfied(20.0) == 0.9
    assert fifo.satisfied(20.0) == 0.0
    assert llf.as_dict(20.0)["latency_ms"]["max"] == 30.0


def test_computing_takes_as_long_as_it_is_told() -> None:
    assert compute(3) != compute(4)
    assert rounds_for(4.0) == pytest.approx(4 * rounds_for(1.0), rel=0.5)


def test_the_app_of_a_tenant_is_a_plan() -> None:
    plan = Tenant("one", stream(), 1, 2_000, ()).app(null).plan()
    assert [node.name for node in plan.sources] == ["events"]
    assert {"work", "sums", "answers"} <= set(plan.nodes)
