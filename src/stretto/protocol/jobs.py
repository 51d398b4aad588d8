"""The life of a job: deployed, ready, started, finished, failed or stopped; and the workers that may host its
lessees."""

from __future__ import annotations

import msgspec

from stretto.actors.address import Address
from stretto.actors.shape import Shapes
from stretto.checkpoints.manifest import Manifest, Storage


class Failure(msgspec.Struct, frozen=True):
    """Why a job failed: the name of the error's type, its message, the user's traceback, and a sample of the batch."""

    error: str
    fact: str
    detail: str | None = None
    fix: str | None = None
    function: str | None = None
    traceback: str | None = None
    sample: str | None = None


class Predecessor(msgspec.Struct, frozen=True, array_like=True):
    """The running attempt that another one takes over from, and the shapes of its functions."""

    attempt: str
    shapes: Shapes


class Promise(msgspec.Struct, frozen=True, array_like=True):
    """The part of an objective that workers keep: the latency, None if none is promised, and the job's share."""

    latency_ns: int | None
    share: float


class Deploy(msgspec.Struct, frozen=True, tag="deploy"):
    """Make the instances of a job that are placed here. `digest` names the code, which is in a file.

    A worker where nothing is placed gets it too, if it may host lessees of the job. Sinks of a job with `storage`
    publish rows only when they are in a complete checkpoint; `origin` is the checkpoint to resume from. An attempt that
    `follows` a running one is not opened before that has come to its mark. The code has the objective of the job, but
    for a `promise` that was made since."""

    job: str
    digest: str
    placement: dict[str, list[str]]
    storage: Storage | None = None
    origin: Manifest | None = None
    follows: Predecessor | None = None
    promise: Promise | None = None


class Promised(msgspec.Struct, frozen=True, tag="promised"):
    """The job has another objective from now on."""

    job: str
    promise: Promise


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    """The code of a job has been loaded here; its instances are being opened."""

    job: str


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """All instances of a job that are placed here are open."""

    job: str


class Start(msgspec.Struct, frozen=True, tag="start"):
    """All members are ready: open the channels and let the sources read. `hosts` may host lessees, `lessees` is how
    many the actors of some functions may have."""

    job: str
    hosts: list[str] = []
    lessees: dict[str, int] = {}


class Hosts(msgspec.Struct, frozen=True, tag="hosts"):
    """The workers that may host lessees from now on, and how many lessees each actor of some functions may have; those
    of others may have as many as they were deployed with. A worker that is removed loses its lessees at the next
    barrier, and an actor that has too many loses some."""

    job: str
    hosts: list[str]
    change: int = 0
    lessees: dict[str, int] = {}


class HostsLeft(msgspec.Struct, frozen=True, tag="hostsleft"):
    """No lessor here has a lessee on a removed worker any more."""

    job: str
    change: int


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    """Sources end as if their input had ended; everything read is processed, to the last window."""

    job: str


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Drop the job's instances now."""

    job: str


class Stopped(msgspec.Struct, frozen=True, tag="stopped"):
    job: str


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """An actor has reached the end of its input; `checkpoint` is the last one whose mark it has passed."""

    actor: Address
    checkpoint: int = 0


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    job: str
    failure: Failure
