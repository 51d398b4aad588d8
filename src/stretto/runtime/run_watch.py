"""Notices a run that does not return, from another thread, and samples where it is."""

from __future__ import annotations

import sys
import traceback
from types import FrameType

from stretto.protocol.reports import Stuck
from stretto.runtime.run_note import RunNote

STUCK_AFTER_NS = 1_000_000_000
STACK_CHARS = 4_000
OWN_FRAMES = 3
"""The number of innermost calls that are shown of a function of stretto's own."""


class RunWatch:
    """Follows the note of a loop that runs in the thread with this identifier."""

    def __init__(self, note: RunNote, thread: int | None) -> None:
        self._note = note
        self._thread = thread
        self._count = 0
        self._since_ns = 0

    def stuck(self, now_ns: int) -> Stuck | None:
        """Returns the run that has been under way for a while, if there is one. Called at regular times."""
        last = self._note.last_run()
        if last is None or not last.underway or self._note.count != self._count:
            self._count, self._since_ns = self._note.count, now_ns
            return None
        for_ns = now_ns - self._since_ns
        if for_ns < STUCK_AFTER_NS:
            return None
        frame = sys._current_frames().get(self._thread or 0)
        return Stuck(last.job, last.function, for_ns, users_stack(frame) if frame is not None else "")


def users_stack(frame: FrameType) -> str:
    """Returns the stack of a frame from the first call of a user's function on, the innermost call last."""
    frames = [entry for entry, _ in traceback.walk_stack(frame)][::-1]
    own = [number for number, entry in enumerate(frames) if _is_ours(entry)]
    begin = own[0] if own else 0
    while begin < len(frames) and _is_ours(frames[begin]):
        begin += 1
    shown = frames[begin:] or frames[-OWN_FRAMES:]
    summary = traceback.StackSummary.extract((entry, entry.f_lineno) for entry in shown)
    text = "".join(summary.format()).rstrip()
    return text[-STACK_CHARS:].encode(errors="backslashreplace").decode()


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("stretto.")
