"""What the driver passes to the coordinator and the workers about an app's checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from stretto.actors.deployment import Deployment
from stretto.runtime.checkpoint_plans import Wish, opened_checkpoints


def test_a_relative_directory_is_the_same_place_to_workers_that_run_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, plan = opened_checkpoints("app", Deployment("app", {}), Wish("checkpoints", None, 3))
    assert plan.storage.uri == str(tmp_path / "checkpoints")
