"""Paths that come from storage lead to files below their directory, or are refused.

A checkpoint may have been changed by somebody who can write its directory, but not everything that this process can.
Files are opened, renamed and removed by names that are in checkpoints, so each name passes through here before that.
"""

from __future__ import annotations

import os
from pathlib import Path

from stretto.checkpoints.paths import stays_within
from stretto.errors import DamagedError


def confined(root: Path, path: str, *, followed: bool = False) -> Path:
    """Returns the place of a path below a directory; raises a DamagedError if it leads out of it. Reading and listing
    follow a link in the last place (`followed`); writing, renaming and removing concern the link itself."""
    if not stays_within(path):
        raise outside(str(root), path)
    target = root / path
    place, home = (Path(os.path.realpath(each)) for each in (target if followed else target.parent, root))
    if place != home and home not in place.parents:
        raise outside(str(root), path, f"links lead to {place}")
    return target


def outside(root: str, path: str, detail: str | None = None) -> DamagedError:
    return DamagedError(
        f"{path!r} is not a path within {root}",
        detail,
        "Somebody has changed the directory: check who can write it, or use another one.",
    )
