"""What a submitted app resumes from: its storage is claimed, and the last checkpoint must fit the app."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from stretto.actors.deployment import Deployment
from stretto.actors.shape import FunctionShape, shapes_of
from stretto.checkpoints.fitting import check_fit
from stretto.checkpoints.manifest import Manifest, Storage
from stretto.checkpoints.store import CheckpointStore
from stretto.coordinator.events import CheckpointPlan
from stretto.errors import DamagedError, StorageError, UserError
from stretto.operators.ends import SinkFunction
from stretto.operators.windows import Duration, duration_us
from stretto.runtime.storage import absolute, store_at

log = logging.getLogger("stretto.checkpoints")


@dataclass(frozen=True)
class Wish:
    """The user's options: the directory, the interval, how many checkpoints to keep, and the savepoint to resume from,
    if any."""

    uri: str
    every: Duration | None
    keep: int
    start: str | None = None
    drop_state: bool = False
    """Whether the state of removed functions may be dropped."""

    @property
    def interval_us(self) -> int | None:
        interval_us = None if self.every is None else duration_us(self.every, "the interval of checkpoints")
        if self.keep < 1 or (interval_us is not None and interval_us <= 0):
            detail = f"every {self.every}, keep {self.keep}"
            raise UserError("checkpoints need a positive interval, and at least one must be kept", detail)
        return interval_us


def opened_checkpoints(app: str, deployment: Deployment, wish: Wish) -> tuple[CheckpointStore, CheckpointPlan]:
    """Returns the storage of an app's checkpoints, with this driver as its owner, and the plan for the coordinator."""
    interval_us, uri = wish.interval_us, absolute(wish.uri)
    store = store_at(uri)
    store.claim(f"process {os.getpid()} on {socket.gethostname()}", secrets.token_hex(8))
    try:
        manifests, checkpoint = _resumed_from(app, deployment, wish, store)
        lineage = store.lineage(secrets.token_hex(4))
    except UserError:
        store.check_owner()  # What is in the way, or missing, may be the doing of another driver.
        raise
    interval_ns = None if interval_us is None else interval_us * 1_000
    storage = Storage(uri, store.owner, lineage)
    return store, CheckpointPlan(storage, interval_ns, wish.keep, tuple(manifests[-wish.keep :]), checkpoint)


def check_needs_none(deployment: Deployment) -> None:
    """Raises a UserError if a sink of a job without checkpoints cannot write without them."""
    for name, spec in deployment.functions.items():
        if isinstance(spec.function, SinkFunction) and spec.function.irrevocable:
            raise UserError(
                f"sink '{name}' needs checkpoints",
                f"{spec.function.sink.describe()}: its rows are committed with them",
                "Submit the app with checkpoint=, or use another sink (of Kafka: guarantee='at-least-once').",
            )


def _resumed_from(app: str, deployment: Deployment, wish: Wish, store: CheckpointStore) -> tuple[list[Manifest], int]:
    """Returns the checkpoints to resume from, the last one last, and the number of the last one that was taken."""
    manifests, wrong = store.manifests()
    for reason in wrong:
        log.warning("%s; this checkpoint is not used", reason)
    if any(manifest.entities is not None for manifest in manifests):
        raise StorageError(
            f"{absolute(wish.uri)} has snapshots of entities",
            f"they are of app '{manifests[-1].app}', and app '{app}' has streams",
            "Use a directory of its own.",
        )
    checkpoint = max((manifest.checkpoint for manifest in manifests), default=0)
    last = manifests[-1] if manifests else None
    if wish.start is not None:
        manifests = [store.savepoint(wish.start)]
        if last is not None and (wrong or last.checkpoint > manifests[0].checkpoint):
            _check_goes_back(app, last, f"savepoint '{wish.start}'")
    elif wrong and not manifests:
        where = absolute(wish.uri)
        raise DamagedError(f"no checkpoint in {where} can be read", wrong[-1], "Start the app in another directory.")
    elif wrong and last is not None:
        _check_goes_back(app, last, f"checkpoint {last.checkpoint}, as a later one is damaged")
    new = list(deployment.functions)
    if manifests:
        shapes = shapes_of(deployment)
        new = check_fit(app, shapes, manifests[-1], wish.drop_state)
        manifests = [manifest for manifest in manifests if _fits(app, shapes, manifest, wish.drop_state)]
        if wish.start is not None or wrong:
            store.go_back(manifests)
        for reason in store.sweep(manifests):
            log.warning("%s; this savepoint cannot be started from, and the files of earlier runs stay", reason)
        for name in new:
            log.info("function '%s' of app '%s' is not in its checkpoint, and starts empty", name, app)
    for name in new:
        function = deployment.functions[name].function
        if isinstance(function, SinkFunction):
            function.sink.check_fresh()
    return manifests, checkpoint


def _check_goes_back(app: str, last: Manifest, where: str) -> None:
    """Raises a StorageError if what the app has done since the checkpoint that it is to go back to cannot be undone:
    it has called entities, has read what they emit, or has written where nothing can be withdrawn."""
    callers = sorted(name for name, shape in last.shapes.items() if shape.calls)
    if callers:
        raise StorageError(
            f"app '{app}' cannot go back to {where}",
            f"'{callers[0]}' has called entities since, and would call them again for the same rows",
            "Resume from the last checkpoint, or start in another directory, with entities as they were then.",
        )
    readers = sorted(name for name, shape in last.shapes.items() if shape.emitted)
    if readers:
        raise StorageError(
            f"app '{app}' cannot go back to {where}",
            f"what entities had emitted into '{readers[0]}' before its last checkpoint is not kept",
            "Resume from the last checkpoint, or start in another directory, with entities as they were then.",
        )
    written = sorted(name for name, shape in last.shapes.items() if shape.irrevocable)
    if written:
        raise StorageError(
            f"app '{app}' cannot go back to {where}",
            f"what '{written[0]}' has written since would stay, and would be written again",
            "Resume from the last checkpoint, or start in another directory, with another place for its output.",
        )


def _fits(app: str, shapes: Mapping[str, FunctionShape], manifest: Manifest, drop_state: bool) -> bool:
    """Whether an earlier checkpoint, a fallback if the last one cannot be read, fits the app."""
    try:
        check_fit(app, shapes, manifest, drop_state)
    except StorageError:
        return False
    return True
