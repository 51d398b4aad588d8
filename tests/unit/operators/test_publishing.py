"""The rows of a partition of a table: each is read once by whoever knows the pieces of a version, and old ones go."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from stretto.actors.address import Attempt
from stretto.api.app import App
from stretto.api.relational import unsupported
from stretto.operators.publishing import (
    TIMELESS_US,
    PublishCheckpointed,
    PublishedRows,
    PublishSink,
    PublishWriter,
    segment_start,
    segment_text,
    with_segment,
)
from stretto.simulator.engine.published import SimulatedTable
from stretto.sources import memory

SCHEMA = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
SECOND = 1_000_000


def batch(*times: int | None) -> pa.RecordBatch:
    return pa.record_batch({"n": list(range(len(times))), "at": times}, schema=SCHEMA)


def opened(keep_us: int | None = None) -> tuple[SimulatedTable, PublishCheckpointed]:
    table, sink = SimulatedTable(), PublishSink("t", "at", 10 * SECOND, keep_us)
    sink.files = table
    return table, sink.checkpointed_writer(SCHEMA, 0, 1, Attempt("lineage", 1, 1))


def times_of(live: dict[int, list[pa.RecordBatch]]) -> list[int]:
    return sorted(
        time for rows in live.values() for each in rows for time in each.column(1).cast(pa.int64()).to_pylist()
    )


def test_rows_after_a_version_and_its_pieces_are_all_rows_whatever_is_published() -> None:
    rng = Random(2)
    table, writer = opened()
    written: list[int] = []
    sealed: dict[int, object] = {}
    known: dict[int, list[int]] = {0: []}
    for checkpoint in range(1, 60):
        times = [rng.randrange(60 * SECOND) for _ in range(rng.randint(0, 5))]
        writer.write(batch(*times))
        written += times
        if rng.random() < 0.6:
            sealed[checkpoint] = writer.seal(checkpoint)
        if sealed and rng.random() < 0.5:
            for each in sorted(sealed):
                part = sealed.pop(each)
                if part is not None:
                    writer.publish(each, part)
            in_files = [time for rows in table.visible.values() for time in times_of({0: rows})]
            known[writer.rows.version] = in_files
        for version, in_files in known.items():
            live = writer.rows.after(version)
            assert live is not None
            assert sorted(in_files + times_of(live)) == sorted(written)
    assert len(known) > 10


def test_dropped_rows_of_a_piece_are_not_said_to_be_there() -> None:
    _, writer = opened()
    writer.write(batch(1))
    writer.publish(1, writer.seal(1))
    (name,) = writer.rows.pieces
    writer.rows.drop(name)
    assert writer.rows.after(0) is None
    assert writer.rows.after(writer.rows.version) == {}


def test_segments_older_than_what_is_kept_are_forgotten_with_their_files() -> None:
    table, writer = opened(keep_us=20 * SECOND)
    for checkpoint, second in enumerate((0, 15, 25, 45), 1):
        writer.write(batch(second * SECOND, None))
        writer.publish(checkpoint, writer.seal(checkpoint))
    starts = sorted({cut.start_us for cut in writer.rows.pieces.values()})
    assert starts == [TIMELESS_US, 20 * SECOND, 40 * SECOND]
    assert {path.partition("/")[0] for path in table.visible} == {
        "segment=none",
        "segment=1970-01-01T00-00-20",
        "segment=1970-01-01T00-00-40",
    }
    new, gone = writer.rows.news()
    assert (len(new), len(gone)) == (6, 2)

    memory = PublishWriter(PublishedRows(PublishSink("t", "at", 10 * SECOND, 20 * SECOND), SCHEMA))
    for second in (0, 15, 25, 45):
        memory.write(batch(second * SECOND))
    assert times_of(memory.rows.after(0) or {}) == [25 * SECOND, 45 * SECOND]


def test_a_table_in_memory_goes_along_to_the_next_attempt() -> None:
    sink = PublishSink("t", "at", 10 * SECOND, None)
    writer, other = (PublishWriter(PublishedRows(sink, SCHEMA)) for _ in range(2))
    writer.write(batch(1, 30 * SECOND, 2))
    other.write(batch(5))
    taken = writer.past.fresh()
    taken.restore(writer.past.export())
    other.past.take_in(taken)
    assert times_of(other.rows.after(0) or {}) == [1, 2, 5, 30 * SECOND]


@pytest.mark.parametrize(
    "start", [0, 10 * SECOND, -10 * SECOND, TIMELESS_US, 2**62, -(2**62), 1_767_225_600_000_000, 5]
)
def test_the_name_of_a_segment_is_read_as_its_start(start: int) -> None:
    assert segment_start(segment_text(start)) == start


def test_only_actors_publish_tables() -> None:
    app = App("published")
    app.source("rows", memory(pa.Table.from_batches([batch(1)])), time="at").publish("t")
    assert (
        unsupported(app.plan(), streaming=True)
        == "'rows.publish' publishes a table, which only actors can be asked for"
    )
    assert unsupported(app.plan(), streaming=False) is None


def test_rows_have_the_segments_of_their_times() -> None:
    table, writer = opened()
    writer.write(batch(-1, 9_999_999, None, 10_000_000))
    sealed = writer.seal(1)
    assert [visible.partition("/")[0] for _, visible in sealed] == [
        "segment=1969-12-31T23-59-50",
        "segment=1970-01-01T00-00-00",
        "segment=1970-01-01T00-00-10",
        "segment=none",
    ]
    assert with_segment(SCHEMA).names == ["n", "at", "segment"]
    assert not table.visible
