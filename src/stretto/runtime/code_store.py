"""How an app's code reaches running workers: as a file named by its SHA-256, never through a socket.

A running Spark task cannot get a new closure, so the driver writes the pickled deployment into a private directory
(mode 0700) whose path is in Spark's closure; the coordinator then sends only the digest. A worker reads the file,
checks the digest, and unpickles it. Arrow data, such as the rows of a memory source, is beside the code in files of its
own, whose digests are in the code. On several machines the directory must be on shared storage, like a checkpoint's.
"""

from __future__ import annotations

import hashlib
import io
import secrets
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import msgspec
import pyarrow as pa
from pyspark import cloudpickle

from stretto.actors.deployment import Deployment
from stretto.errors import ClusterError, UserError
from stretto.rendering import error_text, megabytes
from stretto.runtime.scratch import scratch_directory
from stretto.runtime.shipping import ApartPickler, ArrowFiles, TogetherUnpickler

CODE_BYTES_MAX = 64_000_000
"""The size of the code of an app, without Arrow data."""


FETCHED_BYTES_MAX = 64_000_000
"""Up to this size, data on network storage is read into memory."""


class Code(msgspec.Struct, frozen=True):
    """The content of a code file. `data` has the digests of the Arrow files beside it.

    They are `mapped` into memory where the directory is the driver's own, so on this machine: a file that is removed
    lasts there as long as it is mapped. On network storage it does not, so there they are read, or copied if large."""

    pickled: bytes
    data: list[str]
    mapped: bool


@dataclass(frozen=True, slots=True)
class Shipped:
    """A deployment in the store: its digest, and its size with all data."""

    digest: str
    bytes: int


class Shippable(Protocol):
    """What the store takes: the deployment of a job with streams, or the classes of one with entities."""

    @property
    def job(self) -> str: ...

    @property
    def functions(self) -> Mapping[str, Any]: ...


class CodeStore:
    """The driver's side: writes deployments, and removes the directory at the end."""

    def __init__(self, directory: str | None) -> None:
        self._owned = directory is None
        self.directory = scratch_directory("code") if directory is None else Path(directory)
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(self, deployment: Shippable, modules: list[ModuleType]) -> Shipped:
        """Writes a deployment; `modules` are pickled by value, because workers may not be able to import them."""
        files = ArrowFiles(self.directory / f"{secrets.token_hex(8)}.partial")
        try:
            return self._put(deployment, modules, files)
        except OSError as error:
            raise ClusterError(
                f"the code of app '{deployment.job}' cannot be written",
                f"{self.directory}: {error.strerror or error_text(error)}",
                "Make room there, or pass another code_dir= to Cluster.on_spark.",
            ) from error
        finally:
            files.remove()

    def _put(self, deployment: Shippable, modules: list[ModuleType], files: ArrowFiles) -> Shipped:
        pickled = _pickled(deployment, modules, files)
        code = msgspec.msgpack.encode(Code(pickled, [_digest_of(path) for path in files.paths], self._owned))
        digest = hashlib.sha256(code).hexdigest()
        size = len(code) + sum(path.stat().st_size for path in files.paths)
        for number, path in enumerate(files.paths):
            path.replace(_data_path(self.directory, digest, number))
        path = self.directory / digest
        partial = path.with_suffix(".partial")
        partial.write_bytes(code)
        partial.replace(path)
        return Shipped(digest, size)

    def remove(self, digest: str) -> None:
        (self.directory / digest).unlink(missing_ok=True)
        for path in self.directory.glob(f"{digest}.*.arrow"):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._owned:
            shutil.rmtree(self.directory, ignore_errors=True)


def load(directory: str, digest: str) -> Deployment:
    """The worker's side: returns the deployment with this digest, after checking it and those of its data."""
    deployment: Deployment = load_any(directory, digest)
    return deployment


def load_any(directory: str, digest: str) -> Any:
    """Returns what has this digest."""
    path = Path(directory) / digest
    try:
        content = path.read_bytes()
        _check(path, hashlib.sha256(content).hexdigest(), digest)
        code = msgspec.msgpack.decode(content, type=Code)
        sources = []
        for number, expected in enumerate(code.data):
            path = _data_path(Path(directory), digest, number)
            sources.append(_mapped(path, expected) if code.mapped else _fetched(path, expected))
    except OSError as error:
        raise ClusterError(
            "a worker cannot read the code of a job",
            f"{path}: {error.strerror}",
            "Workers on other machines need a shared directory: pass code_dir= to Cluster.on_spark.",
        ) from error
    return TogetherUnpickler(io.BytesIO(code.pickled), sources).load()


def _mapped(path: Path, expected: str) -> pa.NativeFile:
    """Returns a file of this machine, mapped into memory: its workers share the pages that they touch."""
    _check(path, _digest_of(path), expected)
    return pa.memory_map(str(path))


def _fetched(path: Path, expected: str) -> pa.NativeFile | pa.Buffer:
    """Returns a file of network storage. A large one, such as a table, is copied to the disk of this machine and mapped
    there; the copy has no name, so that it ends with the process."""
    if path.stat().st_size <= FETCHED_BYTES_MAX:
        content = path.read_bytes()
        _check(path, hashlib.sha256(content).hexdigest(), expected)
        return pa.py_buffer(content)
    copy = scratch_directory("data") / path.name
    try:
        shutil.copyfile(path, copy)
        return _mapped(copy, expected)
    except OSError as error:
        raise ClusterError(
            "a worker cannot copy the data of a job to its disk",
            f"{copy}: {error.strerror or error_text(error)}; it has {megabytes(path.stat().st_size)}",
            "Make room there, or set TMPDIR of the workers to a directory with room.",
        ) from error
    finally:
        shutil.rmtree(copy.parent, ignore_errors=True)


def _check(path: Path, found: str, expected: str) -> None:
    if found != expected:
        raise ClusterError("the code of a job does not match its digest", str(path), "Submit the job again.")


def _data_path(directory: Path, digest: str, number: int) -> Path:
    return directory / f"{digest}.{number}.arrow"


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Pickling


def _pickled(deployment: Shippable, modules: list[ModuleType], files: ArrowFiles) -> bytes:
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        content = _Bounded()
        ApartPickler(content, files).dump(deployment)  # type: ignore[no-untyped-call]
        files.close()
        return content.getvalue()
    except _TooLong:
        raise UserError(
            f"app '{deployment.job}' is too large to be shipped to the workers",
            f"its code has more than {megabytes(CODE_BYTES_MAX)}; {_largest(deployment)}",
            "Keep the rows that a function needs in a pyarrow Table, which is not limited, or read a file in open().",
        ) from None
    except OSError:
        raise
    except Exception as error:
        raise UserError(
            f"app '{deployment.job}' cannot be shipped to the workers",
            error_text(error),
            "Something that a function refers to cannot be pickled; make it inside the function, or in open().",
        ) from error
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


class _TooLong(Exception):
    pass


class _Bounded(io.BytesIO):
    """What is pickled, up to the limit: one that is far beyond it must not fill the memory first."""

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > CODE_BYTES_MAX:
            raise _TooLong
        return super().write(data)


class _Counting:
    """A file that only counts."""

    count = 0

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.count += size
        return size


def _largest(deployment: Shippable) -> str:
    """Returns the function with the longest code, and its length."""
    sizes = {}
    for name, spec in deployment.functions.items():
        counting = _Counting()
        with suppress(Exception):  # One that cannot be pickled is the lesser problem.
            ApartPickler(counting, None).dump(spec)  # type: ignore[no-untyped-call]
        sizes[name] = counting.count
    if not sizes:
        return "it is that of its entities"
    name = max(sizes, key=lambda each: sizes[each])
    return f"function '{name}' alone has {megabytes(sizes[name])}"


def local_modules(names: set[str]) -> list[ModuleType]:
    """Returns the named modules that are neither installed nor part of stretto, so that a worker may not find them."""
    installed = [sysconfig.get_paths()[key] for key in ("purelib", "platlib", "stdlib", "platstdlib")]
    found = []
    for name in sorted(names):
        module = sys.modules.get(name)
        origin = getattr(module, "__file__", None)
        if module is None or origin is None or name == "__main__" or name.split(".")[0] == "stretto":
            continue
        if not any(origin.startswith(prefix) for prefix in installed):
            found.append(module)
    return found
