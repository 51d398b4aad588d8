"""Temporary directories named by their owner's process id, so that those of a killed process are removed later."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

import psutil

_OWNED = re.compile(r"stretto-[a-z]+-(\d+)-\w+")


def scratch_directory(kind: str, parent: str | None = None) -> Path:
    """Returns a new private directory (mode 0700). Also removes those of this user's processes that have ended."""
    directory = Path(tempfile.mkdtemp(prefix=f"stretto-{kind}-{os.getpid()}-", dir=parent))
    _sweep(directory.parent)
    return directory


def _sweep(parent: Path) -> None:
    for path in parent.glob("stretto-*"):
        owned = _OWNED.fullmatch(path.name)
        if owned is None or psutil.pid_exists(int(owned.group(1))):
            continue
        try:
            if path.stat().st_uid == os.getuid():
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue  # Another process was faster.
