"""The log of a checkpoint directory: one driver at a time can commit, whatever the others do, and when."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from stretto.checkpoints.manifest import Manifest
from stretto.checkpoints.store import CheckpointStore, Files
from stretto.errors import RemovedError, StorageError, TakenOverError
from stretto.runtime.storage import LocalFiles
from stretto.simulator.engine.storage import SimulatedFiles

OPERATIONS_MAX = 12
"""More than a claim or a commit needs."""


def taken(checkpoint: int) -> Manifest:
    return Manifest("app", checkpoint, {})


def owned(files: Files, by: str = "") -> CheckpointStore:
    store = CheckpointStore(files)
    store.claim(by, by)
    return store


def numbers(store: CheckpointStore) -> list[int]:
    return [manifest.checkpoint for manifest in store.manifests()[0]]


class Interrupted:
    """Files whose user is stopped before operation `number` from now on, while something happens."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._left = 0

    def interrupt(self, number: int, happen: Callable[[], object]) -> None:
        self._left = number
        self._happen = happen

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._happen()

    def create(self, path: str, parts: Sequence[Any]) -> bool:
        self._count()
        return self._files.create(path, parts)

    def write(self, path: str, parts: Sequence[Any]) -> None:
        self._count()
        self._files.write(path, parts)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self._count()
        return self._files.read(path, offset, length)

    def names(self, directory: str) -> list[str]:
        self._count()
        return self._files.names(directory)

    def delete(self, paths: Iterable[str]) -> None:
        self._count()
        self._files.delete(paths)


def test_a_driver_that_was_replaced_cannot_commit(files: Files) -> None:
    one = owned(files, "process 1")
    one.commit(taken(1))
    other = owned(files, "process 2")
    assert numbers(other) == [1]
    for _ in range(2):
        with pytest.raises(TakenOverError, match="process 2"):
            one.commit(taken(2))
    other.commit(taken(2))
    with pytest.raises(TakenOverError, match="process 2"):
        one.commit(taken(7))  # Its number is greater, but it is not the owner.
    with pytest.raises(TakenOverError, match="process 2"):
        one.check_owner()
    other.check_owner()
    assert numbers(CheckpointStore(files)) == [1, 2]


def test_what_an_owner_commits_stays_out_of_reach_after_old_entries_are_removed(files: Files) -> None:
    """Places that become free must not let a driver in that was paused for long."""
    one = owned(files)
    one.commit(taken(1))
    other = owned(files)
    other.manifests()
    for number in range(2, 9):
        other.commit(taken(number))
        other.prune([taken(number)])
    with pytest.raises(TakenOverError):
        one.commit(taken(2))
    assert numbers(CheckpointStore(files)) == [8]


@pytest.mark.parametrize("number", range(1, OPERATIONS_MAX))
def test_a_claim_in_the_middle_of_a_commit(number: int) -> None:
    """Either the commit comes first and the new owner resumes from it, or it fails."""
    files = SimulatedFiles()
    interrupted = Interrupted(files)
    one, other = owned(interrupted), CheckpointStore(files)
    one.commit(taken(1))
    seen: list[list[int]] = []

    def take_over() -> None:
        other.claim("", "other")
        seen.append(numbers(other))

    interrupted.interrupt(number, take_over)
    try:
        one.commit(taken(2))
    except TakenOverError:
        assert seen == [[1]]
    else:
        assert seen in ([], [[1, 2]])
    if seen:
        assert numbers(CheckpointStore(files)) == seen[0]


@pytest.mark.parametrize("number", range(1, OPERATIONS_MAX))
@pytest.mark.parametrize("commits", [1, 2, 5])
def test_commits_in_the_middle_of_a_claim(number: int, commits: int) -> None:
    """What the owner commits meanwhile, and removes, does not make the new owner miss anything."""
    files = SimulatedFiles()
    one = owned(files)
    committed = [1]
    one.commit(taken(1))

    def go_on() -> None:
        try:
            for _ in range(commits):
                one.commit(taken(committed[-1] + 1))
                committed.append(committed[-1] + 1)
                one.prune([taken(committed[-1])])
        except TakenOverError:
            pass

    interrupted = Interrupted(files)
    interrupted.interrupt(number, go_on)
    other = owned(interrupted)
    assert numbers(other) == committed[-1:]
    with pytest.raises(TakenOverError):
        one.commit(taken(committed[-1] + 1))
    other.commit(taken(committed[-1] + 1))


@pytest.mark.parametrize("number", range(1, OPERATIONS_MAX))
def test_a_claim_in_the_middle_of_another(number: int) -> None:
    files = SimulatedFiles()
    interrupted = Interrupted(files)
    one, other = CheckpointStore(interrupted), CheckpointStore(files)
    interrupted.interrupt(number, lambda: other.claim("process 2", "other"))
    try:
        one.claim("process 1", "one")
    except TakenOverError:
        other.check_owner()
    else:
        if other.owner:
            assert other.owner < one.owner
            with pytest.raises(TakenOverError, match="process 1"):
                other.commit(taken(1))


def test_of_many_that_claim_at_once_one_is_the_owner(files: Files) -> None:
    claimers, rounds = 8, 10
    barrier = threading.Barrier(claimers)

    def claims(number: int) -> list[CheckpointStore]:
        found = []
        for turn in range(rounds):
            barrier.wait()
            store = CheckpointStore(files)
            try:
                store.claim("", f"{number} in turn {turn}")
            except TakenOverError:
                continue
            found.append(store)
        return found

    with ThreadPoolExecutor(claimers) as pool:
        stores = [store for found in pool.map(claims, range(claimers)) for store in found]
    owners = sorted(store.owner for store in stores)
    assert len(set(owners)) == len(owners)
    for store in stores:
        if store.owner == owners[-1]:
            store.commit(taken(1))
        else:
            with pytest.raises(TakenOverError):
                store.commit(taken(1))


class Forgetful(SimulatedFiles):
    """Storage that loses the answers to some requests. A `late` request is carried out after the next one."""

    loses = False
    late = False

    def create(self, path: str, parts: Sequence[Any]) -> bool:
        if not self.loses:
            return super().create(path, parts)
        self.loses = False
        if self.late:
            self._waiting = (path, parts)
        else:
            super().create(path, parts)
        raise StorageError("no answer")

    def catch_up(self) -> None:
        super().create(*self._waiting)


def test_a_commit_whose_answer_was_lost_counts() -> None:
    files = Forgetful()
    store = owned(files)
    files.loses = True
    store.commit(taken(1))
    store.commit(taken(2))
    assert numbers(store) == [1, 2]


def test_a_commit_that_arrives_late_is_no_claim() -> None:
    files = Forgetful()
    store = owned(files)
    files.loses = files.late = True
    with pytest.raises(StorageError, match="no answer"):
        store.commit(taken(1))
    files.catch_up()
    store.commit(taken(2))
    assert numbers(store) == [1, 2]


def test_checkpoints_that_were_removed_are_not_taken_over(tmp_path: Path) -> None:
    store = owned(LocalFiles(str(tmp_path / "c")))
    store.commit(taken(1))
    shutil.rmtree(tmp_path / "c")
    for act in (lambda: store.commit(taken(2)), store.check_owner):
        with pytest.raises(RemovedError, match="somebody has removed the checkpoints"):
            act()


def test_another_driver_that_begins_where_the_checkpoints_were_has_taken_over(tmp_path: Path) -> None:
    one = owned(LocalFiles(str(tmp_path / "c")), "process 1")
    shutil.rmtree(tmp_path / "c")
    owned(LocalFiles(str(tmp_path / "c")), "process 2")
    with pytest.raises(TakenOverError, match="process 2"):
        one.commit(taken(1))


def test_a_damaged_claim_still_fences() -> None:
    files = SimulatedFiles()
    one = owned(files)
    other = owned(files)
    for path in ("log/000000001.json", "log/000000002.json"):
        files.contents[path] = files.contents[path][:-9]
    other.commit(taken(1))
    with pytest.raises(TakenOverError):
        one.commit(taken(1))


def test_checkpoints_without_a_log_are_refused() -> None:
    files = SimulatedFiles()
    files.write("owners/000001", [])
    with pytest.raises(StorageError, match="earlier version"):
        owned(files)


def test_a_file_system_without_hard_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", link)
    with pytest.raises(StorageError, match="has no hard links"):
        owned(LocalFiles(str(tmp_path)))
    assert not list((tmp_path / "log").iterdir())
