"""What a cluster answers at the control socket of its driver: who it is, what runs, and workers that come and go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from stretto.errors import ClusterError, UserError
from stretto.observation.model import FunctionObserved, JobObserved, Observation, WorkerObserved
from stretto.protocol.control import (
    About,
    Answered,
    AskAbout,
    AskQuery,
    AskScale,
    AskStatus,
    FunctionStatus,
    JobStatus,
    Scaled,
    Status,
    WorkerStatus,
)
from stretto.queries.moments import time_of
from stretto.queries.sent import stream_of
from stretto.runtime.cluster import DRAIN_TIMEOUT_S, START_TIMEOUT_S, Cluster
from stretto.runtime.control_socket import REPLY_BYTES_MAX, ControlSocket

ANSWER_BYTES_MAX = REPLY_BYTES_MAX - 65_536


@contextmanager
def controlled(cluster: Cluster) -> Iterator[ControlSocket]:
    """Opens the control socket of a cluster for the time of a `with` block."""
    control = ControlSocket(
        {
            AskAbout: lambda _: About(os.getpid(), cluster.id, sorted(cluster.observation.jobs)),
            AskStatus: lambda _: status_of(cluster.id, cluster.workers_wanted, cluster.observation),
            AskScale: lambda request: _scaled(cluster, request),
            AskQuery: lambda request: _answered(cluster, request),
        }
    )
    try:
        yield control
    finally:
        control.close()


def _scaled(cluster: Cluster, request: AskScale) -> Scaled:
    if request.add < 0 or request.leave < 0 or not (request.add or request.leave or request.drain):
        raise ClusterError("there is nothing to scale", None, "Say how many workers to add, or which are to leave.")
    joined: list[str] = []
    left: list[str] = []
    if request.add:
        added = cluster.scale_out(request.add, timeout=request.timeout_s or START_TIMEOUT_S)
        joined = [member.name for member in added]
    if request.drain is not None:
        cluster.drain(request.drain, timeout=request.timeout_s or DRAIN_TIMEOUT_S)
        left.append(request.drain)
    if request.leave:
        left += cluster.scale_in(request.leave, timeout=request.timeout_s or DRAIN_TIMEOUT_S)
    return Scaled(joined, left, len(cluster.workers))


def _answered(cluster: Cluster, request: AskQuery) -> Answered:
    at_least = None if request.at_least_us is None else time_of(request.at_least_us)
    answer = cluster.ask(request.text, timeout=request.timeout_s, at_least=at_least)
    data = stream_of(answer.table)
    if data.size > ANSWER_BYTES_MAX:
        raise UserError(
            "the answer is too long for the control socket",
            f"it has {data.size} bytes of at most {ANSWER_BYTES_MAX}",
            "Ask for fewer rows, for example with LIMIT.",
        )
    missing = [str(each) for each in answer.missing]
    return Answered(data.to_pybytes(), answer.as_of_us, missing, answer.rows_read, answer.workers)


def status_of(cluster: str, wanted: int, observation: Observation) -> Status:
    """Returns what runs, from an observation."""
    jobs = [_job(job) for _, job in sorted(observation.jobs.items())]
    workers = [_worker(worker, jobs) for _, worker in sorted(observation.workers.items())]
    return Status(cluster, wanted, workers, jobs)


def _worker(worker: WorkerObserved, jobs: list[JobStatus]) -> WorkerStatus:
    member = worker.member
    state = "draining" if worker.leaving else "parked" if worker.parked else "active"
    mine = [job.name for job in jobs if member.name in job.workers]
    return WorkerStatus(
        member.name, member.role.value, state, member.host, member.pid, worker.busy_share, worker.queued, mine
    )


def _job(job: JobObserved) -> JobStatus:
    functions = [_function(name, function) for name, function in job.functions.items()]
    read = sum(function.output_rate for function in job.functions.values() if not function.shape.feeds)
    return JobStatus(job.name, job.status, job.attempt, list(job.members), read, functions)


def _function(name: str, function: FunctionObserved) -> FunctionStatus:
    return FunctionStatus(
        name,
        function.shape.parallelism,
        len(function.actors),
        function.input_rate,
        function.output_rate,
        function.busy_share,
        function.queued,
    )
