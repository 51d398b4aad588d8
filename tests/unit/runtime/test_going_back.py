"""An app whose rows have called entities, or that reads what they emit, does not go back behind its last checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from stretto.actors.deployment import Deployment
from stretto.actors.shape import FunctionShape
from stretto.checkpoints.manifest import ActorRecord, Manifest
from stretto.checkpoints.store import CheckpointStore
from stretto.errors import StorageError
from stretto.runtime.checkpoint_plans import Wish, opened_checkpoints
from stretto.runtime.storage import store_at


def taken(store: CheckpointStore, checkpoint: int, calls: bool, savepoint: str | None, emitted: bool) -> None:
    shapes = {"calls": FunctionShape("calls", 1, calls=calls, emitted=emitted)}
    manifest = Manifest("bank", checkpoint, {"calls": [ActorRecord(finished=True)]}, savepoint, shapes=shapes)
    store.commit(manifest)
    if savepoint is not None:
        store.save(manifest)


def directory_with(path: Path, calls: bool, emitted: bool = False) -> Path:
    store = store_at(str(path))
    store.claim("a driver", "1")
    store.lineage("0123abcd")
    taken(store, 1, calls, "before", emitted)
    taken(store, 2, calls, None, emitted)
    taken(store, 3, calls, "last", emitted)
    return path


def start(path: Path, savepoint: str | None) -> int:
    _, plan = opened_checkpoints("bank", Deployment("bank", {}), Wish(str(path), "1 s", 3, savepoint, True))
    return plan.manifests[-1].checkpoint


def test_an_earlier_savepoint_is_refused_and_the_last_one_is_not(tmp_path: Path) -> None:
    path = directory_with(tmp_path / "calls", calls=True)
    with pytest.raises(StorageError, match="cannot go back to savepoint 'before'") as refused:
        start(path, "before")
    assert "'calls' has called entities since" in str(refused.value)
    assert start(path, "last") == 3
    assert start(path, None) == 3
    assert start(directory_with(tmp_path / "plain", calls=False), "before") == 1


def test_what_was_emitted_before_the_last_checkpoint_is_not_kept(tmp_path: Path) -> None:
    path = directory_with(tmp_path / "reads", calls=False, emitted=True)
    with pytest.raises(StorageError, match="cannot go back to savepoint 'before'") as refused:
        start(path, "before")
    assert "what entities had emitted into 'calls' before its last checkpoint is not kept" in str(refused.value)
    assert start(path, "last") == 3


def test_a_damaged_last_checkpoint_is_not_passed_over(tmp_path: Path) -> None:
    path = directory_with(tmp_path / "calls", calls=True)
    last = sorted((path / "log").iterdir())[-1]
    last.write_bytes(last.read_bytes()[:-5])
    with pytest.raises(StorageError, match="cannot go back to checkpoint 2, as a later one is damaged"):
        start(path, None)
