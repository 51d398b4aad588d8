"""Virtual environments for the peers, made on first use and kept.

The peers conflict with each other and with stretto, so none of them is a dependency. An environment is named by a
hash of its recipe, so a new version gets a new one; an unfinished one has no mark file and is made again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stretto.errors import UserError

_DONE = ".complete"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What to install. `jars` are Maven coordinates, group:artifact:version; `spark_jars` are patterns of jars in
    PySpark. `first` is installed before the rest, which needs it to build."""

    requirements: tuple[str, ...]
    first: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    spark_jars: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr((self, sys.version_info[:2])).encode()).hexdigest()[:12]


RECIPES: dict[str, Recipe] = {
    "flink": Recipe(
        ("apache-flink==2.3.0",),
        first=("setuptools<81", "wheel"),
        jars=("org.apache.flink:flink-sql-parquet:2.3.0",),
        spark_jars=("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar"),
    ),
    "bytewax": Recipe(("bytewax==0.21.1", "pyarrow==25.0.1")),
    "pathway": Recipe(("pathway==0.33.0",)),
}


@dataclass(frozen=True, slots=True)
class Environment:
    """The interpreter of a peer, and the jars passed to it."""

    python: Path
    jars: tuple[Path, ...] = ()


def environments_directory() -> Path:
    """Returns the directory of the environments: `$STRETTO_PEERS`, or the user's cache."""
    named = os.environ.get("STRETTO_PEERS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else cache / "stretto" / "peers"


def environment(name: str, say: Callable[[str], None]) -> Environment:
    """Returns the environment of a peer, and makes it if missing. Systems without a recipe run in stretto's own."""
    recipe = RECIPES.get(name)
    if recipe is None:
        return Environment(Path(sys.executable))
    place = environments_directory() / f"{name}-{recipe.digest}"
    place.parent.mkdir(parents=True, exist_ok=True)
    with locked(place.with_suffix(".lock")):
        if not (place / _DONE).exists():
            say(f"making an environment for {name} in {place} (once; this takes some minutes)")
            shutil.rmtree(place, ignore_errors=True)
            _make(recipe, place)
            (place / _DONE).touch()
    jars = sorted((place / "jars").glob("*.jar")) if recipe.jars else []
    return Environment(place / "bin" / "python", (*jars, *_found_in_spark(recipe.spark_jars)))


def _make(recipe: Recipe, place: Path) -> None:
    venv.create(place, with_pip=True)
    python = str(place / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    for requirements in (recipe.first, recipe.requirements):
        if requirements:
            _run([*pip, *requirements], f"cannot install {', '.join(requirements)}")
    for jar in recipe.jars:
        fetch_jar(jar, place)


def fetch_jar(coordinates: str, place: Path, alone: bool = False) -> None:
    """Fetches a jar from Maven Central with Apache Ivy, which is part of Spark; `alone`: without what it needs."""
    group, artifact, version = coordinates.split(":")
    (ivy,) = _found_in_spark(("ivy-*.jar",))
    retrieved = f"{place}/jars/[artifact]-[revision].[ext]"
    ivy_main = ["java", "-cp", str(ivy), "org.apache.ivy.Main", "-cache", f"{place}/ivy"]
    wanted = ["-types", "jar", "-confs", "default", "-dependency", group, artifact, version, "-retrieve", retrieved]
    _run([*ivy_main, *(["-notransitive"] if alone else []), *wanted], f"cannot fetch {coordinates}")


def _found_in_spark(patterns: tuple[str, ...]) -> tuple[Path, ...]:
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    return tuple(path for pattern in patterns for path in sorted(jars.glob(pattern)))


def _run(command: list[str], fault: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UserError(
            fault, (done.stderr or done.stdout).strip()[-500:], "Check the network and the free disk space."
        )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock between processes, a file, for the time of a `with` block."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
