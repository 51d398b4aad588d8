"""Which actor follows which, with any numbers of partitions; and which apps do not fit a checkpoint."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from stretto.actors.function import EVENT_TIME_MAX_US, EVENT_TIME_MIN_US
from stretto.actors.shape import Feed, FunctionShape
from stretto.actors.shards import SHARDS, ShardMap
from stretto.checkpoints.fitting import check_fit
from stretto.checkpoints.manifest import ActorRecord, Manifest, Piece
from stretto.checkpoints.resuming import Resumption
from stretto.errors import StorageError

PIECE = Piece("somewhere", 0, 1, "")


def record(watermark_us: int = 0, finished: bool = False) -> ActorRecord:
    return ActorRecord(None if finished else PIECE, {}, finished, watermark_us)


def shape(parallelism: int, *feeds: Feed, **more: Any) -> FunctionShape:
    shards = ShardMap.even(parallelism) if more.get("partitioned_by") else None
    return FunctionShape("", parallelism, feeds=feeds, shards=shards, **more)


def dataflow(source: int, keyed: int, sink: int, **changed: str) -> dict[str, FunctionShape]:
    """Returns a source, a keyed function and a sink with these parallelisms."""
    states = {"sums": changed.get("sums", "MapState")}
    return {
        "source": shape(source, states={"position": "Files"}, splits=source),
        "counts": shape(keyed, Feed("source", "in", False), partitioned_by={"in": ("k",)}, states=states),
        "sink": shape(sink, Feed("counts", "in", keyed == sink), states={"output": "Parquet"}, is_sink=True),
    }


def checkpoint(shapes: dict[str, FunctionShape], **records: list[ActorRecord]) -> Manifest:
    functions = {name: records.get(name) or [record()] * shape.parallelism for name, shape in shapes.items()}
    return Manifest("app", 7, functions, shapes=Resumption(None, shapes).shapes())


@pytest.mark.parametrize("seed", range(20))
def test_everything_is_followed_and_nothing_twice(seed: int) -> None:
    chance = random.Random(seed)
    before, now = (dataflow(*(chance.randint(1, 9) for _ in range(3))) for _ in range(2))
    resumption = Resumption(checkpoint(before), now)
    follows = {
        name: [set(resumption.follows(name, p)) for p in range(shape.parallelism)] for name, shape in now.items()
    }
    assert sorted(q for each in follows["sink"] for q in each) == list(range(before["sink"].parallelism))
    shards = np.arange(SHARDS, dtype=np.uint64)
    had, has = (ShardMap.even(shapes["counts"].parallelism).partitions_of(shards) for shapes in (before, now))
    for partition, followed in enumerate(follows["counts"]):
        assert followed == set(had[has == partition].tolist())
    for name, shape in now.items():
        leads = [resumption.leads(name, p) for p in range(shape.parallelism)]
        assert sorted(q for each in leads for q in each) == list(range(before[name].parallelism))
    # The splits of a source's input stay the same, however often the parallelism changes.
    third = Resumption(Manifest("app", 8, {}, shapes=resumption.shapes()), dataflow(3, 1, 1))
    assert resumption.splits("source") == third.splits("source") == before["source"].parallelism
    for partition, followed in enumerate(follows["source"]):
        parts = range(partition, before["source"].parallelism, now["source"].parallelism)
        assert followed == {part % before["source"].parallelism for part in parts}


def test_the_same_dataflow_follows_itself() -> None:
    shapes = dataflow(2, 3, 3)
    resumption = Resumption(checkpoint(shapes, source=[record(50), record(finished=True)]), shapes)
    assert resumption.is_same
    assert [list(resumption.follows("counts", p)) for p in range(3)] == [[0], [1], [2]]
    assert not resumption.finished("source", 0)
    assert resumption.finished("source", 1)
    assert Resumption(None, shapes).finished("source", 1) is False


def test_watermarks_of_new_channels() -> None:
    records = {"source": [record(70), record(50)], "counts": [record(50)] * 2, "sink": [record(50)]}
    more = Resumption(checkpoint(dataflow(2, 2, 1), **records), dataflow(4, 3, 2))
    # The splits stay the same, so two of the four sources have nothing to read.
    assert more.channels("counts", 0) == {
        ("source", 0): (70, False),
        ("source", 1): (50, False),
        ("source", 2): (EVENT_TIME_MAX_US, True),
        ("source", 3): (EVENT_TIME_MAX_US, True),
    }
    assert more.sent_downstream("counts", 2) == (50, False)
    fewer = Resumption(checkpoint(dataflow(2, 2, 1), **records), dataflow(1, 1, 1))
    assert fewer.channels("counts", 0) == {("source", 0): (50, False)}


def test_which_actors_have_finished_after_the_parallelism_changed() -> None:
    ended = [record(finished=True)]
    records = {"source": ended * 2, "counts": ended * 2, "sink": [ActorRecord(PIECE, {}, True)]}
    resumption = Resumption(checkpoint(dataflow(2, 2, 1), **records), dataflow(3, 4, 2))
    actors = [("source", 3), ("counts", 4), ("sink", 2)]
    assert all(resumption.finished(name, p) for name, count in actors for p in range(count))
    # An actor with state left has not finished, though all its senders have; it ends when it resumes.
    records = {"source": ended * 2, "counts": [record(50), *ended], "sink": [record(50)]}
    resumption = Resumption(checkpoint(dataflow(2, 2, 1), **records), dataflow(1, 1, 1))
    assert resumption.finished("source", 0)
    assert not resumption.finished("counts", 0)
    assert resumption.channels("counts", 0) == {("source", 0): (EVENT_TIME_MAX_US, True)}


def test_a_new_function_has_sent_no_watermark() -> None:
    before = dataflow(1, 1, 1)
    now = {**before, "more": shape(1, Feed("source", "in", False))}
    now["sink"] = shape(1, *before["sink"].feeds, Feed("more", "in", False), is_sink=True)
    resumption = Resumption(checkpoint(before, source=[record(50)], counts=[record(50)]), now)
    assert resumption.channels("more", 0) == {("source", 0): (50, False)}
    assert resumption.channels("sink", 0) == {("counts", 0): (50, False), ("more", 0): (EVENT_TIME_MIN_US, False)}
    assert resumption.parallelism("more") == 0


def test_rows_that_are_partitioned_by_other_columns_may_come_from_anywhere() -> None:
    before, now = dataflow(1, 3, 1), dataflow(1, 3, 1)
    now["counts"] = shape(3, *now["counts"].feeds, partitioned_by={"in": ("k", "s")}, states=now["counts"].states)
    resumption = Resumption(checkpoint(before), now)
    assert not resumption.is_same
    assert not resumption.is_whole("counts")
    assert list(resumption.follows("counts", 1)) == [0, 1, 2]


# Apps that do not fit.


def test_an_app_that_is_the_same_but_for_its_parallelism_fits() -> None:
    assert check_fit("app", dataflow(3, 5, 2), checkpoint(dataflow(1, 2, 3))) == []


@pytest.mark.parametrize(("gone", "what"), [("source", "position"), ("counts", "sums"), ("sink", "output")])
def test_the_state_of_a_removed_function_is_not_dropped_silently(gone: str, what: str) -> None:
    before = dataflow(1, 2, 1)
    now = {name: shape for name, shape in before.items() if name != gone}
    with pytest.raises(StorageError) as refused:
        check_fit("app", now, checkpoint(before))
    assert str(refused.value).startswith("checkpoint 7 does not fit app 'app': ")
    assert f"function '{gone}' is not in the app, and its state would be dropped: {what}" in str(refused.value)
    assert "drop_state=True" in str(refused.value)
    assert check_fit("app", now, checkpoint(before), drop_state=True) == []
    ended = checkpoint(before, **{gone: [record(finished=True)] * before[gone].parallelism})
    assert check_fit("app", now, ended) == []  # Nothing of it was left.


def test_a_stateless_function_may_come_and_go() -> None:
    stateless = {"relay": shape(2, Feed("source", "in", True))}
    assert check_fit("app", dataflow(1, 1, 1), checkpoint({**dataflow(1, 1, 1), **stateless})) == []
    assert check_fit("app", {**dataflow(1, 1, 1), **stateless}, checkpoint(dataflow(1, 1, 1))) == ["relay"]


def test_a_state_of_another_kind_is_refused() -> None:
    with pytest.raises(StorageError, match="state 'sums' of function 'counts' was MapState, and is ListState"):
        check_fit("app", dataflow(1, 1, 1, sums="ListState"), checkpoint(dataflow(1, 1, 1)), drop_state=True)


def test_a_state_that_is_gone_is_refused_and_a_new_one_begins_empty() -> None:
    before = dataflow(1, 1, 1)
    now = {**before, "counts": shape(1, *before["counts"].feeds, states={"other": "MapState"})}
    with pytest.raises(StorageError, match="function 'counts' has no state 'sums' any more"):
        check_fit("app", now, checkpoint(before))
    assert check_fit("app", now, checkpoint(before), drop_state=True) == []


def test_a_name_cannot_change_its_role() -> None:
    now = dataflow(1, 1, 1)
    now["counts"] = shape(1, splits=1)
    with pytest.raises(StorageError, match="'counts' was a function, and is a source"):
        check_fit("app", now, checkpoint(dataflow(1, 1, 1)), drop_state=True)
