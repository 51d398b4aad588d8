"""Storage of checkpoints through pyarrow.fs: a local path, or s3://, hdfs:// and the like by URI.

A local file is written under another name, synced, and renamed, so that it is complete or absent; an object store does
the same by itself. Unfinished files have names of their own (`_name.` and 32 hexadecimal digits). Local files and the
directories that are made for them are for their user alone, since state is as private as the rows that it was made of.

Claims and commits need to create a file with its content atomically, only if it does not exist. A local file is written
under another name and linked; file systems without hard links are refused. Object stores have a conditional put, which
pyarrow.fs does not offer: obstore does (`object_store.py`). There is no such call for HDFS here. Of two drivers that
create the same file there at the same moment, both may believe that they have.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyarrow import fs

from stretto.checkpoints.paths import stays_within
from stretto.checkpoints.store import CheckpointStore
from stretto.errors import DamagedError, StorageError
from stretto.runtime.confined import confined, outside
from stretto.runtime.object_store import Create, creator_at

LARGE = 1 << 20
"""Bytes; a file of this size is not kept in the page cache."""

_UNFINISHED = re.compile(r"_.*\.[0-9a-f]{32}", re.DOTALL)


class LocalFiles:
    """A directory on this machine, or on storage that is mounted here."""

    def __init__(self, directory: str) -> None:
        self._root = Path(directory)

    def write(self, path: str, parts: Sequence[Any]) -> None:
        with self._written(path, parts) as (partial, target):
            os.replace(partial, target)

    def create(self, path: str, parts: Sequence[Any]) -> bool:
        with self._written(path, parts) as (partial, target):
            return _linked(partial, target)

    @contextmanager
    def _written(self, path: str, parts: Sequence[Any]) -> Iterator[tuple[Path, Path]]:
        """Writes a file under another name and syncs it. The caller gives it its own name, and then that is synced."""
        target = confined(self._root, path)
        partial = target.with_name(f"_{target.name}.{uuid.uuid4().hex}")
        try:
            self.make(target.parent)
            try:
                with open(partial, "xb", opener=private_file) as file:
                    for part in parts:
                        file.write(part)
                    file.flush()
                    os.fsync(file.fileno())
                    if file.tell() >= LARGE and sys.platform == "linux":
                        # It is read only after a failure, so it need not stay in the page cache.
                        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                yield partial, target
            finally:
                partial.unlink(missing_ok=True)
            sync_directory(target.parent)
        except OSError as error:
            raise unwritable(str(target), error) from error

    def make(self, directory: Path) -> None:
        """Makes a directory and those above it, which up to the root are for the user alone."""
        if directory.is_dir():
            return
        self._root.parent.mkdir(parents=True, exist_ok=True)
        for each in (*reversed(directory.parents), directory):
            if each == self._root or self._root in each.parents:
                each.mkdir(mode=0o700, exist_ok=True)

    def place_of(self, path: str) -> Path:
        """Returns where a file is that is written piece by piece; raises a DamagedError if that is not below the
        directory."""
        return confined(self._root, path)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        target = confined(self._root, path, followed=True)
        try:
            with open(target, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                left = size - file.seek(min(offset, size))
                # A length that a manifest made up must not be allocated.
                return file.read(left if length is None else min(length, left))
        except OSError as error:
            raise unreadable(str(target), error) from error

    def names(self, directory: str) -> list[str]:
        top = confined(self._root, directory, followed=True)
        try:
            return [
                os.path.relpath(os.path.join(parent, name), top)
                for parent, _, names in os.walk(top, onerror=_raise_unless_missing)
                for name in names
                if not _UNFINISHED.fullmatch(name)
            ]
        except OSError as error:
            raise unreadable(str(top), error) from error

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            target = confined(self._root, path)
            try:
                target.unlink(missing_ok=True)
                _remove_empty(target.parent, self._root)
            except OSError as error:
                raise unwritable(str(target), error) from error


class RemoteFiles:
    """A directory of an object store or of HDFS. `creator` connects to the store when the first file is created there;
    without one, as for HDFS, the check and the write are not atomic."""

    def __init__(self, filesystem: fs.FileSystem, root: str, creator: Callable[[], Create] | None) -> None:
        self._fs = filesystem
        self._root = root
        self._creator = creator
        self._renames = filesystem.type_name == "hdfs"

    def write(self, path: str, parts: Sequence[Any]) -> None:
        target = self._path(path)
        parent, _, name = target.rpartition("/")
        written = f"{parent}/_{name}.{uuid.uuid4().hex}" if self._renames else target
        try:
            self._fs.create_dir(parent, recursive=True)
            with self._fs.open_output_stream(written) as stream:
                for part in parts:
                    stream.write(part)
            if self._renames:
                self._fs.move(written, target)
        except OSError as error:
            raise unwritable(target, error) from error

    def create(self, path: str, parts: Sequence[Any]) -> bool:
        target = self._path(path)
        if self._creator is not None:
            return self._creator()(path, b"".join(parts))
        try:
            if self._fs.get_file_info(target).type is not fs.FileType.NotFound:
                return False
        except OSError as error:
            raise unreadable(target, error) from error
        self.write(path, parts)
        return True

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        target = self._path(path)
        try:
            with self._fs.open_input_file(target) as file:
                left = max(0, file.size() - offset)
                return bytes(file.read_at(left if length is None else min(length, left), offset)) if left else b""
        except OSError as error:
            raise unreadable(target, error) from error

    def names(self, directory: str) -> list[str]:
        top = self._path(directory)
        try:
            found = self._fs.get_file_info(fs.FileSelector(top, allow_not_found=True, recursive=True))
        except OSError as error:
            raise unreadable(top, error) from error
        files = [info for info in found if info.is_file and not _UNFINISHED.fullmatch(info.base_name)]
        return [info.path.removeprefix(top).lstrip("/") for info in files]

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                self._fs.delete_file(self._path(path))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise unwritable(self._path(path), error) from error

    def _path(self, path: str) -> str:
        if not stays_within(path):
            raise outside(self._root, path)
        return f"{self._root.rstrip('/')}/{path}"


def absolute(uri: str) -> str:
    """Returns the location independent of the current directory: an absolute path, or the URI as it is."""
    return uri if "://" in uri else os.path.abspath(uri)


def files_at(uri: str) -> LocalFiles | RemoteFiles:
    """Returns the storage at a path or a URI."""
    if "://" not in uri:
        return LocalFiles(absolute(uri))
    if uri.startswith("file://"):
        return LocalFiles(uri.removeprefix("file://"))
    try:
        filesystem, root = fs.FileSystem.from_uri(uri)
    except (OSError, ValueError) as error:
        raise StorageError(f"the checkpoint directory {uri} cannot be reached", str(error)) from error
    return RemoteFiles(filesystem, root, creator_at(uri, filesystem, root))


def store_at(uri: str, owner: int = 0) -> CheckpointStore:
    return CheckpointStore(files_at(uri), owner)


def private_file(path: str, flags: int) -> int:
    """Opens a file that is for the user alone."""
    return os.open(path, flags, 0o600)


def _linked(partial: Path, target: Path) -> bool:
    """Gives a file its name and returns True, unless another file has it: a rename would replace that."""
    try:
        os.link(partial, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        raise StorageError(
            f"the file system of {target.parent} has no hard links",
            error.strerror,
            "Without them two drivers could both commit a checkpoint. Use another directory.",
        ) from error
    return True


def sync_directory(directory: Path) -> None:
    """A rename is durable when the directory is."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_empty(directory: Path, root: Path) -> None:
    while directory != root and root in directory.parents:
        try:
            directory.rmdir()
        except OSError:
            return  # It is not empty, or does not exist any more.
        directory = directory.parent


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def unwritable(path: str, error: OSError) -> StorageError:
    return StorageError(
        f"cannot write {path}",
        error.strerror or str(error),
        "Check free space and permissions, or use another directory.",
    )


def unreadable(path: str, error: OSError) -> StorageError:
    if isinstance(error, FileNotFoundError):
        return DamagedError(f"cannot read {path}", "there is no such file")
    return StorageError(f"cannot read {path}", error.strerror or str(error), "Check the path and its permissions.")
