"""One partition's rows as files that are hidden until they are complete and renamed."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pyarrow as pa

from stretto.errors import UserError
from stretto.runtime.connectors.file_kinds import FileKind

ROWS_PER_GROUP = 65_536
BYTES_PER_GROUP = 64 << 20
"""Rows are buffered until a row group has this many rows or bytes, so that small batches make no small groups."""


def files_in(directory: Path) -> list[str]:
    """Returns the paths of all files below a directory, sorted."""
    found = [Path(parent, name) for parent, _, names in os.walk(directory) for name in names]
    return sorted(str(path.relative_to(directory)) for path in found)


def is_visible(path: str) -> bool:
    """Whether Spark reads a file of this path."""
    return not any(part.startswith(("_", ".")) for part in path.split("/"))


@contextmanager
def writing_in(directory: Path) -> Iterator[None]:
    """Turns errors with files in a directory into a UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"the output directory cannot be written: {directory}",
            str(error),
            "Check free space and permissions, or choose another directory.",
        ) from error


class HiddenFile:
    """A file under a name that Spark and this package's own file source skip. `folder` is the directory within that of
    the sink that it is to be published in, with a slash at its end."""

    def __init__(self, path: Path, schema: pa.Schema, kind: FileKind) -> None:
        self.rows = 0
        self.folder = ""
        self._path = path
        self._file: IO[bytes] = open(path, "xb")  # noqa: SIM115 it outlives this call
        self._writer = kind.opened(self._file, schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write(table)
        self.rows += table.num_rows

    def end(self) -> None:
        """Completes the file and syncs it to disk."""
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def rename(self, path: Path) -> None:
        os.replace(self._path, path)
        self._path = path

    def discard(self) -> None:
        with suppress(OSError, pa.ArrowException, ValueError):
            self._writer.close()
        self._file.close()
        self._path.unlink(missing_ok=True)


class PartFiles:
    """Divides rows into files of `rows_per_file`."""

    def __init__(self, directory: Path, schema: pa.Schema, part: str, rows_per_file: int, kind: FileKind) -> None:
        """`part` distinguishes the unfinished files from those of others."""
        self._directory = directory
        self._schema = schema
        self._part = part
        self._rows_per_file = rows_per_file
        self._kind = kind
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._held_bytes = 0
        self._file: HiddenFile | None = None
        with writing_in(directory):
            directory.mkdir(parents=True, exist_ok=True)

    def write(self, batch: pa.RecordBatch) -> Iterator[HiddenFile]:
        """Adds rows, and yields the files that are complete."""
        while batch.num_rows:
            written = self._file.rows if self._file else 0
            part = batch.slice(0, self._rows_per_file - written - self._held_rows)
            batch = batch.slice(part.num_rows)
            self._held.append(part)
            self._held_rows += part.num_rows
            self._held_bytes += part.nbytes
            if written + self._held_rows >= self._rows_per_file:
                yield self._ended()
            elif self._held_rows >= ROWS_PER_GROUP or self._held_bytes >= BYTES_PER_GROUP:
                self._flush()

    def rest(self, even_empty: bool = False) -> list[HiddenFile]:
        """Completes and returns the file in progress, if there is one."""
        return [self._ended()] if self._held or self._file or even_empty else []

    def discard(self) -> None:
        """Removes the unfinished file."""
        self._held, self._held_rows, self._held_bytes = [], 0, 0
        if self._file:
            self._file.discard()
            self._file = None

    def _flush(self) -> HiddenFile:
        held, self._held, self._held_rows, self._held_bytes = self._held, [], 0, 0
        with writing_in(self._directory):
            if self._file is None:
                name = f"_open-{self._part}-{uuid.uuid4().hex}"
                self._file = HiddenFile(self._directory / name, self._schema, self._kind)
            if held:
                self._file.write(pa.Table.from_batches(held, self._schema))
        return self._file

    def _ended(self) -> HiddenFile:
        file = self._flush()
        with writing_in(self._directory):
            file.end()
        self._file = None
        return file
