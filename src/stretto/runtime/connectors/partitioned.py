"""Rows divided into directories by the values of columns, such as `day=2026-01-01/`, as Spark and Hive name them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stretto.errors import UserError
from stretto.expressions import compile_scalar
from stretto.expressions.scalar import quoted
from stretto.runtime.connectors.file_kinds import FileKind
from stretto.runtime.connectors.part_files import HiddenFile, PartFiles

OPEN_FILES_MAX = 64
"""With rows of more directories than this, the file that was begun first is completed."""

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile(r'[\x00-\x1f"#%\'*/:=?\\\x7f{\[\]^]')


def written_columns(schema: pa.Schema, by: Sequence[str]) -> pa.Schema:
    """Returns the columns in the files: those that the directories do not tell."""
    missing = [name for name in by if name not in schema.names]
    if missing:
        raise UserError(f"partition_by names no column: '{missing[0]}'", f"columns: {', '.join(schema.names)}")
    kept = [field for field in schema if field.name not in by]
    if not kept:
        raise UserError("partition_by names every column", None, "Leave at least one for the files.")
    return pa.schema(kept)


class PartitionedFiles:
    """Like `PartFiles`, with a file in progress for each directory."""

    def __init__(
        self, directory: Path, schema: pa.Schema, part: str, rows_per_file: int, kind: FileKind, by: Sequence[str]
    ) -> None:
        self._made = partial(PartFiles, directory, written_columns(schema, by), part, rows_per_file, kind)
        self._made()  # Makes the directory, even if there is no row.
        self._texts = [(name, compile_scalar(f"CAST({quoted(name)} AS STRING)", schema)) for name in by]
        self._columns = [name for name in schema.names if name not in by]
        self._files: dict[str, PartFiles] = {}

    def write(self, batch: pa.RecordBatch) -> Iterator[HiddenFile]:
        """Adds rows, and yields the files that are complete."""
        for folder, rows in self._divided(batch):
            if folder not in self._files:
                if len(self._files) >= OPEN_FILES_MAX:
                    yield from self._completed(next(iter(self._files)))
                self._files[folder] = self._made()
            for file in self._files[folder].write(rows):
                file.folder = folder
                yield file

    def rest(self, even_empty: bool = False) -> list[HiddenFile]:
        """Completes and returns the files in progress. An empty one would be in no directory."""
        return [file for folder in list(self._files) for file in self._completed(folder)]

    def discard(self) -> None:
        """Removes the unfinished files."""
        for files in self._files.values():
            files.discard()
        self._files = {}

    def _completed(self, folder: str) -> list[HiddenFile]:
        files = self._files.pop(folder).rest()
        for file in files:
            file.folder = folder
        return files

    def _divided(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if not batch.num_rows:
            return
        parts: list[Any] = [_folders(name, text.evaluate(batch)) for name, text in self._texts]
        folders = pc.binary_join_element_wise(*parts, "").dictionary_encode()
        codes = folders.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(folders.dictionary)))
        sorted_rows = batch.select(self._columns).take(pa.array(order))
        start = 0
        for folder, end in zip(folders.dictionary.to_pylist(), ends.tolist(), strict=True):
            yield folder, sorted_rows.slice(start, end - start)
            start = end


def _folders(column: str, texts: pa.Array) -> pa.Array:
    """Returns the directory of each value, with a slash at its end."""
    encoded = texts.dictionary_encode(null_encoding="encode")
    names = [
        f"{_escaped(column)}={_escaped(value) if value else _NO_VALUE}/" for value in encoded.dictionary.to_pylist()
    ]
    return pa.array(names, pa.string()).take(encoded.indices)


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)
