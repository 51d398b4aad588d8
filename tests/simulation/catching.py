"""Planted bugs and the seeds that catch them.

Most seeds do not meet a given bug. The one that was found to catch it is kept in `seeds/SUITE.json` and tried first, so
that a test of a planted bug costs one run. A change of a protocol shifts what a seed does: then the seeds from 0 on are
tried, as when nothing is known. `STRETTO_RENEW_SEEDS=1 pytest tests/simulation -k caught` finds and keeps new ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

LONGER = 40
"""So many times as many seeds are tried where one is looked for."""
KEPT = Path(__file__).with_name("seeds")


def assert_caught(suite: str, name: str, catches: Callable[[int], bool], within: int) -> None:
    """`catches` runs one seed with the planted bug `name`, and says whether a violation was seen."""
    known = _kept(suite).get(name)
    renews = bool(os.environ.get("STRETTO_RENEW_SEEDS"))
    for seed in _order(known, LONGER * within if renews else within):
        if catches(seed):
            if renews and seed != known:
                _keep(suite, name, seed)
            return
    raise AssertionError(f"{name} was not caught within {within} seeds")


def known_seed(suite: str, name: str) -> int:
    return _kept(suite)[name]


def _order(known: int | None, within: int) -> Iterator[int]:
    if known is not None:
        yield known
    yield from range(within)


def _kept(suite: str) -> dict[str, int]:
    path = KEPT / f"{suite}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _keep(suite: str, name: str, seed: int) -> None:
    KEPT.mkdir(exist_ok=True)
    lines = json.dumps({**_kept(suite), name: seed}, indent=2, sort_keys=True)
    (KEPT / f"{suite}.json").write_text(lines + "\n")
