"""The file beside the snapshots of entities that says what their classes look like, so that they are read without the
app. Classes that an app has no more stay in it: their entities are still there."""

from __future__ import annotations

from zlib import crc32

from stretto.errors import DamagedError
from stretto.runtime.storage import LocalFiles
from stretto.transactions.catalog import Catalog
from stretto.transactions.tables import Described, decoded, described_fields, encoded

_PATH = "entities/classes"
_CHECKSUM_BYTES = 4


def keep_classes(directory: str, catalog: Catalog) -> None:
    """Writes what the classes of an app look like now. Only the owner of the directory calls it."""
    known = _read(directory)
    classes = known | {kind.name: described_fields(kind) for kind in catalog.kinds()}
    if classes != known:
        data = encoded(classes)
        LocalFiles(directory).write(_PATH, [crc32(data).to_bytes(_CHECKSUM_BYTES, "little"), data])


def kept_classes(directory: str) -> dict[str, Described]:
    """Returns the classes of a directory, by their names."""
    classes = _read(directory)
    if not classes:
        raise DamagedError(f"{directory} does not say what its entities look like", f"there is no file {_PATH}")
    return classes


def _read(directory: str) -> dict[str, Described]:
    files = LocalFiles(directory)
    if "classes" not in files.names("entities"):
        return {}
    content = files.read(_PATH)
    checksum, data = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
    if crc32(data).to_bytes(_CHECKSUM_BYTES, "little") != checksum:
        raise DamagedError(f"{_PATH} in {directory} is damaged", "its checksum does not match")
    return decoded(data)
