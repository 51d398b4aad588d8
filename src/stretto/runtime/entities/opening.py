"""What an app with entities resumes from: its directory is claimed, and the last snapshot must be of entities."""

from __future__ import annotations

import os
import secrets
import socket

from stretto.actors.deadlines import NEVER_NS
from stretto.checkpoints.store import CheckpointStore
from stretto.coordinator.entities import entity_manifest
from stretto.coordinator.events import EntityPlan
from stretto.errors import DamagedError, StorageError
from stretto.operators.windows import Duration, positive_duration_us
from stretto.protocol.entities import Pace
from stretto.runtime.entities.classes import keep_classes
from stretto.runtime.entities.log_files import check_directory, local_directory
from stretto.runtime.storage import store_at
from stretto.transactions.catalog import Catalog
from stretto.transactions.events import Manifest

EPOCH_NS = 1_000_000
CALLS_MAX = 1_000
"""The most calls of one worker in an epoch. An epoch lasts at least as long as the disk takes for its cut."""
SNAPSHOT_NS = 4_000_000_000
"""The most time between two snapshots: what is in the log since the last one is replayed after a failure."""
ATTEMPTS_MAX = 1 << 20
"""More attempts than one driver has. Those of the next owner of the directory have greater numbers."""


def paced(every: Duration | None, is_kept: bool, keys_kept_us: int) -> Pace:
    """Returns when epochs and snapshots are taken; `every` is the user's interval."""
    snapshot_ns = SNAPSHOT_NS
    if every is not None:
        snapshot_ns = min(snapshot_ns, positive_duration_us(every, "the interval of snapshots") * 1_000)
    return Pace(EPOCH_NS, CALLS_MAX, snapshot_ns if is_kept else NEVER_NS, keys_kept_us)


def opened_entities(app: str, catalog: Catalog, uri: str, places: int) -> tuple[CheckpointStore, EntityPlan]:
    """Returns the storage of an app's entities, with this driver as its owner, and the plan for the coordinator. The
    number of places counts when the directory is new: what is there stays in as many as it was made with."""
    check_directory(uri)
    directory = local_directory(uri)
    store = store_at(directory)
    store.claim(f"process {os.getpid()} on {socket.gethostname()}", secrets.token_hex(8))
    manifests, wrong = store.manifests()
    if wrong:
        raise DamagedError(
            f"the last snapshot in {directory} cannot be read", wrong[-1], "Restore the directory from a backup."
        )
    if not manifests:
        store.commit(entity_manifest(app, 1, Manifest(0, [[] for _ in range(places)])))
        manifests, _ = store.manifests()
    last = manifests[-1]
    if last.entities is None:
        raise StorageError(
            f"{directory} has checkpoints of streams",
            f"they are of app '{last.app}', and app '{app}' has entities",
            "Use a directory of its own.",
        )
    keep_classes(directory, catalog)
    return store, EntityPlan(directory, last, store.owner * ATTEMPTS_MAX)
