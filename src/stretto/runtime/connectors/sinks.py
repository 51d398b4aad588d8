"""Sinks that reach outside: a directory of files, the terminal, a user's function.

A file appears under its own name only when it is complete: it is written under a name that begins with `_`,
which Spark and this package's own file source skip, and renamed when it is closed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from stretto.actors.address import Attempt
from stretto.actors.sink import Sink, SinkWriter
from stretto.errors import InvariantError, UserError
from stretto.rendering import values_of
from stretto.runtime.connectors.changelog import Changelog, with_changelog
from stretto.runtime.connectors.file_kinds import CSV, JSON_LINES, PARQUET, FileKind
from stretto.runtime.connectors.files_checkpointed import CheckpointedPlace, FilesCheckpointed, is_of_checkpoint
from stretto.runtime.connectors.part_files import HiddenFile, PartFiles, files_in, is_visible, writing_in
from stretto.runtime.connectors.partitioned import PartitionedFiles, written_columns

ROWS_PER_FILE = 1_000_000
_PART = re.compile(r"part-(\d{5,})-(\d{5,})\.\w+")


class FilesSink(Sink):
    """A directory of files of one kind that Spark can read at any time.

    `mode` is about existing files: 'error' refuses them, 'append' adds to them, 'overwrite' removes them when writing
    starts. On a cluster of machines the directory must be shared by all of them.
    """

    kind: FileKind

    def __init__(
        self,
        directory: str | os.PathLike[str],
        mode: Literal["error", "append", "overwrite"] = "error",
        rows_per_file: int = ROWS_PER_FILE,
        changelog: str | None = None,
        partition_by: Sequence[str] = (),
    ) -> None:
        if mode not in ("error", "append", "overwrite"):
            raise UserError(
                f"unknown mode of a {self.kind.name} sink", repr(mode), "Use 'error', 'append' or 'overwrite'."
            )
        if rows_per_file < 1:
            raise UserError(f"rows_per_file of a {self.kind.name} sink must be at least 1", f"it is {rows_per_file}")
        self.directory = Path(directory).absolute()
        self.mode = mode
        self.rows_per_file = rows_per_file
        self.changelog = changelog
        self.partition_by = tuple(partition_by)
        self.takes_updates = self.takes_removals = changelog is not None
        self._stale: tuple[str, ...] | None = None

    def check(self, schema: pa.Schema) -> None:
        """Checks the directory without changing it; for 'overwrite', records the files that the writers remove."""
        self._check_directory()
        found = _visible(self.directory)
        if self.mode == "error":
            # Files of checkpoints may belong to the checkpoint to resume from; `check_fresh` checks them later.
            self._refuse([path for path in found if not is_of_checkpoint(path)])
        foreign = [path for path in found if not path.endswith(self.kind.suffix)]
        if foreign and self.mode == "overwrite":
            raise UserError(
                f"the output directory holds more than {self.kind.name} files: {self.directory}",
                f"'{foreign[0]}' would remain among the new files",
                "Remove it, or choose another directory.",
            )
        self._stale = tuple(found) if self.mode == "overwrite" else ()
        self.kind.check(written_columns(with_changelog(schema, self.changelog), self.partition_by))

    def check_fresh(self) -> None:
        if self.mode == "error":
            self._refuse(_visible(self.directory))

    def _refuse(self, found: list[str]) -> None:
        if found:
            raise UserError(
                f"the output directory is not empty: {self.directory}",
                f"it holds {len(found)} files, such as '{found[0]}'",
                "Choose another directory, or use mode='append' or mode='overwrite'.",
            )

    def _check_directory(self) -> None:
        standing = next(path for path in (self.directory, *self.directory.parents) if path.exists())
        if not standing.is_dir():
            raise UserError(f"the output directory cannot be made: {self.directory}", f"{standing} is a file")
        if not os.access(standing, os.W_OK | os.X_OK):
            raise UserError(
                f"the output directory cannot be written: {self.directory}",
                f"no permission to write in {standing}",
                "Choose another directory, or change its permissions.",
            )

    def writer(self, schema: pa.Schema, partition: int, partitions: int) -> FilesWriter:
        if self._stale is None and self.mode == "overwrite":
            raise InvariantError("a sink that overwrites was opened before it was checked", str(self.directory))
        parts = self._parts(schema, f"{partition:05d}")
        stale = self._stale or ()
        return FilesWriter(self.directory, parts, self.kind.suffix, partition, partitions, stale, self._numbers())

    def checkpointed_writer(
        self, schema: pa.Schema, partition: int, partitions: int, attempt: Attempt
    ) -> FilesCheckpointed:
        place = CheckpointedPlace(self.directory, partition, partitions, attempt)
        parts = self._parts(schema, place.part)
        return FilesCheckpointed(place, parts, self.kind.suffix, self._stale or (), self._numbers())

    def _parts(self, schema: pa.Schema, part: str) -> PartFiles | PartitionedFiles:
        written = with_changelog(schema, self.changelog)
        if self.partition_by:
            return PartitionedFiles(self.directory, written, part, self.rows_per_file, self.kind, self.partition_by)
        return PartFiles(self.directory, written, part, self.rows_per_file, self.kind)

    def _numbers(self) -> Changelog | None:
        return None if self.changelog is None else Changelog(self.changelog)

    def describe(self) -> str:
        log = f", changelog in '{self.changelog}'" if self.changelog is not None else ""
        by = f", by {', '.join(self.partition_by)}" if self.partition_by else ""
        return f"{self.kind.name} files in {self.directory} ({self.mode}{log}{by})"


class ParquetSink(FilesSink):
    """A directory of Parquet files."""

    kind = PARQUET


class CsvSink(FilesSink):
    """A directory of CSV files, each with the names of its columns in the first line."""

    kind = CSV


class JsonLinesSink(FilesSink):
    """A directory of files of JSON objects, one on each line."""

    kind = JSON_LINES


class FilesWriter(SinkWriter):
    """Writes one partition's files, one after the other; a failure keeps the complete ones and removes the rest."""

    def __init__(
        self,
        directory: Path,
        parts: PartFiles | PartitionedFiles,
        suffix: str,
        partition: int,
        partitions: int,
        stale: tuple[str, ...],
        changelog: Changelog | None = None,
    ) -> None:
        self._directory = directory
        self._parts = parts
        self._suffix = suffix
        self._partition = partition
        self._changelog = changelog
        self.files: list[Path] = []
        with writing_in(directory):
            taken = {*stale, *files_in(directory)}
            for path in stale[partition::partitions]:
                (directory / path).unlink(missing_ok=True)
        # New files never have the name of an existing one, so removing the stale ones cannot remove them.
        found = filter(None, (_PART.fullmatch(path.rpartition("/")[2]) for path in taken))
        self._next = max((int(part[2]) for part in found if int(part[1]) == partition), default=-1) + 1

    def write(self, batch: pa.RecordBatch) -> None:
        for file in self._parts.write(batch if self._changelog is None else self._changelog.numbered(batch)):
            self._publish(file)

    def finish(self) -> None:
        """Publishes the last file. The first partition writes at least an empty one, so that the schema can be read."""
        for file in self._parts.rest(even_empty=self._partition == 0 and not self.files):
            self._publish(file)

    def close(self) -> None:
        self._parts.discard()

    def _publish(self, file: HiddenFile) -> None:
        target = self._directory / file.folder / f"part-{self._partition:05d}-{self._next:05d}{self._suffix}"
        self._next += 1
        with writing_in(self._directory):
            target.parent.mkdir(parents=True, exist_ok=True)
            file.rename(target)
        self.files.append(target)


def _visible(directory: Path) -> list[str]:
    return list(filter(is_visible, files_in(directory)))


class ConsoleSink(Sink):
    """Prints each batch as a table in the driver's terminal, at most `limit` rows of it."""

    on_driver = True
    takes_updates = True
    takes_removals = True

    def __init__(self, limit: int = 20, console: Console | None = None) -> None:
        if limit < 1:
            raise UserError("the limit of a console sink must be at least 1", f"it is {limit}")
        self.limit = limit
        self._console = console

    def writer(self, schema: pa.Schema, partition: int, partitions: int) -> ConsoleWriter:
        return ConsoleWriter(schema, self.limit, self._console or Console())

    def describe(self) -> str:
        return f"console, {self.limit} rows of a batch"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_console": None}


class ConsoleWriter(SinkWriter):
    def __init__(self, schema: pa.Schema, limit: int, console: Console) -> None:
        self._schema = schema
        self._limit = limit
        self._console = console

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        rest = batch.num_rows - self._limit
        table = Table(caption=f"and {rest} more rows" if rest > 0 else None)
        for field in self._schema:
            table.add_column(field.name, justify="right" if _is_number(field.type) else "left")
        for row in zip(*map(values_of, batch.slice(0, self._limit).columns), strict=True):
            table.add_row(*("" if value is None else str(value) for value in row))
        self._console.print(table, markup=False)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


class CallbackSink(Sink):
    """Calls a function in the driver's process with each record batch, or with each row as a dict.

    An exception of the function fails the job. It is called from one thread at a time, which is not the main thread.
    """

    on_driver = True
    takes_updates = True
    takes_removals = True

    def __init__(self, function: Callable[[Any], object], per: Literal["batch", "row"] = "batch") -> None:
        if per not in ("batch", "row"):
            raise UserError("unknown 'per' of a callback sink", repr(per), "Use 'batch' or 'row'.")
        self.function = function
        self.per = per

    def writer(self, schema: pa.Schema, partition: int, partitions: int) -> CallbackWriter:
        return CallbackWriter(self.function, self.per)

    def describe(self) -> str:
        return f"callback {getattr(self.function, '__qualname__', repr(self.function))} per {self.per}"


class CallbackWriter(SinkWriter):
    def __init__(self, function: Callable[[Any], object], per: Literal["batch", "row"]) -> None:
        self._function = function
        self._per = per

    def write(self, batch: pa.RecordBatch) -> None:
        if self._per == "batch":
            self._function(batch)
            return
        for row in batch.to_pylist():
            self._function(row)
