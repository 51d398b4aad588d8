"""What several parts need of the same other part. What one part alone needs, it declares beside itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from stretto.coordinator.records import Job
from stretto.observation.model import Observation


class Workers(Protocol):
    """Whoever knows the workers that are not parked and not about to leave."""

    def workers(self) -> list[str]: ...

    @property
    def wanted(self) -> int: ...


class Rooms(Protocol):
    """Whoever knows where and when a job may run."""

    def workers_for(self, job: Job) -> list[str]: ...

    def workers_wanted(self, job: Job, usual: int) -> int: ...

    def resumes_ns(self, job: Job) -> int: ...

    def waits_for_place(self, job: Job) -> bool: ...

    def is_quarantined(self, job: Job) -> bool: ...

    def give_up_quarantine(self, job: Job) -> None: ...


class Stops(Protocol):
    """Whoever has members drop an attempt of a job."""

    def ask(self, member: str, attempt: str) -> None: ...


class Settled(Protocol):
    """Whoever hears what has become of an order."""

    def finished(self, order: str, spent: Mapping[str, float]) -> None: ...

    def failed(self, order: int | str, reason: str) -> None: ...


class Observers(Protocol):
    """Whoever observes the cluster."""

    last: Observation

    def observe(self) -> None:
        """Announces the present observation."""
