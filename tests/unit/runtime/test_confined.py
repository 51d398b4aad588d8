"""Paths that lead out of a directory: as they are written, or by links. Nothing outside is read, moved or removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import fs

from stretto.checkpoints.manifest import Manifest
from stretto.checkpoints.store import CheckpointStore
from stretto.errors import DamagedError, StorageError
from stretto.runtime.confined import confined
from stretto.runtime.storage import LocalFiles, RemoteFiles

LEADING_OUT = ["../outside/secret", "/etc/passwd", "a/../../outside/secret", "..", ".", "", "a//b", "a\0b", "\ud800"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def uses(files: LocalFiles | RemoteFiles) -> list[Callable[[str], object]]:
    return [
        files.read,
        files.names,
        lambda path: files.create(path, [b"x"]),
        lambda path: files.write(path, [b"planted"]),
        lambda path: files.delete([path]),
    ]


def test_paths_as_they_are_written(root: Path) -> None:
    for files in (LocalFiles(str(root)), RemoteFiles(fs.LocalFileSystem(), str(root), None)):
        for path in LEADING_OUT:
            for use in uses(files):
                with pytest.raises(DamagedError) as refused:
                    use(path)
                assert f"{path!r} is not a path within {root}" in str(refused.value)
    assert {path.name for path in root.parent.rglob("*")} == {"outside", "root", "secret"}


@pytest.mark.parametrize("number", range(5))
def test_a_directory_that_is_a_link_to_outside(root: Path, number: int) -> None:
    (root / "data").symlink_to(root.parent / "outside")
    path = "data" if number == 1 else "data/secret"
    with pytest.raises(DamagedError, match=f"'{path}' is not a path within .*: links lead to .*outside"):
        uses(LocalFiles(str(root)))[number](path)
    assert (root.parent / "outside" / "secret").read_bytes() == b"secret"


def test_a_file_that_is_a_link_to_outside_is_not_read_and_only_the_link_is_removed(root: Path) -> None:
    files = LocalFiles(str(root))
    (root / "data").mkdir()
    for name in ("read", "replaced", "removed"):
        (root / "data" / name).symlink_to(root.parent / "outside" / "secret")
    with pytest.raises(DamagedError, match="'data/read' is not a path within"):
        files.read("data/read")
    files.write("data/replaced", [b"ours"])
    files.delete(["data/removed"])
    assert sorted(files.names("data")) == ["read", "replaced"]
    assert (root.parent / "outside" / "secret").read_bytes() == b"secret"


def test_links_that_stay_within_are_followed(root: Path) -> None:
    (root.parent / "alias").symlink_to(root)
    files = LocalFiles(str(root.parent / "alias"))
    files.write("other/x", [b"x"])
    (root / "data").symlink_to(root / "other")
    assert files.names("data") == ["x"]
    assert files.read("data/x") == b"x"
    assert confined(root.parent / "alias", "data/x", followed=True) == root.parent / "alias" / "data" / "x"


def test_old_snapshots_behind_a_link_to_outside_are_not_removed(root: Path) -> None:
    victim = root.parent / "outside" / "000001" / "app" / "000001" / "count-0.arrow"
    victim.parent.mkdir(parents=True)
    victim.write_bytes(b"somebody's")
    (root / "data").symlink_to(root.parent / "outside")
    store = CheckpointStore(LocalFiles(str(root)), 2)
    with pytest.raises(StorageError, match="links lead to"):
        store.sweep([Manifest("app", 2, {})])
    assert victim.exists()
