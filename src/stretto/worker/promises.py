"""What a job has promised may change while it runs: deadlines, handicaps and the bounds of its neighbours follow.

Messages keep the deadlines that they were sent with; those that are sent from now on have later or earlier ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from stretto.actors.channel import OutChannel
from stretto.actors.deadlines import LAX_NS, start_deadline_ns
from stretto.actors.deployment import Deployment
from stretto.protocol.jobs import Promise, Promised
from stretto.worker.local_job import LocalJob
from stretto.worker.part import FrameHandlers, Host, Part


class Neighbours(Protocol):
    """Whoever bounds runs by the objectives of other jobs."""

    def changed(self) -> None: ...


class Promises(Part):
    """The objectives of the jobs here."""

    def __init__(self, host: Host, neighbours: Neighbours) -> None:
        self._host = host
        self._neighbours = neighbours

    def frames(self) -> FrameHandlers:
        return {Promised: self._on_promised}

    def _on_promised(self, sender: str, frame: Promised) -> None:
        job = self._host.jobs.get(frame.job)
        if job is None:
            self._host.stale += 1
            return
        job.promise = frame.promise
        if job.deployment is None:
            return  # It is applied when the code is loaded.
        job.deployment = promising(job.deployment, frame.promise)
        _keep(job, frame.promise)
        self._neighbours.changed()
        for seat in job.all_seats():
            self._host.offer(seat)


def promising(deployment: Deployment, promise: Promise | None) -> Deployment:
    """Returns a deployment with the objective that was set since it was made."""
    if promise is None:
        return deployment
    return replace(deployment, latency_ns=promise.latency_ns, share=promise.share)


def _keep(job: LocalJob, promise: Promise) -> None:
    latency_ns = LAX_NS if promise.latency_ns is None else promise.latency_ns
    for seat in job.all_seats():
        seat.latency_ns, seat.share = latency_ns, promise.share
        for out in seat.outs:
            for channel in (out, *(out.extras or {}).values()):
                _promise(channel, latency_ns, promise.latency_ns is None)


def _promise(channel: OutChannel, latency_ns: int, yields: bool) -> None:
    channel.latency_ns, channel.yields = latency_ns, yields
    channel.budget_ns = start_deadline_ns(0, latency_ns, channel.cost_ns, channel.path_ns)
