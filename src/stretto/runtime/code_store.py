"""How an app's code reaches running workers: as a file named by its SHA-256, never through a socket.

A running Spark task cannot get a new closure, so the driver writes the pickled deployment into a private directory
(mode 0700) whose path is in Spark's closure; the coordinator then sends only the digest. A worker reads the file,
checks the digest, and unpickles it. On several machines the directory must be on shared storage, like a checkpoint's.
"""

from __future__ import annotations

import hashlib
import pickle
import shutil
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

from pyspark import cloudpickle

from stretto.actors.deployment import Deployment
from stretto.errors import ClusterError, UserError
from stretto.rendering import error_text
from stretto.runtime.scratch import scratch_directory


class CodeStore:
    """The driver's side: writes deployments, and removes the directory at the end."""

    def __init__(self, directory: str | None) -> None:
        self._owned = directory is None
        self.directory = scratch_directory("code") if directory is None else Path(directory)
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(self, deployment: Deployment, modules: list[ModuleType]) -> str:
        """Writes a deployment and returns its digest; `modules` are pickled by value, because workers may not be able
        to import them."""
        for module in modules:
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        try:
            content: bytes = cloudpickle.dumps(deployment)  # type: ignore[no-untyped-call]
        except Exception as error:
            raise UserError(
                f"app '{deployment.job}' cannot be shipped to the workers",
                error_text(error),
                "Something that a function refers to cannot be pickled; make it inside the function, or in open().",
            ) from error
        finally:
            for module in modules:
                cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
        digest = hashlib.sha256(content).hexdigest()
        path = self.directory / digest
        partial = path.with_suffix(".partial")
        partial.write_bytes(content)
        partial.replace(path)
        return digest

    def remove(self, digest: str) -> None:
        (self.directory / digest).unlink(missing_ok=True)

    def close(self) -> None:
        if self._owned:
            shutil.rmtree(self.directory, ignore_errors=True)


def load(directory: str, digest: str) -> Deployment:
    """The worker's side: returns the deployment with this digest, after checking the digest."""
    path = Path(directory) / digest
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ClusterError(
            "a worker cannot read the code of a job",
            f"{path}: {error.strerror}",
            "Workers on other machines need a shared directory: pass code_dir= to Cluster.on_spark.",
        ) from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise ClusterError("the code of a job does not match its digest", str(path), "Submit the job again.")
    deployment: Deployment = pickle.loads(content)
    return deployment


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
