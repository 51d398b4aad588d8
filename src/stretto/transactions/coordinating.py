"""The coordinator's part: attempts, and snapshots that are complete. Transactions do not pass through it.

An attempt begins when all workers are there and one of them is new. It ends what was before it: all workers go back to
the last complete snapshot, and replay the epochs whose cut is in every log. Only of these can a client have a reply.
"""

from __future__ import annotations

from stretto.errors import ProtocolError
from stretto.protocol.machines import FrameArrived, Send
from stretto.protocol.transactions import Piece, Proceed, Resume, Resumed, SnapshotKept, SnapshotTaken
from stretto.transactions.events import (
    CoordinatorEffect,
    CoordinatorEvent,
    Manifest,
    ManifestWritten,
    WorkerDown,
    WorkerUp,
    WriteManifest,
)


class TransactionCoordinator:
    """The coordinator of these workers. `attempt` is greater than that of any coordinator before it."""

    def __init__(self, workers: list[str], attempt: int, manifest: Manifest | None) -> None:
        self._workers = workers
        self._attempt = attempt
        self._manifest = manifest or Manifest(0, [[] for _ in workers])
        self._up: set[str] = set()
        self._resumed: dict[str, int] = {}
        self._taken: dict[int, dict[str, list[Piece]]] = {}
        self._effects: list[CoordinatorEffect] = []

    @property
    def attempt(self) -> int:
        """The attempt that has begun last."""
        return self._attempt

    @property
    def has_begun(self) -> bool:
        """Whether all workers have been told to proceed in this attempt."""
        return len(self._resumed) == len(self._workers)

    def handle(self, event: CoordinatorEvent) -> list[CoordinatorEffect]:
        match event:
            case WorkerUp(worker):
                self._up.add(worker)
                self._begin()
            case WorkerDown(worker):
                self._up.discard(worker)
            case ManifestWritten(manifest):
                self._written(manifest)
            case FrameArrived(sender, Resumed(attempt, epoch)):
                if attempt == self._attempt:
                    self._on_resumed(sender, epoch)
            case FrameArrived(sender, SnapshotTaken(attempt, epoch, pieces)):
                if attempt == self._attempt:
                    self._on_taken(sender, epoch, pieces)
            case _:
                raise ProtocolError("a coordinator of transactions cannot handle this", type(event).__name__)
        effects, self._effects = self._effects, []
        return effects

    def _begin(self) -> None:
        if not self._up.issuperset(self._workers):
            return
        self._attempt += 1
        self._resumed, self._taken = {}, {}
        for worker, pieces in zip(self._workers, self._manifest.pieces, strict=True):
            self._effects.append(Send(worker, Resume(self._attempt, self._workers, pieces)))

    def _on_resumed(self, worker: str, epoch: int) -> None:
        self._resumed[worker] = epoch
        if self.has_begun:
            proceed = Proceed(self._attempt, min(self._resumed.values()))
            self._effects += [Send(each, proceed) for each in self._workers]

    def _on_taken(self, worker: str, epoch: int, pieces: list[Piece]) -> None:
        taken = self._taken.setdefault(epoch, {})
        taken[worker] = pieces
        if len(taken) == len(self._workers):
            manifest = Manifest(epoch, [taken[each] for each in self._workers])
            self._effects.append(WriteManifest(manifest))

    def _written(self, manifest: Manifest) -> None:
        """It may be one of an earlier attempt: its epoch had a cut in every log, so it counts all the same."""
        if manifest.epoch > self._manifest.epoch:
            self._manifest = manifest
            kept = SnapshotKept(self._attempt, manifest.epoch)
            self._effects += [Send(each, kept) for each in self._workers]
