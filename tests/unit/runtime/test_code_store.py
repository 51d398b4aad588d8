"""Code is sent as a file named by its digest; a changed file is not unpickled."""

from __future__ import annotations

import hashlib
import pickle
import stat
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stretto.actors.context import Context
from stretto.actors.deployment import Deployment, FunctionSpec
from stretto.actors.function import Function
from stretto.errors import ClusterError, UserError
from stretto.runtime.code_store import CodeStore, load, local_modules


class Doubling(Function):
    factor = 2

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        """Does nothing; the function is only shipped."""


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def deployment(function: Function) -> Deployment:
    return Deployment("job", {"f": FunctionSpec("f", function, 1)})


def test_a_deployment_comes_back_under_its_digest(tmp_path: Path) -> None:
    store = CodeStore(str(tmp_path / "code"))
    digest = store.put(deployment(Doubling()), [sys.modules[__name__]])
    path = store.directory / digest
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    loaded = load(str(store.directory), digest)
    assert loaded.job == "job"
    assert loaded.functions["f"].function.factor == 2  # type: ignore[attr-defined]
    assert b"factor" in path.read_bytes(), "the class itself was shipped, not just its name"
    store.remove(digest)
    store.remove(digest)
    assert not path.exists()


def test_only_the_owner_can_look_into_the_directory() -> None:
    store = CodeStore(None)
    try:
        assert stat.S_IMODE(store.directory.stat().st_mode) == 0o700
    finally:
        store.close()
    assert not store.directory.exists()


def test_a_directory_of_the_users_is_kept(tmp_path: Path) -> None:
    store = CodeStore(str(tmp_path))
    store.close()
    assert tmp_path.exists()


def test_a_changed_file_is_refused_and_not_unpickled(tmp_path: Path) -> None:
    store = CodeStore(str(tmp_path / "code"))
    digest = store.put(deployment(Doubling()), [])
    (store.directory / digest).write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    with pytest.raises(ClusterError, match="the code of a job does not match its digest"):
        load(str(store.directory), digest)
    assert not (tmp_path / "exploded").exists()


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="No such file or directory") as caught:
        load(str(tmp_path), "0" * 64)
    assert "pass code_dir= to Cluster.on_spark" in str(caught.value)


def test_what_cannot_be_pickled_is_reported_before_anything_is_written(tmp_path: Path) -> None:
    function = Doubling()
    function.lock = threading.Lock()  # type: ignore[attr-defined]
    store = CodeStore(str(tmp_path / "code"))
    with pytest.raises(UserError, match="app 'job' cannot be shipped to the workers: TypeError"):
        store.put(deployment(function), [])
    assert list(store.directory.iterdir()) == []


def test_only_modules_that_a_worker_cannot_import_go_by_value(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = types.ModuleType("mine")
    mine.__file__ = str(tmp_path / "mine.py")
    monkeypatch.setitem(sys.modules, "mine", mine)
    names = {"mine", "json", "pyarrow", "stretto.api.app", "__main__", "builtins", "never.imported"}
    assert local_modules(names) == [mine]
