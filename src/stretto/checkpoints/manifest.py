"""The manifest of a checkpoint: for each actor, the pieces of files that hold its snapshot, with checksums."""

from __future__ import annotations

import zlib
from hashlib import blake2b
from typing import Any

import msgspec

from stretto.actors.function import EVENT_TIME_MIN_US
from stretto.actors.shape import Shapes
from stretto.errors import DamagedError

VERSION = 2
_DIGEST_BYTES = 16


class Storage(msgspec.Struct, frozen=True, array_like=True):
    """Where a job writes its checkpoints, and as which owner. `lineage` is the name of the directory since its first
    checkpoint."""

    uri: str
    owner: int
    lineage: str


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """A range of bytes in a file, which is an Arrow stream by itself. The checksum is a CRC-32: it detects damage, not
    forgery. A cryptographic digest would take longer than everything else that is done with a large piece."""

    path: str
    offset: int
    bytes: int
    checksum: str


class FragmentRecord(msgspec.Struct, frozen=True, array_like=True):
    """The piece that holds a fragment of a state."""

    number: int
    piece: Piece


class ActorRecord(msgspec.Struct, frozen=True):
    """The pieces that hold the snapshot of an actor. An actor that had finished needs none, unless it is a sink with
    output to publish."""

    plain: Piece | None = None
    states: dict[str, list[FragmentRecord]] = {}
    finished: bool = False
    watermark_us: int = EVENT_TIME_MIN_US
    """The watermark that it has sent downstream."""

    def pieces(self) -> list[Piece]:
        own = [self.plain] if self.plain is not None else []
        return own + [fragment.piece for fragments in self.states.values() for fragment in fragments]


class Manifest(msgspec.Struct, frozen=True):
    """A complete checkpoint of an app: its actors by function and partition, and the shapes of the functions."""

    app: str
    checkpoint: int
    functions: dict[str, list[ActorRecord]]
    savepoint: str | None = None
    version: int = VERSION
    shapes: Shapes = {}

    @property
    def finished(self) -> bool:
        """Whether all actors had finished, so that only output is left to publish."""
        return all(record.finished for records in self.functions.values() for record in records)

    def files(self) -> set[str]:
        """Returns the paths of the files that it needs."""
        return {piece.path for piece in self.pieces()}

    def pieces(self) -> list[Piece]:
        return [piece for records in self.functions.values() for record in records for piece in record.pieces()]

    @property
    def bytes(self) -> int:
        """Its size."""
        return sum(piece.bytes for piece in self.pieces())

    @property
    def bytes_written(self) -> int:
        """The size of the pieces that no earlier checkpoint had."""
        return sum(piece.bytes for piece in self.pieces() if f"/{self.checkpoint:06d}/" in piece.path)


class _Sealed(msgspec.Struct, frozen=True):
    """A manifest in its file, with a checksum of its text."""

    digest: str
    manifest: msgspec.Raw


def checksum_of(content: Any) -> str:
    return f"{zlib.crc32(content):08x}"


def digest_of(content: Any) -> str:
    return blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def encoded(manifest: Manifest) -> bytes:
    text = msgspec.json.encode(manifest)
    return msgspec.json.encode(_Sealed(digest_of(text), msgspec.Raw(text)))


def decoded(content: bytes, path: str) -> Manifest:
    """Returns the manifest in a file; raises a DamagedError if the file is not as it was written."""
    try:
        sealed = msgspec.json.decode(content, type=_Sealed)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedError(f"the manifest {path} is damaged", str(error)) from error
    text = bytes(sealed.manifest)
    if digest_of(text) != sealed.digest:
        raise DamagedError(f"the manifest {path} is damaged", "its checksum does not match")
    try:
        version = msgspec.json.decode(text)["version"]
        if version != VERSION:
            raise DamagedError(
                f"the manifest {path} has another version",
                f"{version}, and this stretto reads {VERSION}",
                "Use the version of stretto that wrote it.",
            )
        return msgspec.json.decode(text, type=Manifest)
    except (msgspec.DecodeError, KeyError) as error:
        raise DamagedError(f"the manifest {path} cannot be read", str(error)) from error
