"""What users ask a running driver from another process, and its answers: one request and one reply per connection.

Plain data only. A request that the driver does not know is refused by its decoder; a new command is a new request here
and a handler in `runtime/cluster_control.py`.
"""

from __future__ import annotations

import msgspec

# Requests.


class AskAbout(msgspec.Struct, frozen=True, tag="about", forbid_unknown_fields=True):
    """Who are you?"""


class AskStatus(msgspec.Struct, frozen=True, tag="status", forbid_unknown_fields=True):
    """What runs?"""


class AskScale(msgspec.Struct, frozen=True, tag="scale", forbid_unknown_fields=True):
    """Add workers, and then have others leave: so many, or this one."""

    add: int = 0
    leave: int = 0
    drain: str | None = None
    timeout_s: float | None = None


class AskQuery(msgspec.Struct, frozen=True, tag="query", forbid_unknown_fields=True):
    """Answer a SELECT over published tables or over state."""

    text: str
    timeout_s: float
    at_least_us: int | None = None


Request = AskAbout | AskStatus | AskScale | AskQuery

# Replies.


class About(msgspec.Struct, frozen=True, tag="about"):
    """A driver: its process, its cluster and the apps that it runs."""

    pid: int
    cluster: str
    apps: list[str]


class WorkerStatus(msgspec.Struct, frozen=True):
    """A member: `state` is active, parked or draining; `busy` is the share of a core, over all jobs."""

    name: str
    role: str
    state: str
    host: str
    pid: int
    busy: float
    queued: int
    jobs: list[str]


class FunctionStatus(msgspec.Struct, frozen=True):
    """A function: rows per second that it reads and sends, how many workers it keeps busy, messages that wait."""

    name: str
    partitions: int
    instances: int
    rows_in_per_s: float
    rows_out_per_s: float
    busy: float
    queued: int


class JobStatus(msgspec.Struct, frozen=True):
    name: str
    status: str
    attempt: str
    workers: list[str]
    rows_per_s: float
    functions: list[FunctionStatus]


class Status(msgspec.Struct, frozen=True, tag="status"):
    """What runs now. `workers_wanted` counts those that are coming, and not those that leave."""

    cluster: str
    workers_wanted: int
    workers: list[WorkerStatus]
    jobs: list[JobStatus]


class Scaled(msgspec.Struct, frozen=True, tag="scaled"):
    """The workers that have joined and left."""

    joined: list[str]
    left: list[str]
    workers: int


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """An answer: its rows as an Arrow stream, the event time up to which it has everything, what is missing."""

    rows: bytes
    as_of_us: int | None
    missing: list[str]
    rows_read: int
    workers: int


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """An error: the fact, the detail, what to do."""

    fact: str
    detail: str | None = None
    fix: str | None = None


Reply = About | Status | Scaled | Answered | Refused
