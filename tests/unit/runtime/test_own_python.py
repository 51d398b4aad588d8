"""The interpreter of Spark's tasks leaves Spark's zip out of its path, and nothing else."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from stretto.runtime.own_python import own_python, use_own_python

PRINT = "import os, sys; print(os.environ.get('PYTHONPATH'), sys.executable, *sys.argv[1:], sep='|')"


def printed(path: str | None, *arguments: str) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = path
    command = [own_python(), "-c", PRINT, *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return result.stdout.strip().split("|")


def test_only_the_zip_is_left_out() -> None:
    assert printed("/a b/lib/pyspark.zip:/c d/py4j-src.zip:/e")[0] == "/c d/py4j-src.zip:/e"
    assert printed("/e:/x/pyspark.zip")[0] == "/e"
    assert printed("/x/pyspark.zip")[0] == ""
    assert printed(None)[0] in ("", "None")


def test_it_is_this_interpreter_with_the_same_arguments() -> None:
    found = printed("/e", "one two", "$HOME", "*")
    assert os.path.realpath(found[1]) == os.path.realpath(sys.executable)
    assert found[2:] == ["one two", "$HOME", "*"]


def test_nobody_else_may_change_it() -> None:
    directory = os.stat(os.path.dirname(own_python()))
    assert directory.st_mode & 0o077 == 0
    assert directory.st_uid == os.getuid()


def test_a_forked_child_that_exits_leaves_it() -> None:
    script = own_python()
    child = os.fork()
    if child == 0:
        atexit._run_exitfuncs()
        os._exit(0)
    os.waitpid(child, 0)
    assert os.path.exists(script)


def test_it_goes_with_its_process() -> None:
    code = "from stretto.runtime.own_python import own_python; print(own_python())"
    script = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert script.endswith("python3")
    assert not os.path.exists(os.path.dirname(script))


def test_pyspark_that_comes_out_of_the_zip_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__file__", "/spark/python/lib/pyspark.zip/pyspark/__init__.py")
    assert own_python.__wrapped__() == sys.executable


class Session:
    """What `use_own_python` needs of a Spark session."""

    def __init__(self, master: str) -> None:
        self.sparkContext = SimpleNamespace(master=master, pythonExec="python3")


@pytest.mark.parametrize(
    ("master", "asked", "used"),
    [
        ("local[2]", None, "own"),
        ("local-cluster[2,1,1024]", None, "own"),
        ("spark://host:7077", None, "python3"),
        ("local[2]", "/their/python", "python3"),
    ],
)
def test_only_local_tasks_without_another_wish_use_it(
    master: str, asked: str | None, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if asked is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", asked)
    session = Session(master)
    use_own_python(session)  # type: ignore[arg-type]
    assert session.sparkContext.pythonExec == (own_python() if used == "own" else used)
    assert os.environ.get("PYSPARK_PYTHON") == asked
