"""Planted bugs in how objectives change: each must be caught by `promises.py`."""

from __future__ import annotations

from msgspec.structs import replace

from stretto.coordinator.handovers import Handovers
from stretto.coordinator.jobs import Jobs
from stretto.coordinator.machine import CoordinatorParts
from stretto.coordinator.records import Handover, Job
from stretto.protocol.jobs import Deploy, Promised
from stretto.simulator.checking.mutations import mutation_name
from stretto.simulator.engine.durable import Parts
from stretto.worker.machine import WorkerParts
from stretto.worker.promises import Promises


class Unheard(Promises):
    """Workers go on with the objective of the code."""

    def _on_promised(self, sender: str, frame: Promised) -> None:
        return


class ChannelsForgotten(Promises):
    """What is sent has the deadlines of the objective before."""

    def _on_promised(self, sender: str, frame: Promised) -> None:
        job = self._host.jobs.get(frame.job)
        before = [(out, out.latency_ns) for seat in job.all_seats() for out in seat.outs] if job is not None else []
        super()._on_promised(sender, frame)
        for out, latency_ns in before:
            out.latency_ns = latency_ns


class ForgottenInRecovery(Jobs):
    """An attempt after a failure has the objective of the code."""

    def deployment(self, job: Job) -> Deploy:
        return replace(super().deployment(job), promise=None)


class ForgottenInHandover(Handovers):
    """The attempt that takes over has the objective of the code."""

    def _deploy(self, job: Job, handover: Handover) -> None:
        promise, job.promise = job.promise, None
        super()._deploy(job, handover)
        job.promise = promise


PROMISE_MUTATIONS: dict[str, Parts] = {
    **{mutation_name(each): Parts(worker=WorkerParts(promises=each)) for each in (Unheard, ChannelsForgotten)},
    mutation_name(ForgottenInRecovery): Parts(coordinator=CoordinatorParts(jobs=ForgottenInRecovery)),
    mutation_name(ForgottenInHandover): Parts(coordinator=CoordinatorParts(handovers=ForgottenInHandover)),
}
