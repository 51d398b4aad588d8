"""A workload's entities on a cluster: calls go through the job's door, and rows are read from its snapshots."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import psutil

from stretto.api.app import App
from stretto.bench.transactions.service import Fields
from stretto.bench.transactions.workload import Workload
from stretto.errors import ClusterError
from stretto.protocol.transactions import EntityName, Piece, Reply
from stretto.runtime.cluster import Cluster
from stretto.runtime.entities.log_files import AppendableFiles
from stretto.runtime.storage import store_at
from stretto.transactions import snapshots
from stretto.transactions.activation import MadeCall
from stretto.transactions.entity import Entity
from stretto.transactions.place_log import PlaceLog

SNAPSHOT_WAIT_S = 60.0
POLL_S = 0.1


class Nudge(Entity):
    """Snapshots are taken when an epoch ends, so there must be one."""

    async def touch(self) -> None: ...


class OnSpark:
    """The entities of a workload as a job of the cluster, with its log and snapshots in a directory."""

    def __init__(self, cluster: Cluster, workload: Workload, directory: Path) -> None:
        self._cluster = cluster
        self._directory = str(directory)
        app = App(workload.name, entities=[*workload.entities, Nudge])
        self._job = cluster.submit(app, checkpoint=directory)
        self._last_epoch = 0

    def begin(self, made: Any) -> Future[Reply]:
        """Returns the reply of a call, which is there later."""
        return self._job.entity_client.begin(made)

    def map(self, calls: Sequence[MadeCall]) -> list[Reply]:
        return self.replies([self.begin(made) for made in calls])

    def replies(self, futures: Sequence[Future[Reply]]) -> list[Reply]:
        found = [future.result() for future in futures]
        self._last_epoch = max([self._last_epoch, *(reply.epoch for reply in found)])
        return found

    def rows(self, kind: type[Entity]) -> dict[str, Fields]:
        """Returns the entities of a class in the first snapshot that has all that was replied."""
        return {
            name.key: msgspec.msgpack.decode(state)
            for name, state in self._state().items()
            if name.kind == kind.__name__
        }

    def stop(self) -> None:
        self._job.stop()

    @property
    def workers_cpu_s(self) -> float:
        """The processor time of the workers' processes so far."""
        used = [psutil.Process(member.pid).cpu_times() for member in self._cluster.workers]
        return sum(float(each.user + each.system) for each in used)

    def _state(self) -> dict[EntityName, bytes]:
        store = store_at(self._directory)
        ends_s = time.monotonic() + SNAPSHOT_WAIT_S
        while True:
            manifests, _ = store.manifests()
            record = manifests[-1].entities if manifests else None
            if record is not None and record.epoch >= self._last_epoch:
                return self._pieces(record.workers)
            if time.monotonic() > ends_s:
                raise ClusterError(f"no snapshot has epoch {self._last_epoch}", f"{SNAPSHOT_WAIT_S:g} s were waited")
            nudge: Any = Nudge("nudge").touch()
            self.begin(nudge).result()
            time.sleep(POLL_S)

    def _pieces(self, workers: list[list[tuple[int, int]]]) -> dict[EntityName, bytes]:
        found: dict[EntityName, bytes] = {}
        for number, pieces in enumerate(workers, 1):
            place = PlaceLog(AppendableFiles(self._directory), number)
            found.update(snapshots.restored([place.fetch(Piece(*each)) for each in pieces])[1])
        return found
