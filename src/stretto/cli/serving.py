"""`stretto serve`: the entities of an app over HTTP, on a cluster or in this process."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer

from stretto.api.app import App
from stretto.cli.loading import Loaded, load, made, needs_spark
from stretto.cli.reporting import note
from stretto.coordinator.records import JobStatus
from stretto.errors import ClusterError, UserError
from stretto.runtime.cluster import Cluster
from stretto.runtime.cluster_control import controlled
from stretto.runtime.entities.in_process import InProcess
from stretto.runtime.job import Job
from stretto.runtime.session import local_master, spark_session
from stretto.serving.guard import new_secret
from stretto.serving.limits import Limits
from stretto.serving.server import Server, bound, is_loopback, serving

POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class ServeRequest:
    """Which app to serve, where its entities are, and who may call them."""

    target: str
    host: str
    port: int
    token: bool
    timeout_s: float
    in_process: bool
    workers: int
    master: str | None
    checkpoint: str | None
    every: str
    parked: int


def serve_app(request: ServeRequest) -> None:
    """Serve an app until it is interrupted or terminated, or its job ends."""
    found = load(request.target)
    if not needs_spark(found):
        _check_entities(made(found))  # Report it before Spark starts.
    with _terminated_like_interrupted(), bound(request.host, request.port) as listener:
        if not request.in_process:
            _serve_on_spark(found, request, listener)
        elif needs_spark(found):
            raise UserError("this app is made with a Spark session", None, "Serve it without --in-process.")
        else:
            note("The entities are in this process, in memory only, and each transaction runs twice.")
            _serve(made(found).in_process(), request, listener)


def _serve_on_spark(found: Loaded, request: ServeRequest, listener: socket.socket) -> None:
    master = request.master or local_master(request.workers + request.parked)
    if request.checkpoint is None:
        note("The entities are in memory only; --checkpoint DIR keeps them.")
    note(f"Starting Spark ({master}) with {request.workers} workers in its tasks ...")
    with spark_session("stretto-serve", master) as spark:
        app = made(found, spark)
        _check_entities(app)
        with Cluster.on_spark(spark, workers=request.workers, parked=request.parked) as cluster, controlled(cluster):
            job = cluster.submit(app, checkpoint=request.checkpoint, every=request.every)
            while job.status is not JobStatus.RUNNING and not job.status.ended:
                time.sleep(POLL_S)
            if not job.status.ended:
                _serve(job, request, listener)
            if job.status.ended:
                job.wait(0)
            job.stop()


def _serve(entities: Job | InProcess, request: ServeRequest, listener: socket.socket) -> None:
    secret = new_secret() if request.token or not is_loopback(listener) else None
    limits = Limits(call_s=request.timeout_s)
    try:
        with serving(entities, listener, secret, limits) as server:
            typer.echo(f"Serving {entities.name} at {server.url}")
            if secret is not None:
                typer.echo(f"Token: {secret}")
            _watch(server, entities)
            if not server.runs:
                raise ClusterError("the server has failed", "its log says why")
    except KeyboardInterrupt:
        note(f"Served {server.answered:,} requests.")


def _watch(server: Server, entities: Job | InProcess) -> None:
    """Wait for the end of the server or of the job, and say what happens to the job."""
    said = JobStatus.RUNNING
    while server.runs:
        if isinstance(entities, Job):
            if entities.status.ended:
                return
            if entities.status is not said:
                said = entities.status
                note(f"{entities.name} is {entities.progress}")
        time.sleep(POLL_S)


def _check_entities(app: App) -> None:
    if not app.entities:
        raise UserError(
            f"app '{app.name}' has no entities",
            "what is served are their methods",
            "Declare them: App(name, entities=[...]).",
        )


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt for the time of a `with` block, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
