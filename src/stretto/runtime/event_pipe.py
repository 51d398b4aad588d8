"""Events from other threads for a loop that polls file descriptors."""

from __future__ import annotations

import os
import queue
import threading
from typing import Generic, TypeVar

E = TypeVar("E")


class EventPipe(Generic[E]):
    """`put` may be called from any thread; `fd` is readable when there are events. What is put after `close` is
    ignored."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[E] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._signalled = False
        self.fd, self._wake = os.pipe()
        os.set_blocking(self.fd, False)

    def put(self, event: E) -> None:
        self._events.put(event)
        with self._lock:  # The number of a closed descriptor may be another file by now.
            if not self._closed and not self._signalled:
                self._signalled = True
                os.write(self._wake, b"!")

    def events(self) -> list[E]:
        """Returns the events since the last call, in order."""
        with self._lock:
            if self._signalled:
                self._signalled = False
                os.read(self.fd, 1)
        found = []
        while not self._events.empty():
            found.append(self._events.get())
        return found

    def close(self) -> None:
        with self._lock:
            self._closed = True
            os.close(self.fd)
            os.close(self._wake)
