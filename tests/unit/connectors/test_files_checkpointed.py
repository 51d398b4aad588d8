"""Parquet files of jobs with checkpoints: which run may publish them, and which may remove them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stretto.actors.address import Address, Attempt
from stretto.actors.deployment import FunctionSpec
from stretto.actors.instance import Instance
from stretto.actors.snapshot import Origin
from stretto.actors.work import OPEN
from stretto.errors import StorageError
from stretto.operators.ends import SinkFunction
from stretto.runtime.connectors.file_kinds import PARQUET
from stretto.runtime.connectors.files_checkpointed import CheckpointedPlace, FilesCheckpointed
from stretto.runtime.connectors.part_files import PartFiles
from stretto.runtime.connectors.sinks import ParquetSink

SCHEMA = pa.schema([("n", pa.int64())])


def writer(
    directory: Path, attempt: int, owner: int = 1, lineage: str = "0123abcd", place: tuple[int, int] = (0, 1)
) -> FilesCheckpointed:
    where = CheckpointedPlace(directory, *place, Attempt(lineage, owner, attempt))
    return FilesCheckpointed(where, PartFiles(directory, SCHEMA, where.part, 1_000, PARQUET), ".parquet", ())


def published(checkpoints: FilesCheckpointed, checkpoint: int, number: int) -> None:
    checkpoints.write(pa.record_batch([[number]], SCHEMA))
    checkpoints.publish(checkpoint, checkpoints.seal(checkpoint) or [])


def seen(directory: Path) -> list[int]:
    return sorted(n for path in directory.glob("part-*") for n in pq.read_table(path).column("n").to_pylist())


def test_output_of_a_later_checkpoint_is_withdrawn(tmp_path: Path) -> None:
    first = writer(tmp_path, 1)
    published(first, 1, 10)
    published(first, 2, 20)
    first.write(pa.record_batch([[30]], SCHEMA))
    sealed = first.seal(3)
    writer(tmp_path, 2).withdraw(1)
    assert seen(tmp_path) == [10]
    assert sealed is not None
    assert not list(tmp_path.glob("_*"))


def test_a_replaced_writer_removes_no_file_of_its_successor(tmp_path: Path) -> None:
    published(writer(tmp_path, 1), 1, 10)
    replaced = writer(tmp_path, 2)
    successor = writer(tmp_path, 3)
    successor.withdraw(1)
    published(successor, 2, 20)
    successor.write(pa.record_batch([[30]], SCHEMA))
    sealed = successor.seal(3)
    replaced.withdraw(1)
    successor.publish(3, sealed or [])
    assert seen(tmp_path) == [10, 20, 30]


def test_a_file_that_is_published_while_it_is_withdrawn_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced = writer(tmp_path, 1)
    published(replaced, 1, 10)
    replaced.write(pa.record_batch([[20]], SCHEMA))
    sealed = replaced.seal(2)

    def published_after(directory: Path) -> list[str]:
        monkeypatch.undo()
        names = os.listdir(directory)
        replaced.publish(2, sealed or [])
        return names

    monkeypatch.setattr(os, "listdir", published_after)
    writer(tmp_path, 1, owner=2).withdraw(1)
    assert seen(tmp_path) == [10]


def test_sealed_output_that_was_removed_is_named(tmp_path: Path) -> None:
    first = writer(tmp_path, 1)
    first.write(pa.record_batch([[10]], SCHEMA))
    sealed = first.seal(1) or []
    (hidden,) = (tmp_path / name for name, _ in sealed)
    hidden.unlink()
    with pytest.raises(StorageError, match="sealed output is gone") as caught:
        first.publish(1, sealed)
    assert str(hidden) in str(caught.value)


def test_the_attempts_of_a_later_driver_are_later(tmp_path: Path) -> None:
    published(writer(tmp_path, 1, owner=2), 5, 50)
    writer(tmp_path, 9, owner=1).withdraw(1)
    assert seen(tmp_path) == [50]


def test_files_of_other_checkpoints_stay(tmp_path: Path) -> None:
    published(writer(tmp_path, 1, lineage="76543210"), 7, 70)
    writer(tmp_path, 2).withdraw(1)
    assert seen(tmp_path) == [70]


def test_partitions_that_no_longer_exist_are_assigned_to_the_others(tmp_path: Path) -> None:
    for partition in range(4):
        published(writer(tmp_path, 1, place=(partition, 4)), 2, partition)
    writer(tmp_path, 2, place=(1, 2)).withdraw(1)
    assert seen(tmp_path) == [0, 2]


def hidden(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("_*"))


def left(directory: Path, attempt: int, **of: Any) -> None:
    """Leaves a sealed file and an open one, as an attempt does that ends before its checkpoint is complete."""
    lost = writer(directory, attempt, **of)
    lost.write(pa.record_batch([[1]], SCHEMA))
    lost.seal(1)
    (directory / f"_open-{lost._place.part}-{'0' * 32}").touch()


def test_what_attempts_before_the_first_checkpoint_left_is_removed(tmp_path: Path) -> None:
    left(tmp_path, 1)
    left(tmp_path, 2)
    left(tmp_path, 1, place=(2, 3))  # A partition that no longer exists.
    assert len(hidden(tmp_path)) == 6
    writer(tmp_path, 1, owner=2, place=(0, 2)).discard_leftovers()
    assert hidden(tmp_path) == []


@pytest.mark.parametrize(
    "other",
    [
        {"attempt": 3},  # A later attempt.
        {"attempt": 2},  # The attempt itself.
        {"attempt": 1, "owner": 2},  # A later driver.
        {"attempt": 1, "lineage": "76543210"},  # Another app.
        {"attempt": 1, "place": (1, 2)},  # Another partition.
    ],
)
def test_hidden_files_of_others_stay(tmp_path: Path, other: dict[str, Any]) -> None:
    left(tmp_path, **other)
    published(writer(tmp_path, 1), 1, 10)
    for name in ("_open-mine", "_part-00000.parquet", "_part-00000-0123abcd-000001-000001-e000001-notes.parquet", "_x"):
        (tmp_path / name).write_bytes(b"a stranger's")
    before = sorted(path.name for path in tmp_path.iterdir())
    writer(tmp_path, 2, place=(0, 2)).discard_leftovers()
    assert sorted(path.name for path in tmp_path.iterdir()) == before


SEALED = "_part-00000-0123abcd-000001-000001-e000001-00000-" + "0" * 32 + ".parquet"
VISIBLE = "part-00000-0123abcd-000001-000001-e000001-00000.parquet"


@pytest.mark.parametrize(
    "part",
    [
        [("../outside.parquet", VISIBLE)],
        [(SEALED, "../../lib/planted.py")],
        [(SEALED, "planted.py")],
        [(SEALED, VISIBLE.replace("e000001", "e000002"))],
        [(SEALED, f"../{VISIBLE}")],
        [("/etc/passwd", VISIBLE)],
        [(SEALED,)],
        [(SEALED, 1)],
        {SEALED: VISIBLE},
        SEALED,
        7,
    ],
)
def test_a_part_from_a_checkpoint_names_only_files_of_the_sink(tmp_path: Path, part: Any) -> None:
    with pytest.raises(ValueError, match=r"would be published|Expected"):
        writer(tmp_path, 1).check_part(part)
    writer(tmp_path, 1).check_part([(SEALED, VISIBLE)])


def test_nothing_outside_of_the_directory_is_published(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    for part in ([("../secret", VISIBLE)], [(SEALED, "../secret")]):
        with pytest.raises(StorageError, match="is not a path within"):
            writer(tmp_path / "out", 1).publish(1, part)
    assert (tmp_path / "secret").read_bytes() == b"secret"
    assert not list((tmp_path / "out").iterdir())


def opened(directory: Path, attempt: int, origin: Origin | None = None) -> Instance:
    function = SinkFunction(ParquetSink(directory), SCHEMA)
    one = Instance(Address("job", "out", 0), FunctionSpec("out", function, 1), False, True)
    one.belong_to(Attempt("0123abcd", 1, attempt))
    one.origin = origin
    one.apply(OPEN, 0)
    return one


@pytest.mark.parametrize("origin", [None, Origin(7, {}, whole=False, parallelism=0, channels={})])
def test_a_sink_that_starts_from_the_beginning_removes_what_was_left(tmp_path: Path, origin: Origin | None) -> None:
    lost = opened(tmp_path, 1)
    lost.function.process(pa.record_batch([[1]], SCHEMA), lost.ctx)
    lost.function.seal(1)
    assert len(hidden(tmp_path)) == 1
    following = opened(tmp_path, 2, origin)
    assert hidden(tmp_path) == []
    following.function.process(pa.record_batch([[2]], SCHEMA), following.ctx)
    following.function.seal(1)
    opened(tmp_path, 1, origin)  # A process that does not know that it was replaced.
    following.function.publish(1)
    assert seen(tmp_path) == [2]
