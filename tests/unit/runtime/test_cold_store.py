"""Cold stores on disk: what they keep, where, and how much memory a state with one takes."""

from __future__ import annotations

import builtins
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stretto.errors import ClusterError, StorageError
from stretto.runtime.cold_store import ColdStores, RocksCold, check_rocksdict


def test_a_store_keeps_bytes_in_the_order_of_keys(tmp_path: Path) -> None:
    store = RocksCold(tmp_path / "one", 1 << 20)
    store.write((key, key * 2) for key in (b"b", b"a", b"\xff", b"c"))
    store.write([(b"c", None)])
    assert list(store.scan()) == [(b"a", b"aa"), (b"b", b"bb"), (b"\xff", b"\xff\xff")]
    assert [key for key, _ in store.scan(b"a")] == [b"b", b"\xff"]
    assert [key for key, _ in store.scan(b"aa")] == [b"b", b"\xff"]
    assert store.get_many([b"b", b"c"]) == [b"bb", None]
    assert store.get_many([]) == []
    store.clear()
    assert list(store.scan()) == []
    store.write([(b"a", b"1")])
    assert store.get(b"a") == b"1"
    store.close()
    assert not (tmp_path / "one").exists()


def test_a_scan_sees_what_was_there_when_it_began(tmp_path: Path) -> None:
    store = RocksCold(tmp_path / "one", 1 << 20)
    store.write((bytes([n]), b"x") for n in range(9))
    seen = []
    for key, _ in store.scan():
        seen.append(key)
        store.write([(bytes([8 - key[0]]), None)])
    assert len(seen) == 9
    store.close()


def test_the_scratch_directory_goes_with_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/other")
    stores = ColdStores()
    one, other = stores.made(1 << 20), stores.made(1 << 20)
    one.write([(b"a", b"1")])
    assert other.get(b"a") is None
    assert len(list(tmp_path.iterdir())) == 1
    one.close()
    other.close()
    stores.close()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_rocksdict_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **more: Any) -> Any:
        if name == "rocksdict":
            raise ImportError("No module named 'rocksdict'")
        return real(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ClusterError, match="rocksdict is not installed"):
        check_rocksdict()


def test_a_directory_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="no state can be spilled"):
        RocksCold(tmp_path / "file" / "store", 1 << 20)


# The growth of a process's memory while a state grows to many times its budget.
GROWTH = """
import gc, json, sys, tempfile
from pathlib import Path
import psutil
import pyarrow as pa
from stretto.actors.context import Context
from stretto.expressions import parse_aggregate
from stretto.operators.running import RunningAggregate
from stretto.runtime.cold_store import RocksCold
from stretto.state import MapState

BUDGET = 8 << 20
kind, spills = sys.argv[1], sys.argv[2] == "spilling"
SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int64())])
calls = tuple(parse_aggregate(text, SCHEMA) for text in ("sum(x) AS s", "max(k) AS m"))
function = RunningAggregate(SCHEMA, ("k",), calls)
state = MapState() if kind == "map" else function.totals
directory = tempfile.TemporaryDirectory()
if spills:
    state.spill_to(RocksCold(Path(directory.name) / "store", BUDGET), BUDGET)

def fill(batch):
    numbers = range(batch * 500, batch * 500 + 500)
    if kind == "map":
        for n in numbers:
            state[n] = bytes([n % 251]) * 400
        for n in numbers[::50]:
            assert state[n // 3] is not None
    else:
        rows = pa.record_batch([[f"key number {n:09d} of many" for n in numbers], list(numbers)], schema=SCHEMA)
        function.process(rows, Context("job", "fn", 0, 1, {"out": function.schema}))
    state.settle()

fill(0)
gc.collect()
before = psutil.Process().memory_info().rss
most = 0
for batch in range(1, 400):
    fill(batch)
    most = max(most, psutil.Process().memory_info().rss - before)
print(json.dumps({"growth": most, "entries": len(state)}))
"""


def growth(kind: str, how: str) -> int:
    done = subprocess.run([sys.executable, "-c", GROWTH, kind, how], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["entries"] == 200_000
    return int(told["growth"])


@pytest.mark.parametrize("kind", ["map", "running"])
def test_memory_stays_within_bounds(kind: str) -> None:
    plain, spilling = growth(kind, "plain"), growth(kind, "spilling")
    assert plain > 5 * (8 << 20), "the state is too small for this test"
    assert spilling < 0.4 * plain
