"""The page itself: its text, its scripts and styles, and libraries of others as they were published.

Everything is a file as a browser gets it: there is no build step, and nothing is loaded from elsewhere. `vendor/` has
the libraries with their licences; its `README.md` says where they come from and which versions they are. Scripts are
plain ones that share the object `stretto`, so that a report can have them inside in the same order.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from stretto.serving.refusals import Refused, Why

VENDORED = ("htm-preact.umd.js", "uPlot.iife.min.js", "dagre.min.js")
SCRIPTS = (
    "base.js",
    "format.js",
    "plots.js",
    "graph.js",
    "parts.js",
    "overview.js",
    "entities.js",
    "job.js",
    "decisions.js",
    "controls.js",
    "tables.js",
    "feed.js",
    "app.js",
)
"""The scripts of the page, each after those that it uses."""
STYLES = ("vendor/uPlot.min.css", "page.css")
ORDER = (*(f"vendor/{name}" for name in VENDORED), *SCRIPTS)
_KINDS = {".js": "text/javascript", ".css": "text/css"}


def page_text() -> str:
    """Returns the page that a browser opens."""
    return _text("page.html")


def asset(name: str) -> tuple[str, str]:
    """Returns the content and the type of a script or a style; only what is listed here is given away."""
    if name not in (*ORDER, *STYLES):
        raise Refused(Why.NOTHING_HERE, "the page has no such file")
    return _text(name), _KINDS["." + name.rpartition(".")[2]]


@cache
def _text(name: str) -> str:
    found = files(__name__)
    for part in name.split("/"):
        found = found.joinpath(part)
    return found.read_text("utf-8")
