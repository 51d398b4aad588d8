"""The interpreter that Spark's tasks run under on the driver's own machine.

Spark puts `pyspark.zip` before everything else into the path of its Python processes. Modules in a zip have no
bytecode, so that each process compiles all that it imports: 0.8 s of processor time instead of 0.2 for a task's process
or the planner of a micro-batch source, and Spark waits only ten seconds for the latter. Where this interpreter has the
same package installed, the zip is left out.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

_SCRIPT = """#!/bin/sh
kept=
IFS=:
for entry in $PYTHONPATH; do
    case $entry in
        */pyspark.zip) ;;
        *) kept=${{kept:+$kept:}}$entry ;;
    esac
done
PYTHONPATH=$kept exec {python} "$@"
"""


@cache
def own_python() -> str:
    """Returns a command that runs this process' interpreter, without `pyspark.zip` in its path. It is a script that
    lives as long as this process, and can be run on this machine only. Where PySpark itself comes out of the zip, as
    with `spark-submit`, it is the interpreter as it is."""
    if os.name != "posix" or not Path(pyspark.__file__).exists():
        return sys.executable
    directory = Path(tempfile.mkdtemp(prefix="stretto-python-"))  # Only its owner may write there.
    atexit.register(_remove, directory, os.getpid())
    script = directory / "python3"
    script.write_text(_SCRIPT.format(python=shlex.quote(sys.executable)))
    script.chmod(0o700)
    return str(script)


def use_own_python(spark: SparkSession) -> None:
    """On the driver's own machine, makes Spark's tasks run under `own_python`, unless PYSPARK_PYTHON says otherwise.

    Spark would use the first `python3` of the path, which is another one if a virtual environment is not activated. The
    environment itself stays as it is: a process that inherits it may outlive this one, and the script."""
    context = spark.sparkContext
    if (context.master or "").startswith("local") and not os.environ.get("PYSPARK_PYTHON"):
        context.pythonExec = own_python()


def _remove(directory: Path, owner: int) -> None:
    if os.getpid() == owner:  # A forked child that exits must not take it from its parent.
        shutil.rmtree(directory, ignore_errors=True)
