"""The manifest of a checkpoint: for each actor, the pieces of files that hold its snapshot, with checksums."""

from __future__ import annotations

import zlib
from hashlib import blake2b
from typing import Any

import msgspec

from stretto.actors.function import EVENT_TIME_MAX_US, EVENT_TIME_MIN_US
from stretto.actors.shape import FunctionShape, Shapes
from stretto.actors.shards import ShardMap
from stretto.checkpoints.paths import snapshot_file
from stretto.errors import DamagedError

VERSION = 2
CHECKPOINTS_MAX = 10**9
BYTES_MAX = 1 << 62
SPLITS_MAX = 1 << 20
"""Greater numbers were not written here."""
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
    parts: tuple[ActorRecord, ...] = ()
    """The records of the tasks of an elastic executor."""

    def pieces(self) -> list[Piece]:
        own = [self.plain] if self.plain is not None else []
        own += [fragment.piece for fragments in self.states.values() for fragment in fragments]
        return own + [piece for part in self.parts for piece in part.pieces()]


class EntitiesRecord(msgspec.Struct, frozen=True, array_like=True):
    """A snapshot of entities at the end of an epoch: for each worker its pieces, the first of which is whole, each by
    the attempt that took it and its epoch."""

    epoch: int
    workers: list[list[tuple[int, int]]]

    def fault(self) -> str | None:
        numbers = [self.epoch, *(number for pieces in self.workers for piece in pieces for number in piece)]
        if not self.workers or not all(0 <= number < BYTES_MAX for number in numbers):
            return "its snapshot of entities has numbers that are out of range"
        if any(pieces[-1][1] != self.epoch for pieces in self.workers if pieces):
            return "its snapshots of entities are of different epochs"
        return None


class Manifest(msgspec.Struct, frozen=True):
    """A complete checkpoint of an app: its actors by function and partition, and the shapes of the functions."""

    app: str
    checkpoint: int
    functions: dict[str, list[ActorRecord]]
    savepoint: str | None = None
    version: int = VERSION
    shapes: Shapes = {}
    owner: int = 0
    """The owner of the directory that committed it."""
    entities: EntitiesRecord | None = None
    """The snapshot of an app with entities, which has no functions."""

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
        number = f"{self.checkpoint:06d}"
        return sum(piece.bytes for piece in self.pieces() if piece.path.split("/")[-2] == number)

    def fault(self) -> str | None:
        """Returns why nobody can resume from it, if it was changed by somebody who also changed its checksum. Files are
        read and removed by the paths in it, so they must be of this checkpoint or of earlier ones."""
        if not 0 <= self.checkpoint < CHECKPOINTS_MAX:
            return f"it is of checkpoint {self.checkpoint}"
        for piece in self.pieces():
            written = snapshot_file(piece.path)
            if written is None:
                return f"it names {piece.path!r}, which is not the path of a snapshot"
            if written.checkpoint > self.checkpoint:
                return f"it names {piece.path!r}, which is of a later checkpoint"
            if not (0 <= piece.offset < BYTES_MAX and 0 <= piece.bytes < BYTES_MAX):
                return f"it names {piece.bytes} bytes of {piece.path!r} from {piece.offset} on"
        if self.entities is not None and (wrong := self.entities.fault()) is not None:
            return wrong
        if self.shapes.keys() != self.functions.keys():
            return "it does not describe the functions that it has"
        for name, records in self.functions.items():
            if not _describes(self.shapes[name], records):
                return f"it does not describe the {len(records)} partitions of function {name!r}"
            if any(record.plain is None and not record.finished for record in records):
                return f"a snapshot of function {name!r} is missing"
            if any(part.plain is None or part.parts for record in records for part in record.parts):
                return f"a part of a snapshot of function {name!r} is not one"
            if not all(EVENT_TIME_MIN_US <= record.watermark_us <= EVENT_TIME_MAX_US for record in records):
                return f"a watermark of function {name!r} is out of range"
        return None


def _describes(shape: FunctionShape, records: list[ActorRecord]) -> bool:
    owners = None if shape.shards is None else shape.shards.owners
    sharded = owners is None or ShardMap.is_possible(owners, shape.parallelism)
    return shape.parallelism == len(records) > 0 and 0 <= shape.splits <= SPLITS_MAX and sharded


class _Versioned(msgspec.Struct):
    version: int


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
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedError(f"the manifest {path} is damaged", str(error)) from error
    text = bytes(sealed.manifest)
    if digest_of(text) != sealed.digest:
        raise DamagedError(f"the manifest {path} is damaged", "its checksum does not match")
    try:
        version = msgspec.json.decode(text, type=_Versioned).version
        if version != VERSION:
            raise DamagedError(
                f"the manifest {path} has another version",
                f"{version}, and this stretto reads {VERSION}",
                "Use the version of stretto that wrote it.",
            )
        manifest = msgspec.json.decode(text, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedError(f"the manifest {path} cannot be read", str(error)) from error
    fault = manifest.fault()
    if fault is not None:
        raise DamagedError(f"the manifest {path} cannot be used", fault)
    return manifest
