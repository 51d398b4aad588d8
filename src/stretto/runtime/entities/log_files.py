"""Files that are appended to, for the logs of entities (`transactions/place_log.py`)."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from stretto.errors import StorageError
from stretto.runtime.storage import LocalFiles, private_file, sync_directory, unreadable, unwritable


class AppendableFiles(LocalFiles):
    """A directory whose files can be appended to. Not thread-safe as far as that is concerned."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self._open: dict[str, BinaryIO] = {}

    def append(self, path: str, data: bytes) -> None:
        try:
            file = self._open.get(path)
            if file is None:
                target = self.place_of(path)
                self.make(target.parent)
                file = self._open[path] = open(target, "xb", opener=private_file)  # noqa: SIM115
                sync_directory(target.parent)
            file.write(data)
        except OSError as error:
            raise unwritable(path, error) from error

    def sync(self, path: str) -> None:
        file = self._open.get(path)
        try:
            if file is not None:
                file.flush()
                os.fdatasync(file.fileno())
                return
        except OSError as error:
            raise unwritable(path, error) from error
        target = self.place_of(path)
        try:
            with open(target, "rb") as read:
                os.fsync(read.fileno())
        except OSError as error:
            raise unreadable(str(target), error) from error

    def close(self, path: str) -> None:
        file = self._open.pop(path, None)
        if file is not None:
            with suppress(OSError):
                file.close()


def check_directory(uri: str) -> None:
    """Raises a StorageError if entities cannot be kept at a location."""
    if "://" in uri and not uri.startswith("file://"):
        raise StorageError(
            f"entities cannot be kept in {uri}",
            "their log is appended to, which object stores and HDFS do not offer here",
            "Use a directory of a file system that all workers see.",
        )


def local_directory(uri: str) -> str:
    """Returns the path of a directory, which does not depend on the current one."""
    return str(Path(uri.removeprefix("file://")).absolute())
