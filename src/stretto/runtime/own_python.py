"""The interpreter that Spark's tasks run under on the driver's own machine.

Spark puts `pyspark.zip` before everything else into the path of its Python processes. Modules in a zip have no
bytecode, so that each process compiles all that it imports: 0.8 s of processor time instead of 0.2 for a task's process
or the planner of a micro-batch source, and Spark waits only ten seconds for the latter. This interpreter has the same
package installed, so the zip is left out.
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
    lives as long as this process, and can be run on this machine only."""
    if os.name != "posix":
        return sys.executable
    directory = Path(tempfile.mkdtemp(prefix="stretto-python-"))  # Only its owner may write there.
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    script = directory / "python3"
    script.write_text(_SCRIPT.format(python=shlex.quote(sys.executable)))
    script.chmod(0o700)
    return str(script)
