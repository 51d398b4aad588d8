"""Pickling with Arrow data apart: batches and tables go to Arrow files, which are mapped into memory and not copied.

A pickled slice of a table carries all buffers of the table, so a table that is cut into a hundred batches would be
pickled a hundred times. An Arrow file has only the rows of the slice. There is one file per schema.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
from pyspark import cloudpickle

_ALIGNED = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.DataTypeSpecific)

Place = tuple[str, int, int, int]
"""Where a batch or a table is: its kind, the number of its file, its first batch there, and how many it has."""


class ArrowFiles:
    """Arrow files that are being written, one per schema. `prefix` begins their names; they have no content yet that
    anybody may read."""

    def __init__(self, prefix: Path) -> None:
        self._prefix = prefix
        self._sinks: list[pa.NativeFile] = []
        self._writers: list[pa.ipc.RecordBatchFileWriter] = []
        self._written: list[int] = []
        self._by_schema: dict[bytes, int] = {}
        self._places: dict[int, Place] = {}
        self._kept: list[Any] = []

    @property
    def paths(self) -> list[Path]:
        return [self._path(number) for number in range(len(self._sinks))]

    def add(self, data: pa.RecordBatch | pa.Table) -> Place:
        """Writes a batch or a table, unless it is there already, and returns its place."""
        place = self._places.get(id(data))
        if place is None:
            place = self._places[id(data)] = self._write(data)
            self._kept.append(data)  # While it lives, no other object has its identity.
        return place

    def close(self) -> None:
        """Completes the files."""
        for writer, sink in zip(self._writers, self._sinks, strict=True):
            if not sink.closed:
                writer.close()
                sink.close()

    def remove(self) -> None:
        """Removes files that were not renamed, also if they could not be completed."""
        with suppress(OSError):
            self.close()
        for path in self.paths:
            path.unlink(missing_ok=True)

    def _write(self, data: pa.RecordBatch | pa.Table) -> Place:
        file = self._file_of(data.schema)
        first = self._written[file]
        batches = data.to_batches() if isinstance(data, pa.Table) else [data]
        for batch in batches:
            self._writers[file].write_batch(batch)
        self._written[file] += len(batches)
        return type(data).__name__, file, first, len(batches)

    def _file_of(self, schema: pa.Schema) -> int:
        key = schema.serialize().to_pybytes()
        if key not in self._by_schema:
            self._by_schema[key] = len(self._sinks)
            self._sinks.append(pa.OSFile(str(self._path(len(self._sinks))), "wb"))
            self._writers.append(pa.ipc.new_file(self._sinks[-1], schema))
            self._written.append(0)
        return self._by_schema[key]

    def _path(self, number: int) -> Path:
        return self._prefix.with_name(f"{self._prefix.name}.{number}.arrow")


class ApartPickler(cloudpickle.Pickler):
    """Pickles an object into a file, its Arrow data apart. Without `files`, the data is left out, to measure the
    rest."""

    def __init__(self, file: Any, files: ArrowFiles | None) -> None:
        super().__init__(file)  # type: ignore[no-untyped-call]
        self._files = files

    def persistent_id(self, obj: Any) -> Place | None:
        if type(obj) not in (pa.RecordBatch, pa.Table) or not _can_be_filed(obj.schema):
            return None
        return self._files.add(obj) if self._files is not None else ("", 0, 0, 0)

    def reducer_override(self, obj: Any) -> Any:
        # msgspec notes in a class what it has found out about its fields. It cannot be pickled, and is found out again.
        if isinstance(obj, type) and "__msgspec_cache__" in vars(obj):
            delattr(obj, "__msgspec_cache__")
        return super().reducer_override(obj)  # type: ignore[no-untyped-call]


class TogetherUnpickler(pickle.Unpickler):
    """Unpickles what `ApartPickler` has pickled, with the readers of its Arrow files."""

    def __init__(self, file: BinaryIO, sources: Sequence[pa.NativeFile | pa.Buffer]) -> None:
        super().__init__(file)
        self._readers = [pa.ipc.open_file(source, options=_ALIGNED) for source in sources]

    def persistent_load(self, place: Place) -> Any:
        kind, file, first, count = place
        reader = self._readers[file]
        batches = [reader.get_batch(number) for number in range(first, first + count)]
        return pa.Table.from_batches(batches, reader.schema) if kind == "Table" else batches[0]


def _can_be_filed(schema: pa.Schema) -> bool:
    """Whether an Arrow file can hold batches of a schema, whatever their content: one with dictionaries holds only one
    of each, and a worker may not know an extension type."""
    return not any(_is_special(field.type) for field in schema)


def _is_special(kind: pa.DataType) -> bool:
    nested = (kind.field(number).type for number in range(kind.num_fields))
    return pa.types.is_dictionary(kind) or isinstance(kind, pa.BaseExtensionType) or any(map(_is_special, nested))
