"""Functions that end the process of the worker that runs them, or try to: one kind for each way."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from stretto.actors.context import Clock, Context
from stretto.actors.function import Function
from stretto.state import ValueState

ROWS_BEFORE = 500
"""The number of rows that a function processes before it is deadly, so that it also has checkpoints."""
DELAY_S = 0.3
MEMORY_BYTES = 256 << 20
DESCRIPTORS_MAX = 4_096


class Deadly(Enum):
    """The kinds of deadly functions."""

    EXIT = "os._exit() in a run"
    SEGFAULT = "a segmentation fault"
    ABORT = "abort()"
    KILL = "SIGKILL to its own process"
    SYSTEM_EXIT = "sys.exit()"
    INTERRUPT = "KeyboardInterrupt"
    UNPRINTABLE = "an exception whose __str__ raises"
    DESCRIPTORS = "closing all file descriptors"
    MEMORY = "exhausting the memory of its process"
    THREAD = "os._exit() in a thread, after the run"
    LOAD = "os._exit() when its code is loaded"
    OPEN = "os._exit() in open()"
    TIMER = "os._exit() in a timer"
    SPIN = "a run that does not return, and a stop"

    @property
    def function(self) -> str:
        """The name of a function of this kind."""
        return f"deadly_{self.name.lower()}"


class Unprintable(Exception):
    """Raises when it is shown."""

    def __str__(self) -> str:
        raise ValueError("no text today")


class Bomb(Function):
    """Passes its rows on until it is deadly. `mark` is a file that it makes just before that."""

    rows = ValueState(0)

    def __init__(self, kind: Deadly, mark: Path) -> None:
        self.kind = kind
        self.mark = mark
        self._driver = os.getpid()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.kind is Deadly.LOAD and os.getpid() != self._driver:
            self._go_off()

    def open(self, ctx: Context) -> None:
        if self.kind is Deadly.OPEN:
            self._go_off()
        if self.kind is Deadly.TIMER:
            ctx.set_timer(ctx.now_ns + int(DELAY_S * 1e9), "bomb", Clock.PROCESSING)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)
        self.rows.set(self.rows.get() + batch.num_rows)
        if self.rows.get() >= ROWS_BEFORE and self.kind not in (Deadly.LOAD, Deadly.OPEN, Deadly.TIMER):
            self._go_off()

    def on_timer(self, tag: Any, due: int, ctx: Context) -> None:
        self._go_off()

    def _go_off(self) -> None:
        self.mark.touch()
        _ACTS.get(self.kind, _exit)()


def _exit() -> NoReturn:
    os._exit(3)


def _segfault() -> None:
    ctypes.string_at(0)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _system_exit() -> NoReturn:
    sys.exit(3)


def _interrupt() -> NoReturn:
    raise KeyboardInterrupt


def _unprintable() -> NoReturn:
    raise Unprintable


def _close_descriptors() -> None:
    os.closerange(3, DESCRIPTORS_MAX)


def _exhaust_memory() -> None:
    """Allocates until the process may have no more, which raises a MemoryError; then gives it all back."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY_BYTES, before[1]))
    held: list[bytearray] = []
    try:
        while True:
            held.append(bytearray(MEMORY_BYTES // 8))
    finally:
        held.clear()
        resource.setrlimit(resource.RLIMIT_AS, before)


def _exit_in_thread() -> None:
    threading.Timer(DELAY_S, os._exit, (3,)).start()


def _spin() -> NoReturn:
    while True:
        pass


_ACTS: dict[Deadly, Callable[[], None]] = {
    Deadly.SEGFAULT: _segfault,
    Deadly.ABORT: os.abort,
    Deadly.KILL: _kill,
    Deadly.SYSTEM_EXIT: _system_exit,
    Deadly.INTERRUPT: _interrupt,
    Deadly.UNPRINTABLE: _unprintable,
    Deadly.DESCRIPTORS: _close_descriptors,
    Deadly.MEMORY: _exhaust_memory,
    Deadly.THREAD: _exit_in_thread,
    Deadly.SPIN: _spin,
}
"""What each kind does; the others exit, each in another place."""
