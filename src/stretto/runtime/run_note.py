"""A note of what a worker runs, in memory that outlives its process: whoever finds it dead reads what it ran last.

The memory is shared with the parent process (`process_guard.py`). A run costs a few writes of a number; names are
written once per instance.
"""

from __future__ import annotations

import mmap
import struct

from stretto.actors.instance import Instance
from stretto.coordinator.events import LastRun

ENTRIES = 2_048
"""The number of instances that can be named at once; those beyond share an entry without a name."""
ENTRY_BYTES = 512
REASON_BYTES = 2_048
_NUMBERS_BYTES = 64
_ENTRIES_AT = _NUMBERS_BYTES + REASON_BYTES
_NAMELESS = 1
_FIRST = 2
_RUN, _UNDERWAY, _FAILED = range(3)
_LENGTH = struct.Struct("<H")


class RunNote:
    """What runs now, or ran last. Made before the worker's process is forked; each side has the same memory."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, _ENTRIES_AT + (_FIRST + ENTRIES) * ENTRY_BYTES)
        self._numbers = memoryview(self._page)[:_NUMBERS_BYTES].cast("Q")
        self._entries: dict[Instance | str, int] = {}
        self.count = 0
        """The number of runs that have begun, for the other threads of the process."""
        self._free = list(range(_FIRST + ENTRIES - 1, _FIRST - 1, -1))

    # The worker's side.

    def begin(self, instance: Instance) -> None:
        """A run of this instance begins."""
        number = self._entries.get(instance)
        if number is None:
            # Fused steps run inside the function, and any of them may be what ends the process.
            nodes = instance.spec.nodes or [instance.address.function]
            number = self._enter(instance, instance.address.job, " + ".join(nodes))
        self._begin(number)

    def begin_loading(self, job: str) -> None:
        """The code of a job is loaded, which may run statements of the user's modules."""
        self._begin(self._entries.get(job) or self._enter(job, job, ""))

    def end(self) -> None:
        """The run has returned."""
        self._numbers[_UNDERWAY] = 0

    def forget(self, instances: list[Instance]) -> None:
        """The names of closed instances are not needed any more."""
        for instance in instances:
            for known in (instance, instance.address.job):
                number = self._entries.pop(known, _NAMELESS)
                if number != _NAMELESS:
                    self._free.append(number)

    def leave(self, reason: str, failed: bool = False) -> None:
        """The process is about to end by itself, for this reason; `failed` if that is an error of the worker."""
        self._numbers[_FAILED] = failed
        self._write(_NUMBERS_BYTES, reason.encode(errors="replace")[: REASON_BYTES - _LENGTH.size])

    def _begin(self, number: int) -> None:
        numbers = self._numbers
        numbers[_RUN] = number
        numbers[_UNDERWAY] = 1
        self.count += 1

    def _enter(self, known: Instance | str, job: str, function: str) -> int:
        text = f"{job}\0{function}".encode(errors="replace")
        if not self._free or len(text) > ENTRY_BYTES - _LENGTH.size:
            number = _NAMELESS
        else:
            number = self._free.pop()
            self._write(_ENTRIES_AT + number * ENTRY_BYTES, text)
        self._entries[known] = number
        return number

    def _write(self, at: int, text: bytes) -> None:
        self._page[at : at + _LENGTH.size + len(text)] = _LENGTH.pack(len(text)) + text

    # The readers' side: the parent process, and the pulse thread.

    @property
    def failed(self) -> bool:
        """Whether the reason is an error of the worker."""
        return bool(self._numbers[_FAILED])

    @property
    def reason(self) -> str | None:
        """Why the process has left by itself; None if it has not said so."""
        return self._read(_NUMBERS_BYTES) or None

    def last_run(self) -> LastRun | None:
        """Returns the run that is under way, or the last one; None if there was none or it has no name here."""
        number = self._numbers[_RUN]
        text = self._read(_ENTRIES_AT + number * ENTRY_BYTES) if number >= _FIRST else ""
        if not text:
            return None
        job, _, function = text.partition("\0")
        return LastRun(job, function or None, bool(self._numbers[_UNDERWAY]))

    def _read(self, at: int) -> str:
        (length,) = _LENGTH.unpack(self._page[at : at + _LENGTH.size])
        return self._page[at + _LENGTH.size : at + _LENGTH.size + length].decode(errors="replace")

    def close(self) -> None:
        self._numbers.release()
        self._page.close()
