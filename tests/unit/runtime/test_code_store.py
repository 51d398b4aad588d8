"""Code is sent as a file named by its digest; a changed file is not unpickled."""

from __future__ import annotations

import errno
import hashlib
import pickle
import shutil
import stat
import sys
import tempfile
import threading
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import msgspec
import pyarrow as pa
import pytest

from stretto.actors.context import Context
from stretto.actors.deployment import Deployment, FunctionSpec
from stretto.actors.function import Function
from stretto.api.memory import MemorySource
from stretto.errors import ClusterError, UserError
from stretto.expressions import compile_scalar
from stretto.operators.ends import SourceFunction
from stretto.operators.join_kinds import JoinKind
from stretto.operators.stateless import StatelessFunction
from stretto.operators.table_join import TableJoin
from stretto.runtime import code_store
from stretto.runtime.code_store import CODE_BYTES_MAX, CodeStore, load, local_modules
from stretto.runtime.shipping import ArrowFiles


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
    digest = store.put(deployment(Doubling()), [sys.modules[__name__]]).digest
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
    digest = store.put(deployment(Doubling()), []).digest
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


SCHEMA = pa.schema([("n", pa.int64()), ("d", pa.decimal128(20, 2)), ("s", pa.string())])


def table(rows: int) -> pa.Table:
    return pa.Table.from_pylist([{"n": n, "d": n, "s": f"row {n}"} for n in range(rows)], SCHEMA)


class Holding(Function):
    """A function that keeps what it is made with."""

    def __init__(self, **kept: Any) -> None:
        self.__dict__.update(kept)


def shipped(store: CodeStore, function: Function) -> Any:
    return load(str(store.directory), store.put(deployment(function), [sys.modules[__name__]]).digest).functions["f"]


@pytest.mark.parametrize("directory", [None, "given"])
def test_the_slices_of_a_table_are_shipped_once_beside_the_code(tmp_path: Path, directory: str | None) -> None:
    store = CodeStore(directory and str(tmp_path / directory))
    try:
        rows = table(20_000)
        source = SourceFunction(MemorySource(rows), None, 0, None, None, 10, 0, SCHEMA)
        stored = store.put(deployment(source), [])
        sizes = {path.name: path.stat().st_size for path in store.directory.iterdir()}
        assert sizes.keys() == {stored.digest, f"{stored.digest}.0.arrow"}
        assert sizes[stored.digest] < 20_000
        assert stored.bytes == sum(sizes.values()) < 1.2 * rows.nbytes
        loaded: Any = load(str(store.directory), stored.digest)
        store.remove(stored.digest)
        assert list(store.directory.iterdir()) == []
        found = loaded.functions["f"].function.source
        assert found.table().equals(MemorySource(rows).table()), "removed files last while they are mapped"
        assert len(found.items) == 20
        assert all(batch.validate(full=True) is None for batch in found.items)
    finally:
        store.close()


def test_data_comes_back_as_it_was(tmp_path: Path) -> None:
    store = CodeStore(str(tmp_path))
    rows = table(100)
    described = rows.replace_schema_metadata({"made": "here"})
    batches = rows.to_batches(max_chunksize=7)
    coded = pa.table({"s": pa.array(["a", "b", "a"]).dictionary_encode()})
    function = Holding(rows=rows, described=described, batches=batches, empty=SCHEMA.empty_table(), coded=coded)
    found = shipped(store, function).function
    assert found.rows.equals(rows)
    assert found.described.schema.equals(described.schema, check_metadata=True)
    assert [batch.equals(other) for batch, other in zip(found.batches, batches, strict=True)] == [True] * 15
    assert found.empty.equals(SCHEMA.empty_table())
    assert found.coded.equals(coded), "a file holds one dictionary only, so these are pickled"


def test_changed_data_is_refused(tmp_path: Path) -> None:
    store = CodeStore(str(tmp_path))
    digest = store.put(deployment(Holding(rows=table(10))), []).digest
    (path,) = tmp_path.glob("*.arrow")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ClusterError, match="the code of a job does not match its digest"):
        load(str(tmp_path), digest)
    path.unlink()
    with pytest.raises(ClusterError, match=r"cannot read the code of a job: .*\.0\.arrow: No such file"):
        load(str(tmp_path), digest)


def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: ArrowFiles, data: object) -> None:
        self._file_of(SCHEMA)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ArrowFiles, "_write", full)
    with pytest.raises(ClusterError, match=r"the code of app 'job' cannot be written: .*: No space left on device"):
        CodeStore(str(tmp_path)).put(deployment(Holding(rows=table(10))), [])
    assert list(tmp_path.iterdir()) == []


def test_code_that_is_too_long_names_the_function_and_leaves_nothing(tmp_path: Path) -> None:
    store = CodeStore(str(tmp_path))
    large = Deployment(
        "job",
        {
            "small": FunctionSpec("small", Doubling(), 1),
            "large": FunctionSpec("large", Holding(rows=table(10), text=b"x" * (CODE_BYTES_MAX + 1)), 1),
        },
    )
    with pytest.raises(UserError) as caught:
        store.put(large, [])
    assert str(caught.value) == (
        "app 'job' is too large to be shipped to the workers: its code has more than 64.0 MB; "
        "function 'large' alone has 64.0 MB\n"
        "  Keep the rows that a function needs in a pyarrow Table, which is not limited, or read a file in open()."
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["this machine's", "network, copied", "network, read"])
def test_a_table_and_its_index_are_mapped(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker has neither the rows of a table nor their index in memory that Arrow allocates; from network storage, as
    Python's bytes if they are small."""
    monkeypatch.setattr(code_store, "FETCHED_BYTES_MAX", 1_000 if kind == "network, copied" else 1 << 30)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = CodeStore(None if kind == "this machine's" else str(tmp_path / "code"))
    try:
        table = pa.table({"k": range(100_000), "word": [f"word {n}" for n in range(100_000)]})
        batch = pa.RecordBatch.from_pydict({"id": [5, 99_999, -1]})
        for key in ("k", "k + 0"):
            keys = [(compile_scalar("id", batch.schema), compile_scalar(key, table.schema))]
            pair = pa.schema([*batch.schema, *table.schema])
            join = TableJoin(table, keys, pair, None, JoinKind.LEFT, sorted_rows=True)
            digest = store.put(deployment(StatelessFunction(join)), []).digest
            before = pa.total_allocated_bytes()
            function = load(str(store.directory), digest).functions["f"].function
            assert isinstance(function, StatelessFunction)
            assert function.transform is not None
            (out,) = function.transform(batch)
            assert out.column("word").to_pylist() == ["word 5", "word 99999", None]
            assert pa.total_allocated_bytes() - before < 100_000
        assert [path.name for path in tmp_path.glob("stretto-data-*")] == []
    finally:
        store.close()


def test_a_full_disk_of_a_worker_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_store, "FETCHED_BYTES_MAX", 100)
    store = CodeStore(str(tmp_path / "code"))
    source = SourceFunction(MemorySource(table(1000)), None, 0, None, None, 10, 0, SCHEMA)
    digest = store.put(deployment(source), []).digest

    def full(source: Path, copy: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(
        ClusterError, match=r"cannot copy the data of a job to its disk: .*No space left on device"
    ) as caught:
        load(str(store.directory), digest)
    assert "set TMPDIR" in str(caught.value)


@dataclass
class Line:
    amount: int = 0


class Pair(NamedTuple):
    one: int
    other: int


class Named(TypedDict):
    n: int


@pytest.mark.parametrize("made", [Line, Pair, Named])
def test_classes_that_msgspec_has_looked_at_can_be_shipped(made: Any, tmp_path: Path) -> None:
    """It notes in a class what it has found out, which cannot be pickled."""
    encoded = {Line: {"amount": 5}, Pair: (5, 6), Named: {"n": 5}}[made]
    value = msgspec.convert(encoded, made)
    function = Doubling()
    function.factor = made
    store = CodeStore(str(tmp_path / "code"))
    digest = store.put(deployment(function), [sys.modules[__name__]]).digest
    loaded = load(str(store.directory), digest).functions["f"].function.factor  # type: ignore[attr-defined]
    assert msgspec.to_builtins(msgspec.convert(encoded, loaded)) == encoded
    assert msgspec.convert(encoded, made) == value, "the class is still as it was"
