"""Files of a job with checkpoints: those of a checkpoint are complete and hidden, until a rename publishes
them.

_open-00000-1c291ca3-000001-000002-4f1c...                        being written
_part-00000-1c291ca3-000001-000002-e000007-00000-9ab2....parquet  sealed for checkpoint 7
part-00000-1c291ca3-000001-000002-e000007-00000.parquet           published

A file of rows that are divided by columns is hidden beside the others, and published in its directory. Names identify
the writer of a file: the partition, the lineage of the checkpoints, and the attempt (here the second of the first
driver).
"""

from __future__ import annotations

import os
import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from stretto.actors.address import Attempt
from stretto.actors.sink import CheckpointedWriter
from stretto.errors import StorageError
from stretto.runtime.confined import confined
from stretto.runtime.connectors.changelog import Changelog
from stretto.runtime.connectors.part_files import HiddenFile, PartFiles, files_in, writing_in
from stretto.runtime.connectors.partitioned import PartitionedFiles

_WRITTEN_BY = r"(?P<partition>\d{5,})-(?P<lineage>[0-9a-f]{8})-(?P<owner>\d{6,})-(?P<attempt>\d{6,})-"
_SUFFIX = r"\.(?:parquet|csv|jsonl)"
_FOLDER = re.compile(r"(?:[^/=]+=[^/]+/)*")
_OPEN = re.compile(rf"_open-{_WRITTEN_BY}.*")
_SEALED = re.compile(rf"_(?P<visible>part-{_WRITTEN_BY}e\d{{6,}}-\d{{5,}})-[0-9a-f]{{32}}(?P<suffix>{_SUFFIX})")
_OF_CHECKPOINT = re.compile(rf"_?part-{_WRITTEN_BY}e(?P<checkpoint>\d{{6,}})-.*{_SUFFIX}")


def is_of_checkpoint(path: str) -> bool:
    """Whether a file is of a job with checkpoints, hidden or not."""
    return _OF_CHECKPOINT.fullmatch(path.rpartition("/")[2]) is not None


@dataclass(frozen=True)
class CheckpointedPlace:
    """The directory of the files, and their writer."""

    directory: Path
    partition: int
    partitions: int
    attempt: Attempt

    @property
    def part(self) -> str:
        lineage, owner, number = self.attempt
        return f"{self.partition:05d}-{lineage}-{owner:06d}-{number:06d}"

    def withdraws(self, path: str, checkpoint: int) -> bool:
        """Whether a file is of a later checkpoint than this, or unfinished, and of this partition and not of a later
        attempt. Partitions that no longer exist are assigned to the others in turn."""
        name = path.rpartition("/")[2]
        found = _OPEN.fullmatch(name) or _OF_CHECKPOINT.fullmatch(name)
        if found is None or found["lineage"] != self.attempt.lineage:
            return False
        if int(found["partition"]) % self.partitions != self.partition:
            return False
        ours = (int(found["owner"]), int(found["attempt"])) <= self.attempt[1:]
        return ours and int(found.groupdict().get("checkpoint", checkpoint + 1)) > checkpoint

    def is_leftover(self, name: str) -> bool:
        """Whether a file is hidden, and of this partition and an earlier attempt."""
        found = _OPEN.fullmatch(name) or _SEALED.fullmatch(name)
        if found is None or not self.withdraws(name, 0):
            return False
        return (int(found["owner"]), int(found["attempt"])) < self.attempt[1:]


class FilesCheckpointed(CheckpointedWriter):
    """Writes one partition's files. Those of later checkpoints than the one that the job resumes from are removed, so
    that a process that was replaced unknowingly cannot publish them."""

    def __init__(
        self,
        place: CheckpointedPlace,
        parts: PartFiles | PartitionedFiles,
        suffix: str,
        stale: tuple[str, ...],
        changelog: Changelog | None = None,
    ) -> None:
        self._place = place
        self._changelog = changelog
        self._directory = place.directory
        self._stale = stale
        self._parts = parts
        self._suffix = suffix
        self._whole: list[HiddenFile] = []
        self._leaves_empty = place.partition == 0
        """Whether to write a file even if it is empty: the first partition does, so that the schema can be read."""

    def write(self, batch: pa.RecordBatch) -> None:
        self._whole.extend(self._parts.write(batch if self._changelog is None else self._changelog.numbered(batch)))

    def seal(self, checkpoint: int) -> list[tuple[str, str]] | None:
        """Returns the hidden and the visible name of each file since the last call."""
        rest = self._parts.rest(even_empty=self._leaves_empty and not self._whole)
        self._leaves_empty = False
        sealed = []
        with writing_in(self._directory):
            for number, file in enumerate([*self._whole, *rest]):
                name = f"part-{self._place.part}-e{checkpoint:06d}-{number:05d}"
                hidden = self._directory / f"_{name}-{uuid.uuid4().hex}{self._suffix}"
                file.rename(hidden)
                sealed.append((hidden.name, f"{file.folder}{name}{self._suffix}"))
        self._whole = []
        self._pass(checkpoint)
        return sealed or None

    def _pass(self, checkpoint: int) -> None:
        if self._changelog is not None:
            self._changelog.passed(checkpoint)

    def check_part(self, part: Any) -> None:
        for hidden, name in msgspec.convert(part, type=list[tuple[str, str]]):
            found = _SEALED.fullmatch(hidden)
            folder, _, visible = name.rpartition("/")
            is_ours = found is not None and visible == f"{found['visible']}{found['suffix']}"
            if not is_ours or not _FOLDER.fullmatch(f"{folder}/" if folder else ""):
                raise ValueError(f"{hidden!r} would be published as {name!r}, which are not names of its files")

    def publish(self, checkpoint: int, part: list[tuple[str, str]]) -> None:
        with writing_in(self._directory):
            for name in self._stale:
                (self._directory / name).unlink(missing_ok=True)
            self._stale = ()
            for hidden, name in part:
                target = confined(self._directory, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.replace(confined(self._directory, hidden), target)
                except FileNotFoundError:
                    if not target.exists():  # Otherwise it was published before the failure.
                        raise StorageError(
                            f"sealed output is gone: {self._directory / hidden}",
                            f"the checkpoint names it, and neither it nor {name} is there",
                            "Restore the output directory, or start from a checkpoint whose output is there.",
                        ) from None

    def withdraw(self, checkpoint: int) -> None:
        self._stale, self._leaves_empty = (), False
        self._pass(checkpoint)
        with writing_in(self._directory):
            # A writer that was replaced may be about to publish: its rename can hide a file from one listing, or from
            # the removal under the name that was listed. Each file is renamed once, so the second pass finds it.
            for _ in range(2):
                for path in files_in(self._directory):
                    if self._place.withdraws(path, checkpoint):
                        (self._directory / path).unlink(missing_ok=True)

    def discard_leftovers(self) -> None:
        with writing_in(self._directory):
            for name in filter(self._place.is_leftover, os.listdir(self._directory)):
                (self._directory / name).unlink(missing_ok=True)

    def close(self) -> None:
        self._parts.discard()
        for file in self._whole:
            file.discard()
        self._whole = []
