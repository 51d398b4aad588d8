"""Controllers by their names, and a user's own by `module:Class`."""

from __future__ import annotations

from collections.abc import Callable

from stretto.elasticity.burst_controller import BurstController, BurstSettings
from stretto.elasticity.burst_prices import Prices
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
    "bursts": BurstController,
}

TEAMS: dict[str, tuple[str, ...]] = {"auto": ("shards", "workers", "homes", "neighbours"), "off": ()}
BURSTS = "bursts"


def controllers_named(names: str, transient: int = 0, prices: Prices | None = None, transient_max: int = 0) -> Team:
    """Returns the controllers with these names, parted by commas: `auto` for all that belong together, `off` for none,
    and `module:Class` for a user's own. On a cluster with transient workers, `auto` sends bursts there; `transient` of
    them stay, and there may be `transient_max`."""
    settings = BurstSettings(prices=prices or Prices(), warm=transient, transient_max=transient_max)
    known = {**CONTROLLERS, BURSTS: lambda: BurstController(settings)}
    found: list[Controller] = []
    for name in names.split(","):
        members = TEAMS.get(name.strip(), (name.strip(),))
        if name.strip() == "auto" and (transient or transient_max):
            members = (*members, BURSTS)
        found += [named(member, known, Controller, "controller") for member in members]
    return Team(found)
