"""Controllers by their names, and a user's own by `module:Class`."""

from __future__ import annotations

from collections.abc import Callable

from stretto.elasticity.controller import Controller
from stretto.elasticity.home_bottleneck import HomeBottleneck
from stretto.elasticity.intent_controller import FairIntentController, IntentController
from stretto.elasticity.neighbours import Neighbours
from stretto.elasticity.shard_balancer import ShardBalancer
from stretto.elasticity.team import Team
from stretto.elasticity.worker_allocator import NaiveAssignment, WorkerAllocator
from stretto.scheduling.naming import named

CONTROLLERS: dict[str, Callable[[], Controller]] = {
    "shards": ShardBalancer,
    "workers": WorkerAllocator,
    "homes": HomeBottleneck,
    "neighbours": Neighbours,
    "naive": NaiveAssignment,
    "henge": IntentController,
    "henge-fair": FairIntentController,
}

TEAMS: dict[str, tuple[str, ...]] = {"auto": ("shards", "workers", "homes", "neighbours"), "off": ()}


def controllers_named(names: str) -> Team:
    """Returns the controllers with these names, parted by commas: `auto` for all that belong together, `off` for none,
    and `module:Class` for a user's own."""
    found: list[Controller] = []
    for name in names.split(","):
        members = TEAMS.get(name.strip(), (name.strip(),))
        found += [named(member, CONTROLLERS, Controller, "controller") for member in members]
    return Team(found)
