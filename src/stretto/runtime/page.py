"""The door to the page, which sits above this room: a cluster is told to open it, and knows nothing else of it."""

from __future__ import annotations

from typing import Any, Protocol

from stretto.runtime.announcements import Announcements


class OpenRecording(Protocol):
    """What is announced, kept."""

    def write_report(self, path: str) -> None: ...

    def close(self) -> None: ...


class OpenPage(Protocol):
    """A page that is served. `url` has its token, `address` has not."""

    @property
    def url(self) -> str: ...

    @property
    def address(self) -> str: ...

    def close(self) -> None: ...


def opened_recording(announcements: Announcements, title: str) -> OpenRecording:
    """Returns a recording of what is announced."""
    from stretto.dashboard.recording import Recording

    return Recording(announcements, title)


def opened_page(recording: Any, cluster: Any, at: str | bool) -> OpenPage:
    """Returns the page of a cluster."""
    from stretto.dashboard.live import Page

    return Page(recording, cluster, at)
