"""The Parquet files of a table, or a Delta table, read whole: never some files of one version and some of the next.

Who replaces a table replaces its files one after the other, unless it is one file. So the files are listed before and
after they are read; if they differ, or if a job of Spark is about to commit, what was read is not a table that ever
was. The reader keeps the rows that it has, and reads again when it is next due.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from stretto.errors import SourceError
from stretto.rendering import error_text
from stretto.runtime.connectors.delta import library

DELTA_LOG = "_delta_log"

Listing = frozenset[tuple[str, int, int]]
"""The path, size and time of change of each file."""


def parquet_table(name: str, path: str) -> pa.Table:
    """Returns the rows of the Parquet files at a path. Raises a SourceError if they cannot be read, or are being
    replaced."""
    if _is_delta(path):
        return _delta_table(name, path)
    try:
        before = _listed(name, path)
        table = ds.dataset(path, format="parquet").to_table()
        after = _listed(name, path)
    except (OSError, pa.ArrowException) as error:
        raise SourceError(
            f"table '{name}' cannot be read", error_text(error), "Give the path of Parquet files."
        ) from error
    if before != after:
        changed = sorted({file for file, _, _ in before ^ after})
        raise SourceError(
            f"table '{name}' was replaced while it was read", f"{path}: {', '.join(changed[:3])}", "Read it again."
        )
    return table


def _is_delta(path: str) -> bool:
    system, at = _located(path)
    log = system.get_file_info(f"{at.rstrip('/')}/{DELTA_LOG}")
    return bool(log.type is pafs.FileType.Directory)


def _delta_table(name: str, path: str) -> pa.Table:
    """Returns the newest version of a Delta table: which of its files have rows of it, only its log says."""
    deltalake = library()
    try:
        return pa.table(deltalake.DeltaTable(path).to_pyarrow_table())
    except (OSError, pa.ArrowException, deltalake.exceptions.DeltaError) as error:
        raise SourceError(
            f"Delta table '{name}' cannot be read", error_text(error), "Read it again, or give another path."
        ) from error


def _located(path: str) -> tuple[pafs.FileSystem, str]:
    return pafs.FileSystem.from_uri(path) if "://" in path else (pafs.LocalFileSystem(), path)


def _listed(name: str, path: str) -> Listing:
    """Returns the files of a table; raises a SourceError if there are none, or if they are being written."""
    system, at = _located(path)
    entry = system.get_file_info(at)
    if entry.type is not pafs.FileType.Directory:
        return frozenset([(entry.path, entry.size or 0, entry.mtime_ns or 0)])
    entries = system.get_file_info(pafs.FileSelector(at, recursive=True))
    writing = [each.path for each in entries if _is_being_written(each.base_name)]
    if writing:
        raise SourceError(f"table '{name}' is being written", writing[0], "Read it again when the write has ended.")
    found = frozenset(
        (each.path, each.size, each.mtime_ns)
        for each in entries
        if each.type is pafs.FileType.File and not each.base_name.startswith(("_", "."))
    )
    if not found:
        raise SourceError(f"table '{name}' cannot be read", f"{path} has no files", "Give the path of Parquet files.")
    return found


def _is_being_written(name: str) -> bool:
    """Whether a file or directory is one that a job of Spark makes when it begins, and removes when it commits."""
    return name == "_temporary" or name.startswith(".spark-staging")
