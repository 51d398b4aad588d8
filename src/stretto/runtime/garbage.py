"""The garbage collector of a process that hosts a worker: it must not traverse all state again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (20_000, 20, 100)


@contextmanager
def calm_garbage_collector() -> Iterator[None]:
    """Makes full collections rare for the time of the block, since each over all state is a pause of tens of
    milliseconds."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
