"""Runs a worker in a child process of its Spark task, so that a user's function that ends the process is found out.

The task itself never runs users' code. It waits, and returns how the worker ended: what it ran last (`run_note.py`),
its exit code or signal, and Python's stack if it crashed. This works on any machine, since the result of the task
carries it to the driver.
"""

from __future__ import annotations

import ctypes
import faulthandler
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from stretto.actors.address import job_of
from stretto.coordinator.events import Death, DeathCause, LastRun
from stretto.rendering import message_of
from stretto.runtime.run_note import RunNote

log = logging.getLogger("stretto.worker")

WAIT_S = 0.05
STACK_CHARS = 4_000
_PR_SET_PDEATHSIG = 1
FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that a process may get from outside: the operating system without memory, an operator, Spark."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a worker has ended; `death` if it was not by itself."""

    reason: str
    death: Death | None = None


def run_guarded(work: Callable[[RunNote], str]) -> Ending:
    """Runs `work` in a child process and returns its reason to end, or how it died."""
    note = RunNote()
    try:
        with tempfile.TemporaryFile() as crash:
            sys.stdout.flush()
            sys.stderr.flush()
            task = os.getpid()
            child = os.fork()
            if child == 0:
                _be_child(work, note, crash, task)
            return _ending(_wait(child), note, crash)
    finally:
        note.close()


def _be_child(work: Callable[[RunNote], str], note: RunNote, crash: IO[bytes], task: int) -> None:
    """Never returns: what follows in the caller is the task's."""
    code = 1
    try:
        _die_with_parent(task)
        faulthandler.enable(crash, all_threads=False)
        note.leave(work(note))
        code = 0
    except BaseException as error:
        log.exception("the worker failed")
        note.leave(f"failed with {type(error).__name__}: {message_of(error)}", failed=True)
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _die_with_parent(parent: int) -> None:
    """Has the kernel kill this process when its parent dies, even if it is stopped. Where that is not possible, the
    pulse thread notices it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _wait(child: int) -> int:
    """Waits for the child and returns its exit code, or a signal as a negative number. The child does not outlive the
    task, nor the process that has forked the task."""
    parent = os.getppid()
    ended = status = 0
    try:
        while not ended:
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended:
                if os.getppid() != parent:
                    os._exit(1)
                time.sleep(WAIT_S)
    finally:
        if not ended:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status)


def _ending(code: int, note: RunNote, crash: IO[bytes]) -> Ending:
    if note.reason is not None and not note.failed:
        return Ending(note.reason)
    outside = code < 0 and -code in FROM_OUTSIDE
    how = note.reason or (f"was killed by {_name_of(-code)}" if code < 0 else f"exited with code {code}")
    crash.seek(0)
    stack = crash.read(STACK_CHARS).decode(errors="replace").strip() or None
    death = Death(how, DeathCause.ANY if outside else DeathCause.OWN, note.last_run(), stack)
    return Ending(f"its process {how}{_while(death.interrupted)}", death)


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _while(last: LastRun | None) -> str:
    if last is None:
        return ""
    what = f"function '{last.function}'" if last.function else "the code"
    return f" while it ran {what} of job '{job_of(last.job)}'"
