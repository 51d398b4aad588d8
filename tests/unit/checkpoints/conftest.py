"""The kinds of storage that checkpoints are tested on."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from obstore.store import LocalStore
from pyarrow import fs

from stretto.checkpoints.store import Files
from stretto.runtime.object_store import create
from stretto.runtime.storage import LocalFiles, RemoteFiles
from stretto.simulator.engine.storage import SimulatedFiles


@pytest.fixture(params=["simulated", "local", "objects"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    if request.param == "simulated":
        return SimulatedFiles()
    if request.param == "local":
        return LocalFiles(str(tmp_path))
    # A directory used as an object store: pyarrow lists it, and obstore creates files in it.
    return RemoteFiles(fs.LocalFileSystem(), str(tmp_path), lambda: partial(create, LocalStore(tmp_path)))
