"""A worker inside a Spark task: what the closure carries, the loop, and the pulse thread, which notices a driver's end
and a run that does not return."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from stretto.actors.deployment import Deployment
from stretto.protocol.membership import COORDINATOR, Join, Member, MemberRole
from stretto.runtime import code_store
from stretto.runtime.connections import PULSE, Connections, routing_id
from stretto.runtime.descriptors import raise_descriptor_limit
from stretto.runtime.driver_link import DRIVER_SILENCE_S, DriverLink
from stretto.runtime.entities.code import EntityCode
from stretto.runtime.garbage import calm_garbage_collector
from stretto.runtime.keys import KeyPair
from stretto.runtime.outward import OutwardTransport
from stretto.runtime.process_guard import Ending, run_guarded
from stretto.runtime.run_note import RunNote
from stretto.runtime.run_watch import RunWatch
from stretto.runtime.transport import Transport
from stretto.runtime.worker_loop import WorkerLoop
from stretto.scheduling.policies import policy_named
from stretto.scheduling.strategies import strategy_named
from stretto.transactions.catalog import Catalog
from stretto.worker.machine import Worker

log = logging.getLogger("stretto.worker")

PULSE_EVERY_S = 0.5


@dataclass(frozen=True)
class WorkerSettings:
    """All that a worker needs to join its cluster; sent inside Spark's closure."""

    cluster: str
    member: str
    keys: KeyPair
    coordinator_endpoint: str
    coordinator_key: str
    code_directory: str
    role: MemberRole = MemberRole.WORKER
    policy: str = "llf"
    strategy: str = "reject"
    driver_silence_s: float = DRIVER_SILENCE_S


def host_worker(settings: WorkerSettings, rows: Iterable[object]) -> Iterator[Ending]:
    """The body of a worker's Spark task: returns when the worker leaves its cluster."""
    for _ in rows:
        pass  # Spark does not reuse the Python process of a task that leaves input unread.
    yield run_guarded(partial(_work, settings))


def _work(settings: WorkerSettings, note: RunNote) -> str:
    """All of a worker's process: the loop, and the thread with its pulse."""
    stop_pulse = threading.Event()
    arguments = (settings, stop_pulse, os.getppid(), note)
    pulse = threading.Thread(target=_pulse, args=arguments, daemon=True, name="stretto-pulse")
    pulse.start()
    try:
        with calm_garbage_collector():
            return run_worker(settings, note)
    finally:
        stop_pulse.set()
        pulse.join()


def machine_for(settings: WorkerSettings) -> Worker:
    """Returns a worker machine with the policy and the strategy of its cluster."""
    return Worker(settings.member, policy=policy_named(settings.policy), strategy=strategy_named(settings.strategy))


def run_worker(settings: WorkerSettings, note: RunNote) -> str:
    """Joins the cluster and works until it leaves; returns the reason."""
    raise_descriptor_limit()
    host = own_address(settings.coordinator_endpoint)
    machine = machine_for(settings)
    transport = _transport(settings, host)
    load = partial(_load, settings.code_directory)
    load_entities = partial(_load_entities, settings.code_directory)
    loop = WorkerLoop(machine, transport, load, note=note, load_entities=load_entities)
    try:
        transport.connect_coordinator(settings.coordinator_endpoint, settings.coordinator_key)
        transport.send(COORDINATOR, Join(membership(settings, transport, host)))
        return loop.run()
    finally:
        loop.close()


def _transport(settings: WorkerSettings, host: str) -> Connections:
    """Returns the connections of a worker: those of a transient one have no open port."""
    if settings.role is MemberRole.TRANSIENT:
        return OutwardTransport(settings.cluster, settings.member, settings.keys)
    return Transport(settings.cluster, settings.member, settings.keys, host)


def _load(directory: str, job: str, digest: str) -> Deployment:
    return code_store.load(directory, digest)


def _load_entities(directory: str, digest: str) -> Catalog:
    code: EntityCode = code_store.load_any(directory, digest)
    return code.catalog()


def membership(settings: WorkerSettings, transport: Connections, host: str) -> Member:
    return Member(settings.member, transport.endpoint, settings.keys.public, host, os.getpid(), settings.role)


def own_address(coordinator_endpoint: str) -> str:
    """Returns the address of this machine that faces the coordinator: loopback in local mode, never all interfaces."""
    host, port = coordinator_endpoint.removeprefix("tcp://").rsplit(":", 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, int(port)))  # A datagram socket sends nothing here; it only selects the route.
        return str(probe.getsockname()[0])


def _pulse(settings: WorkerSettings, stop: threading.Event, parent: int, note: RunNote) -> None:
    """Sends heartbeats to the coordinator, reports a run that does not return, and ends the process when the driver has
    gone.

    It runs in its own thread, because a user's function may keep the loop busy for longer than the timeout of a
    heartbeat.
    """
    identity = routing_id(settings.cluster, settings.member, PULSE)
    driver = DriverLink(
        settings.member,
        settings.coordinator_endpoint,
        settings.coordinator_key,
        settings.keys,
        identity,
        settings.driver_silence_s,
    )
    watch = RunWatch(note, threading.main_thread().ident)
    while not stop.is_set():
        driver.beat()
        if (stuck := watch.stuck(time.monotonic_ns())) is not None:
            driver.send(stuck)
        if driver.answered(PULSE_EVERY_S):
            stop.wait(PULSE_EVERY_S)
        if driver.is_gone() or os.getppid() != parent:
            reason = f"the driver has been gone for {driver.silent_s:.0f} s"
            log.error("%s leaves: %s", settings.member, reason)
            note.leave(reason)
            os._exit(1)
    driver.close()
