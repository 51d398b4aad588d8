"""Reads and writes the log of checkpoints in a thread of the driver, and removes old checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from stretto.checkpoints.store import CheckpointStore
from stretto.coordinator.events import AnnounceJob, CommitEntities, Event, PruneCheckpoints, WriteManifest
from stretto.errors import StorageError

log = logging.getLogger("stretto.checkpoints")


class ManifestIO:
    """`stores` has the storage of each job with checkpoints; `report` passes events to the coordinator."""

    def __init__(self, report: Callable[[Event], None]) -> None:
        self.stores: dict[str, CheckpointStore] = {}
        self._report = report
        self._pool: ThreadPoolExecutor | None = None
        self._unannounced: dict[str, Callable[[], None]] = {}
        """By job: announces its failure, which a thread is about to explain."""

    def begin(self, effect: WriteManifest | CommitEntities | PruneCheckpoints) -> None:
        store = self.stores[effect.job]
        if isinstance(effect, PruneCheckpoints):
            self._threads().submit(self._prune, store, effect)
        else:
            self._threads().submit(self._write, store, effect)

    def explain(self, effect: AnnounceJob, announce: Callable[[AnnounceJob], None]) -> None:
        """Announces that a job has failed, after looking whether another driver has taken over its checkpoints."""
        store = self.stores.get(effect.job)
        if store is None:
            announce(effect)
            return
        self._unannounced[effect.job] = lambda: announce(effect)
        self._threads().submit(self._explain, store, effect, announce)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        for announce in list(self._unannounced.values()):
            announce()  # Somebody waits for it.

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="stretto-manifests")
        return self._pool

    def _write(self, store: CheckpointStore, effect: WriteManifest | CommitEntities) -> None:
        try:
            event: Event = effect.write_to(store)
        except Exception as error:
            event = effect.failed(f"{type(error).__name__}: {error}")
        self._report(event)

    def _explain(self, store: CheckpointStore, effect: AnnounceJob, announce: Callable[[AnnounceJob], None]) -> None:
        try:
            effect = effect.explained_by(store)
        except Exception:
            log.exception("the failure of %s could not be explained", effect.job)
        announce(effect)
        del self._unannounced[effect.job]

    def _prune(self, store: CheckpointStore, effect: PruneCheckpoints) -> None:
        try:
            store.prune(effect.kept)
        except StorageError as error:
            log.warning("old checkpoints of %s were not removed: %s", effect.job, error)
