"""Paths in a checkpoint directory: which stay within it, and which are of files with snapshots.

What a manifest names is read and removed, and whoever can write the directory can write a manifest. So a path counts
only if it is of the form that this package writes.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class SnapshotFile(NamedTuple):
    """Who wrote a file with snapshots, and for which checkpoint."""

    owner: int
    checkpoint: int


_SNAPSHOT = re.compile(r"data/([0-9]{6,12})/[^/]+/([0-9]{6,12})/[^/]+\.arrow")


def stays_within(path: str) -> bool:
    """Whether a path, as it is written, leads to something below the directory that it is relative to."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False  # A lone surrogate, which is in no name that was written here.
    return "\0" not in path and all(part not in ("", ".", "..") for part in path.split("/"))


def snapshot_file(path: str) -> SnapshotFile | None:
    """Returns what the path of a file with snapshots says; None if the path is not of such a file."""
    found = _SNAPSHOT.fullmatch(path) if stays_within(path) else None
    return None if found is None else SnapshotFile(int(found[1]), int(found[2]))
