"""What a cluster that runs announces, taken into a history by a thread of its own."""

from __future__ import annotations

import logging
import threading

from stretto.dashboard.history import History
from stretto.dashboard.kept import Kept
from stretto.dashboard.report import write_report
from stretto.runtime.announcements import Announcements
from stretto.runtime.clock import process_clock

log = logging.getLogger("stretto.dashboard")

TAKE_EVERY_S = 0.25


class Recording:
    """Keeps what is announced, from its making until `close`."""

    def __init__(self, announcements: Announcements, title: str) -> None:
        self.title = title
        self.kept = Kept(History(), process_clock().now_ns)
        self._announcements = announcements
        self._closing = threading.Event()
        self._taking = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="stretto-recording", daemon=True)
        self._thread.start()

    def write_report(self, path: str) -> None:
        """Writes what was announced so far as one file that needs no server."""
        self._take()
        self.kept.read(lambda history: write_report(path, history, self.title))

    def close(self) -> None:
        """Takes what was announced last, and ends the thread. What was kept can still be read."""
        self._closing.set()
        self._thread.join()
        self._take()

    def _run(self) -> None:
        while not self._closing.wait(TAKE_EVERY_S):
            try:
                self._take()
            except Exception:
                log.exception("what was announced cannot be kept; the page shows what came before")

    def _take(self) -> None:
        with self._taking:
            self.kept.take(*self._announcements.take())
