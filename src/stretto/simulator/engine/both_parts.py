"""A simulated cluster with an app that has streams and entities: one driver submits both, and again after a restart."""

from __future__ import annotations

from typing import Any

from stretto.actors.deployment import Deployment
from stretto.coordinator.records import JobStatus
from stretto.protocol.entities import Pace, entities_of
from stretto.simulator.engine.hosted_entities import HostedEntities
from stretto.simulator.engine.storage import SimulatedFiles
from stretto.transactions.outbox import is_of_stream

STREAMS = "flow"


class BothParts(HostedEntities):
    """Use: `submit_app`, plan faults, then `run_streams`."""

    job = entities_of(STREAMS)

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.stream_files = SimulatedFiles()

    def submit_app(self, deployment: Deployment, pace: Pace, places: int, durable: bool) -> None:
        """Have the entities hosted, and the streams run, with checkpoints if they are to be durable."""
        self._pace = pace
        self.submit_entities(pace, places)
        if durable:
            self.submit_durable(deployment, self.stream_files)
        else:
            self.submit_plain(deployment)

    def run_streams(self, steps_max: int) -> bool:
        """Run until the streams have ended. Returns whether they have, within so many steps."""
        return self.run_until(steps_max, lambda: self.jobs[STREAMS].status.ended)

    def settle(self, steps_max: int) -> bool:
        """Run until no place of entities is moving: one that is handed over is nowhere for a moment."""
        self.is_calm = True
        return self.run_until(steps_max, lambda: self.coordinator.entities.moving.of(self.job) is None)

    @property
    def has_finished_streams(self) -> bool:
        return self.jobs[STREAMS].status is JobStatus.FINISHED

    @property
    def has_ended(self) -> bool:
        """The entities go on until somebody stops them, so what counts is the streams."""
        return STREAMS in self.jobs and self.jobs[STREAMS].status.ended

    def restart(self, deployment: Deployment | None = None, workers: int | None = None) -> None:
        if deployment is not None and not self.has_ended:
            self._durable = [(deployment, self.stream_files)]
        super().restart(None, workers)

    def _resubmit(self) -> None:
        self.submit_entities(self._pace, self._places)
        super()._resubmit()

    @property
    def has_failed(self) -> bool:
        """Whether one of the two parts has ended by a failure."""
        return any(job.status is JobStatus.FAILED for job in self.jobs.values())

    @property
    def are_calm(self) -> bool:
        """Whether no transaction is under way."""
        machines = self._machines()
        return len(machines) == self._places and all(machine.is_calm for machine in machines)

    def rows_kept(self, stream: str) -> int:
        """Returns how many emitted rows are kept for a stream."""
        return sum(len(machine.emitted(stream)) for machine in self._machines())

    def kept_for_streams(self) -> int:
        """Returns how many replies are kept for functions of streams."""
        kept = (each for machine in self._machines() for each in machine.kept())
        return sum(len(each.replies) for each in kept if is_of_stream(each.client))
