"""The setup: the Makefile lists its targets, the lock files pin everything, the scripts run."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from stretto.bench.kafka.broker import VERSION

ROOT = Path(__file__).parents[3]
LOCK_FILES = [ROOT / "requirements.lock", ROOT / "requirements-build.lock"]
SCRIPTS = [ROOT / ".ci" / "run", *sorted((ROOT / "scripts").iterdir())]
TARGETS = ["check", "clean", "demo", "format", "help", "install", "lint", "lock", "rooms", "stress", "test", "types"]

# An address of any kind: a scheme, a host name, or an absolute path.
ADDRESS = re.compile(
    r"\w+://|\b[\w-]+\.(?:com|org|net|io|dev|local|internal)\b|(?<![\w.])/\w+|--(?:index|find|trusted)"
)


def _pyproject() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def _pins(path: Path) -> dict[str, tuple[Version, int]]:
    """Returns the version of each package in a lock file, and its number of hashes."""
    pins = {}
    for entry in re.split(r"^(?=[a-zA-Z0-9])", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        name, _, version = entry.split(maxsplit=1)[0].partition("==")
        pins[canonicalize_name(name)] = Version(version), len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry))
    return pins


@pytest.mark.parametrize("arguments", [[], ["help"]], ids=["make", "make-help"])
def test_make_lists_its_targets(arguments: list[str]) -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    output = subprocess.run(
        ["make", "--no-print-directory", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    listed = dict(re.findall(r"^  (\w+) +(\S.*)$", output, flags=re.MULTILINE))
    assert sorted(listed) == TARGETS


def test_the_lock_pins_what_the_project_asks_for() -> None:
    project = _pyproject()["project"]
    pins = _pins(LOCK_FILES[0])
    for wanted in map(Requirement, [*project["dependencies"], *project["optional-dependencies"]["dev"]]):
        name = canonicalize_name(wanted.name)
        assert name in pins, f"{name} is not in requirements.lock: run make lock"
        assert pins[name][0] in wanted.specifier, (
            f"{name} in requirements.lock is not {wanted.specifier}: run make lock"
        )


def _imported() -> set[str]:
    """Returns the packages that our sources import, at the top of a module or in a function."""
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Import(names=names):
                    found |= {alias.name.partition(".")[0] for alias in names}
                case ast.ImportFrom(module=str(module), level=0):
                    found.add(module.partition(".")[0])
    return found


def test_what_is_declared_is_imported_or_brought_by_an_extra() -> None:
    declared = [Requirement(line) for line in _pyproject()["project"]["dependencies"]]
    extras = {
        canonicalize_name(needed.name)
        for wanted in declared
        if wanted.extras
        for needed in map(Requirement, metadata.requires(wanted.name) or [])
        if needed.marker and any(needed.marker.evaluate({"extra": extra}) for extra in wanted.extras)
    }
    distributions = metadata.packages_distributions()
    # A package that is not installed is assumed to have the name of its import.
    providers = {canonicalize_name(name) for module in _imported() for name in distributions.get(module, [module])}
    names = {canonicalize_name(wanted.name) for wanted in declared}
    assert sorted(names - providers - extras) == []


def test_the_lock_pins_the_tools_that_build() -> None:
    pins = _pins(LOCK_FILES[1])
    backend = {canonicalize_name(Requirement(line).name) for line in _pyproject()["build-system"]["requires"]}
    assert backend | {"editables", "setuptools", "wheel"} <= pins.keys()


def test_the_two_locks_agree() -> None:
    run, build = map(_pins, LOCK_FILES)
    assert {name: run[name] for name in run.keys() & build.keys()} == {
        name: build[name] for name in run.keys() & build.keys()
    }


@pytest.mark.parametrize("path", LOCK_FILES, ids=lambda path: path.name)
def test_every_pin_has_hashes(path: Path) -> None:
    pins = _pins(path)
    assert pins
    assert [name for name, (_, hashes) in pins.items() if hashes == 0] == []


@pytest.mark.parametrize("path", LOCK_FILES, ids=lambda path: path.name)
def test_a_lock_holds_no_address(path: Path) -> None:
    assert ADDRESS.findall(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://packages.example/simple",
        "--find-links wheels",
        "--trusted-host packages",
        "# via -r /home/someone/requirements.in",
        "# from packages.example.org",
    ],
)
def test_an_address_is_seen(line: str) -> None:
    assert ADDRESS.search(line)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_can_be_run(path: Path) -> None:
    assert os.access(path, os.X_OK)
    assert path.read_text("utf-8").startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in path.read_text("utf-8")


def _ensure_java(path: Path, java_home: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs scripts/ensure_java where `path` comes first on the PATH, as a user without permission to install."""
    (path / "id").write_text("#!/bin/sh\necho 1000\n")
    (path / "id").chmod(0o755)
    environment = {"PATH": f"{path}:{os.environ['PATH']}"} | ({"JAVA_HOME": str(java_home)} if java_home else {})
    return subprocess.run(
        [ROOT / "scripts" / "ensure_java"], env=environment, capture_output=True, text=True, check=False
    )


def _fake_java(directory: Path, version: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    java = directory / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.1", "25-ea"])
def test_java_that_is_new_enough_is_taken_in_silence(tmp_path: Path, version: str) -> None:
    _fake_java(tmp_path, version)
    done = _ensure_java(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16.0.2"])
def test_java_that_is_too_old_gets_one_line(tmp_path: Path, version: str) -> None:
    _fake_java(tmp_path, version)
    done = _ensure_java(tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(r"Spark needs Java 17 or later: install .*\n", done.stderr)


def test_java_home_comes_first_as_it_does_for_spark(tmp_path: Path) -> None:
    _fake_java(tmp_path, "17.0.15")
    _fake_java(tmp_path / "old" / "bin", "11.0.22")
    done = _ensure_java(tmp_path, java_home=tmp_path / "old")
    assert done.returncode == 1
    assert re.fullmatch(r"JAVA_HOME .* holds no Java 17 or later.*\n", done.stderr)


def _ensure_kafka(path: Path) -> subprocess.CompletedProcess[str]:
    """Runs a copy of scripts/ensure_kafka in `path`, where there is no Maven."""
    commands = path / "bin"
    for directory in (commands, path / "scripts"):
        directory.mkdir(exist_ok=True)
    script = shutil.copy(ROOT / "scripts" / "ensure_kafka", path / "scripts")
    if not (commands / "dirname").exists():
        (commands / "dirname").symlink_to(shutil.which("dirname") or "dirname")
    bash = shutil.which("bash") or "bash"
    return subprocess.run([bash, script], env={"PATH": str(commands)}, capture_output=True, text=True, check=False)


def test_kafka_that_is_there_is_taken_in_silence_and_without_maven_there_is_one_line(tmp_path: Path) -> None:
    done = _ensure_kafka(tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(r"The tests of Kafka need Maven .*\n", done.stderr)
    (tmp_path / ".cache" / f"kafka-{VERSION}").mkdir(parents=True)
    done = _ensure_kafka(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
