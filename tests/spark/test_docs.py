"""The Python code of README.md and docs/ runs, block by block, and prints what the documents say.

A document is one program: its blocks share a namespace and a current directory. The guides build on the session and the
data of docs/README.md, so its blocks run first, once for all. The words after `python` on a fence:

- `no-run`: the block is not run; its first line is a comment that says why.
- `file=NAME`: the block is the content of that file in the current directory.

A `text output` block right after a Python block is what that block prints.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.markdown import DOCUMENTS, ROOT, Block, blocks_of

from stretto import Cluster
from stretto.bench.kafka.broker import Broker

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

# Queries over 2,000 rows take longer to compile than to run.
SPARK_SETTINGS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.shuffle.partitions": "1"}

FIRST = ROOT / "docs" / "README.md"


def run(document: Path, namespace: dict[str, Any]) -> int:
    """Run the blocks of a document in the current directory; returns how many there were."""
    blocks = [*blocks_of(document), Block("", "", 0)]
    count = 0
    for block, following in itertools.pairwise(blocks):
        if block.language != "python" or "no-run" in block.marks:
            continue
        count += 1
        if named := [mark.removeprefix("file=") for mark in block.marks if mark.startswith("file=")]:
            Path(named[0]).write_text(block.text)
            continue
        printed = io.StringIO()
        # Empty lines in front, so that a traceback has the line numbers of the document.
        code = compile("\n" * (block.line - 1) + block.text, str(document), "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        if following.info == "text output":
            assert printed.getvalue() == following.text, f"{document.name}, line {following.line}"
    return count


WITH_PYTHON = [path for path in DOCUMENTS if any(block.language == "python" for block in blocks_of(path))]


@pytest.fixture(scope="module")
def first(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """Returns the namespace and the directory after the first document, which each guide begins with a copy of."""
    directory = tmp_path_factory.mktemp("first")
    # As in a script: workers get classes of `__main__` by value.
    namespace: dict[str, Any] = {"__name__": "__main__", "spark": spark}
    with contextlib.chdir(directory):
        assert run(FIRST, namespace) > 0
    return namespace, directory


@pytest.mark.parametrize("document", WITH_PYTHON, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_code_of_a_document_runs(
    first: tuple[dict[str, Any], Path], document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if document == FIRST:
        return  # It has run.
    namespace = dict(first[0])
    shutil.copytree(first[1], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert run(document, namespace) > 0
    finally:
        for value in list(namespace.values()):
            if isinstance(value, Cluster):
                value.close()
            elif isinstance(value, Broker):
                value.stop()
        forget_modules_in(tmp_path)


def forget_modules_in(directory: Path) -> None:
    """Removes the modules that a document wrote and imported, or another test would get them by their names."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(directory)):
            del sys.modules[name]
