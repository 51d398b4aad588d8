"""How fast a browser draws the page of a large cluster: until all jobs are painted, and for each update.

The cluster is made up (`feed.py`), the server, its sockets and the browser are real. Times are taken in the page: from
the beginning of the navigation to the frame in which the last job is painted, and from the beginning of a drawing to
the end of its frame.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from stretto.bench.page.browser import Browser, browser
from stretto.bench.page.feed import MadeUp, MadeUpCluster
from stretto.dashboard.history import History
from stretto.dashboard.kept import Kept
from stretto.dashboard.web import PAGE_LIMITS, DashboardWeb
from stretto.serving.guard import Guard, Token, new_secret
from stretto.serving.server import LOOPBACK, Server, bound

FIRST_PAINT_MS_MOST, UPDATE_MS_MOST = 1_000.0, 100.0
"""What is allowed."""
_TIMES = """
window.drawn = [];
window.firstPaintMs = null;
const frames = window.requestAnimationFrame.bind(window);
const ended = new MessageChannel();
let began = null;
// A message that is sent in a frame arrives when the frame is painted.
ended.port1.onmessage = () => {
  const jobs = document.querySelectorAll("[data-job]").length;
  if (window.firstPaintMs === null && jobs >= JOBS) window.firstPaintMs = performance.now();
  else if (window.firstPaintMs !== null) window.drawn.push(performance.now() - began);
};
window.requestAnimationFrame = (draw) => frames((at) => {
  began = performance.now();
  draw(at);
  ended.port2.postMessage(0);
});
"""


@dataclass(frozen=True)
class DrawingSetup:
    """How large the cluster is, how many seconds of history it has, how often the page is opened and updated."""

    jobs: int = 200
    workers: int = 100
    history_s: int = 60
    openings: int = 5
    updates: int = 20


@dataclass(frozen=True)
class Drawing:
    """Milliseconds until all jobs were painted, for each opening, and for each update; the bytes of an update."""

    first_paint_ms: list[float]
    update_ms: list[float]
    first_paint_cpu_ms: list[float]
    update_cpu_ms: list[float]
    """The processor time of the page's thread, with reading what came: on a busy machine it says more."""
    update_bytes: int

    def as_dict(self) -> dict[str, Any]:
        first, update = statistics.median(self.first_paint_ms), statistics.median(self.update_ms)
        return {
            "first_paint_ms": round(first, 1),
            "first_paint_ms_each": [round(each, 1) for each in self.first_paint_ms],
            "first_paint_cpu_ms": round(statistics.median(self.first_paint_cpu_ms), 1),
            "update_ms": round(update, 1),
            "update_cpu_ms": round(statistics.median(self.update_cpu_ms), 1),
            "update_ms_max": round(max(self.update_ms), 1),
            "update_bytes": self.update_bytes,
            "within": {"first_paint": first <= FIRST_PAINT_MS_MOST, "update": update <= UPDATE_MS_MOST},
        }


class _Shown:
    """A made-up cluster and its page."""

    def __init__(self, setup: DrawingSetup) -> None:
        begins_ns = time.time_ns() - setup.history_s * 1_000_000_000
        self._cluster = MadeUpCluster(MadeUp(setup.jobs, setup.workers, begins_ns=begins_ns))
        self._history = History()
        self.kept = Kept(self._history, lambda: self._history.observation.time_ns)
        self.go_on(setup.history_s)

    def go_on(self, seconds: int = 1) -> None:
        self.kept.take(self._cluster.observations(seconds), [self._cluster.decide()] if seconds == 1 else [])


def measure_drawing(setup: DrawingSetup) -> Drawing:
    """Returns how fast the page is drawn."""
    shown = _Shown(setup)
    with _served(shown.kept) as url, browser() as opened:
        opened.ask("Page.addScriptToEvaluateOnNewDocument", source=_TIMES.replace("JOBS", str(setup.jobs)))
        first, first_cpu = [], []
        for _ in range(setup.openings):
            opened.open("about:blank")
            before_s = opened.busy_s()
            opened.open(url)
            opened.until("window.firstPaintMs !== null")
            first.append(float(opened.run("window.firstPaintMs")))
            first_cpu.append((opened.busy_s() - before_s) * 1e3)
        updates, updates_cpu = _updates(opened, shown, setup.updates)
        size = int(opened.run("JSON.stringify(stretto.store.overview).length"))
    return Drawing(first, updates, first_cpu, updates_cpu, size)


def _updates(opened: Browser, shown: _Shown, count: int) -> tuple[list[float], list[float]]:
    took_cpu = []
    for _ in range(count):
        drawn, before_s = int(opened.run("window.drawn.length")), opened.busy_s()
        shown.go_on()
        opened.until(f"window.drawn.length > {drawn}")
        took_cpu.append((opened.busy_s() - before_s) * 1e3)
    return [float(each) for each in opened.run("window.drawn")], took_cpu


@contextmanager
def _served(kept: Kept) -> Iterator[str]:
    web = DashboardWeb(kept, "made up", Guard(None), Guard(Token(new_secret())))
    server = Server(bound(LOOPBACK, 0), web, PAGE_LIMITS, "page")
    server.start()
    try:
        yield server.url
    finally:
        web.close()
        server.end()
