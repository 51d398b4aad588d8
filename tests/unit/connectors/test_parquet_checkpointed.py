"""Parquet files of jobs with checkpoints: which run may publish them, and which may remove them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stretto.actors.address import Attempt
from stretto.errors import StorageError
from stretto.runtime.connectors.parquet_checkpointed import CheckpointedPlace, ParquetCheckpointed

SCHEMA = pa.schema([("n", pa.int64())])


def writer(
    directory: Path, attempt: int, owner: int = 1, lineage: str = "0123abcd", place: tuple[int, int] = (0, 1)
) -> ParquetCheckpointed:
    return ParquetCheckpointed(
        CheckpointedPlace(directory, *place, Attempt(lineage, owner, attempt)), SCHEMA, 1_000, ()
    )


def published(checkpoints: ParquetCheckpointed, checkpoint: int, number: int) -> None:
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
