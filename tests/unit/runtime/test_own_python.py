"""The interpreter of Spark's tasks leaves Spark's zip out of its path, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys

from stretto.runtime.own_python import own_python

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
