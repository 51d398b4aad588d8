"""What the driver passes to the coordinator and the workers about an app's checkpoints."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import pytest

from stretto.actors.deployment import Deployment
from stretto.checkpoints.manifest import Manifest
from stretto.checkpoints.store import CheckpointStore
from stretto.errors import DamagedError, TakenOverError
from stretto.runtime.checkpoint_plans import Wish, opened_checkpoints
from stretto.runtime.storage import store_at


def test_a_relative_directory_is_the_same_place_to_workers_that_run_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, plan = opened_checkpoints("app", Deployment("app", {}), Wish("checkpoints", None, 3))
    assert plan.storage.uri == str(tmp_path / "checkpoints")


def committed(store: CheckpointStore, savepoint: Manifest) -> None:
    store.commit(savepoint)
    store.save(savepoint)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damaged", ["savepoints/before.json"])
def test_damage_to_what_is_not_asked_for_is_reported_and_the_app_starts(
    tmp_path: Path, damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_at(str(tmp_path))
    store.claim()
    committed(store, Manifest("app", 1, {}, "before"))
    store.commit(Manifest("app", 2, {}))
    flip(tmp_path / damaged)
    with caplog.at_level(logging.WARNING):
        _, plan = opened_checkpoints("app", Deployment("app", {}), Wish(str(tmp_path), None, 3))
    assert plan.manifests[-1].checkpoint == 2
    (warning,) = caplog.messages
    assert f"the manifest {damaged} is damaged" in warning


def test_a_damaged_savepoint_that_is_asked_for_is_refused(tmp_path: Path) -> None:
    store = store_at(str(tmp_path))
    store.claim()
    committed(store, Manifest("app", 1, {}, "before"))
    flip(tmp_path / "savepoints/before.json")
    with pytest.raises(DamagedError, match=r"the manifest savepoints/before\.json is damaged"):
        opened_checkpoints("app", Deployment("app", {}), Wish(str(tmp_path), None, 3, "before"))


def test_checkpoints_are_for_their_user_alone(tmp_path: Path) -> None:
    root = tmp_path / "above" / "checkpoints"
    store, _ = opened_checkpoints("app", Deployment("app", {}), Wish(str(root), None, 3))
    committed(store, Manifest("app", 1, {}, "before"))
    made = [root, *root.rglob("*")]
    assert {path.name for path in made} >= {"log", "000000001.json", "savepoints", "before.json"}
    for path in made:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert stat.S_IMODE(root.parent.stat().st_mode) != 0o700  # Not of the checkpoints: as the umask says.


def test_a_driver_that_is_replaced_while_it_starts_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def removed(store: CheckpointStore) -> None:
        store_at(str(tmp_path)).claim("process 2", "other")
        raise DamagedError("cannot read log/000000002.json", "there is no such file")

    monkeypatch.setattr(CheckpointStore, "manifests", removed)
    with pytest.raises(TakenOverError, match="process 2"):
        opened_checkpoints("app", Deployment("app", {}), Wish(str(tmp_path), None, 3))


def test_a_checkpoint_before_a_damaged_one_becomes_the_last(tmp_path: Path) -> None:
    """It is resumed from, so nobody may resume from the damaged one any more, even if it becomes readable again."""
    store = store_at(str(tmp_path))
    store.claim()
    for number in (1, 2):
        store.commit(Manifest("app", number, {}))
    last = max((tmp_path / "log").iterdir())
    whole = last.read_bytes()
    last.write_bytes(whole[:-1])
    _, plan = opened_checkpoints("app", Deployment("app", {}), Wish(str(tmp_path), None, 3, drop_state=True))
    last.write_bytes(whole)
    assert [manifest.checkpoint for manifest in plan.manifests] == [1]
    assert [manifest.checkpoint for manifest in store_at(str(tmp_path)).manifests()[0]] == [1]
