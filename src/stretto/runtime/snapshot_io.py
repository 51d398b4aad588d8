"""Writes and reads snapshots in another thread; the outcome comes back as an event for the machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from stretto.checkpoints.manifest import Storage
from stretto.checkpoints.store import CheckpointStore
from stretto.errors import DamagedError, StorageError
from stretto.rendering import error_text, message_of
from stretto.runtime.event_pipe import EventPipe
from stretto.runtime.storage import store_at
from stretto.worker.events import Event, FetchFailed, FetchSnapshots, SnapshotFailed, SnapshotStored, StoreSnapshot


class SnapshotIO:
    """One thread, so that the snapshots of an actor are written in their order. `fd` is readable when there are
    `events`."""

    def __init__(self) -> None:
        self._pipe: EventPipe[Event] = EventPipe()
        self.fd = self._pipe.fd
        self.events = self._pipe.events
        self._stores: dict[Storage, CheckpointStore] = {}
        self._pool: ThreadPoolExecutor | None = None

    def begin(self, effect: StoreSnapshot | FetchSnapshots) -> None:
        """Starts the effect; its outcome will be in `events`."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="stretto-snapshots")
        self._pool.submit(self._do, effect)

    def close(self) -> None:
        """Cancels what is still to be written, which is not needed any more."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._pipe.close()

    def _do(self, effect: StoreSnapshot | FetchSnapshots) -> None:
        self._pipe.put(self._store(effect) if isinstance(effect, StoreSnapshot) else self._fetch(effect))

    def _store(self, effect: StoreSnapshot) -> Event:
        checkpoint = effect.snapshot.checkpoint
        try:
            record = self._store_of(effect.storage).store(effect.address, effect.snapshot)
        except Exception as error:
            return SnapshotFailed(effect.address, checkpoint, _reason_of(error))
        return SnapshotStored(effect.address, checkpoint, record)

    def _fetch(self, effect: FetchSnapshots) -> Event:
        try:
            return effect.read_from(self._store_of(effect.storage))
        except Exception as error:
            return FetchFailed(effect.job, _reason_of(error), isinstance(error, DamagedError))

    def _store_of(self, storage: Storage) -> CheckpointStore:
        store = self._stores.get(storage)
        if store is None:
            store = self._stores[storage] = store_at(storage.uri, storage.owner)
        return store


def _reason_of(error: Exception) -> str:
    return message_of(error) if isinstance(error, StorageError) else error_text(error)
