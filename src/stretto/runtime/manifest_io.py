"""Writes the manifests of checkpoints, and removes old ones, in a thread of the driver."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from stretto.checkpoints.store import CheckpointStore
from stretto.coordinator.events import Event, JobLost, ManifestFailed, ManifestWritten, PruneCheckpoints, WriteManifest
from stretto.errors import StorageError
from stretto.protocol.jobs import Failure

log = logging.getLogger("stretto.checkpoints")


class ManifestIO:
    """`stores` has the storage of each job with checkpoints; `report` passes events to the coordinator."""

    def __init__(self, report: Callable[[Event], None]) -> None:
        self.stores: dict[str, CheckpointStore] = {}
        self._report = report
        self._pool: ThreadPoolExecutor | None = None

    def begin(self, effect: WriteManifest | PruneCheckpoints) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="stretto-manifests")
        store = self.stores[effect.job]
        if isinstance(effect, WriteManifest):
            self._pool.submit(self._write, store, effect)
        else:
            self._pool.submit(self._prune, store, effect)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _write(self, store: CheckpointStore, effect: WriteManifest) -> None:
        checkpoint = effect.manifest.checkpoint
        try:
            store.commit(effect.manifest)
            owned = store.is_owner()
        except Exception as error:
            self._report(ManifestFailed(effect.job, checkpoint, str(error)))
            return
        if owned:
            self._report(ManifestWritten(effect.job, checkpoint))
            return
        # The other driver repeats what this one has done since; nothing of it is published here.
        fact = f"another driver has taken over the checkpoints of job '{effect.job}'"
        self._report(JobLost(effect.job, Failure("ClusterError", fact, None, "Run the app from one driver at a time.")))

    def _prune(self, store: CheckpointStore, effect: PruneCheckpoints) -> None:
        try:
            store.prune(effect.kept)
        except StorageError as error:
            log.warning("old checkpoints of %s were not removed: %s", effect.job, error)
