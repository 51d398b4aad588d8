"""What several parts need of the same other part. What one part alone needs, it declares beside itself."""

from __future__ import annotations

from typing import Protocol


class Stops(Protocol):
    """Whoever has members drop an attempt of a job."""

    def ask(self, member: str, attempt: str) -> None: ...
