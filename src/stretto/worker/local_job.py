"""What one worker knows of a job."""

from __future__ import annotations

from enum import Enum

from stretto.actors.address import Address
from stretto.actors.deployment import Deployment
from stretto.actors.seat import Seat
from stretto.checkpoints.manifest import Manifest, Storage
from stretto.protocol.handover import HandOver
from stretto.protocol.jobs import Predecessor, Promise
from stretto.scheduling.strategy import Strategy
from stretto.worker.demands import Demands


class JobPhase(Enum):
    """Where a job stands on this worker."""

    LOADING = "loading"
    OPENING = "opening"
    READY = "ready"
    RUNNING = "running"


class LocalJob:
    """What this worker knows of a job: the lessors and lessees here, where the other lessors are, who may host lessees.

    `hosts_change` is the change of hosts that the coordinator waits to hear of, once no lessor here has a lessee where
    none may be any more; 0 when it does not wait. A job with checkpoints has `storage`; `origin` is the one it
    resumes from. One that `follows` another attempt takes over from it while that runs."""

    def __init__(
        self,
        job: str,
        placement: dict[str, list[str]],
        storage: Storage | None = None,
        origin: Manifest | None = None,
        follows: Predecessor | None = None,
        promise: Promise | None = None,
    ) -> None:
        self.job = job
        self.placement = placement
        self.storage = storage
        self.origin = origin
        self.follows = follows
        self.promise = promise
        """What it has promised since its code was made."""
        self.checkpoint = 0
        """The last one that the coordinator has begun."""
        self.handover: HandOver | None = None
        """How it is handed over to another attempt, once that has begun."""
        self.called_off = 0
        """The last handover that was called off; marks up to it are void."""
        self.phase = JobPhase.LOADING
        self.deployment: Deployment | None = None
        self.seats: dict[Address, Seat] = {}
        self.lessees: dict[Address, Seat] = {}
        self.hosts: list[str] = []
        self.hosts_change = 0
        self.lessees_set: dict[str, int] = {}
        """How many lessees each actor of a function may have, where that was set."""
        self.strategies: dict[str, Strategy] = {}
        self.opening = 0
        self.finished = 0
        self.demands = Demands()
        # What has run since the last report: reporting costs what was done, not what is there.
        self.unreported: list[Seat] = []

    def may_have_lessees(self, function: str) -> bool:
        spec = self.deployment.functions.get(function) if self.deployment is not None else None
        return spec is not None and (spec.lessees_max > 0 or spec.tasks_max > 0)

    def all_seats(self) -> list[Seat]:
        """Those of lessors and of lessees."""
        return [*self.seats.values(), *self.lessees.values()]

    def hosts_for(self, seat: Seat, here: str) -> list[str]:
        """The workers that may host lessees of an actor, in an order that gives each actor others to begin with: first
        those that are home to no actor of its function."""
        homes = set(self.placement[seat.address.function])
        away = [member for member in self.hosts if member not in homes]
        others = [member for member in self.hosts if member in homes and member != here]
        first = seat.address.partition * seat.spec.lessees_max
        return [*_turned(away, first), *_turned(others, first)]


def _turned(members: list[str], first: int) -> list[str]:
    """The same members, from another one on."""
    turn = first % (len(members) or 1)
    return [*members[turn:], *members[:turn]]
