"""Ends a handler of an entity that does not return: a timer interrupts it, and its transaction is aborted.

Handlers run in the main thread of a worker's process, where Python handles signals between two instructions. So a loop
in Python is ended, and so is a wait; a call into a library that does not come back is not. The timer looks only at
whether the same step of the same handler has run since it last looked. What counts is processor time, so that a busy
or paused machine aborts nothing, and much more of the clock's time for a handler that waits.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from stretto.runtime.run_note import RunNote
from stretto.transactions.activation import OutOfTime, running_now

LOOKS_EVERY_S = 0.5
STEP_CPU_S_MAX = 1.0
"""A step of a handler may take so much processor time ..."""
STEP_S_MAX = 20.0
"""... and so much time, whatever it does."""
REPLAYED = 10
"""By how much the limits are longer while epochs are replayed: what has ended in time then must do so now."""


class HandlerWatch:
    """What is around all that may run handlers (`worker/entities.py`)."""

    def __init__(self, note: RunNote) -> None:
        self._note = note
        self._seen: Any = None
        self._since_s = self._since_cpu_s = 0.0
        self._replays: Callable[[], bool] = lambda: False

    @contextmanager
    def around(self, job: str, replays: Callable[[], bool]) -> Iterator[None]:
        self._note.begin_loading(job)
        self._replays, self._seen = replays, None
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGALRM, self._look) if is_main else None
        try:
            if is_main:
                signal.setitimer(signal.ITIMER_REAL, LOOKS_EVERY_S, LOOKS_EVERY_S)
            yield
        finally:
            if is_main:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
            self._note.end()

    def _look(self, number: int, frame: FrameType | None) -> None:
        """The timer has gone off, in the midst of anything."""
        running = running_now()
        if running is None:
            return
        step, now_s, cpu_s = (running, running.steps), time.monotonic(), time.thread_time()
        if step != self._seen:
            self._seen, self._since_s, self._since_cpu_s = step, now_s, cpu_s
            return
        times = REPLAYED if self._replays() else 1
        if cpu_s - self._since_cpu_s >= times * STEP_CPU_S_MAX or now_s - self._since_s >= times * STEP_S_MAX:
            self._seen = None
            raise OutOfTime
