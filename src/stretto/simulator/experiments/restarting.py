"""The effect of a change of parallelism or placement in experiments that run each configuration by itself.

This is the one place that stands in for the levers of elasticity (handing a job over to another parallelism, adding and
draining workers), which the simulator has, too: `tests/simulation/test_henge_loop.py` uses them. A change is modelled
by starting again: a cluster of its own runs the job with the placement that was decided, from empty queues, and what it
reaches is the effect. So what the change itself costs is not measured here, and a backlog does not survive it. The
machines are the production ones; only the coordinator's choice of homes is replaced.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stretto.coordinator.events import Effect, Event, SubmitRequested
from stretto.coordinator.machine import Coordinator
from stretto.elasticity.team import Team
from stretto.elasticity.topology import Placement
from stretto.protocol.jobs import Deploy
from stretto.protocol.machines import Send
from stretto.simulator.engine.cluster import NEVER_LOST_NS, SimulatedCluster


class PlacingCoordinator(Coordinator):
    """A coordinator that is told where the functions of a job run."""

    def __init__(self, homes: Placement) -> None:
        super().__init__(NEVER_LOST_NS)
        self._homes = {name: list(workers) for name, workers in homes.items()}

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        effects = super().handle(event, now_ns)
        if not isinstance(event, SubmitRequested):
            return effects
        job = self.jobs[event.job]
        deploys = [each.frame for each in effects if isinstance(each, Send) and isinstance(each.frame, Deploy)]
        others = [each for each in effects if not (isinstance(each, Send) and isinstance(each.frame, Deploy))]
        job.placement = {name: self._homes[name] for name in job.shapes}
        job.unready, job.unloaded = set(job.members), set(job.members)
        frame = msgspec.structs.replace(deploys[0], placement=job.placement)
        return [*others, *(Send(member, frame) for member in job.members)]


class PlacedCluster(SimulatedCluster):
    """A cluster whose one job runs where `homes` says. Workers are named `w0~1` and so on, as everywhere."""

    def __init__(self, workers: int, homes: Placement, seed: int, **more: Any) -> None:
        self._wanted = homes
        # With controllers, though there are none, the coordinator is told the time, and observes.
        super().__init__(workers, seed, controllers=Team([]), checked=False, **more)

    def new_coordinator(self) -> Coordinator:
        return PlacingCoordinator(self._wanted)
