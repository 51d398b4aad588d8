"""The store of one app's checkpoints: how one is written, found, read and removed.

    lineage/5f0c9a1e                          a name for this directory, wherever it is moved
    owners/000002                             the greatest number is the owner, which may commit
    data/000002/q5~3/000014/windows-0.arrow   written by owner 2 in the third run of q5, for checkpoint 14
    manifests/000000014-000002.json           written last
    savepoints/before-upgrade.json            a manifest with a name, kept until it is removed

A driver first claims to be the owner, and then reads the manifests. Before it publishes anything it checks that it is
still the owner, so a driver that was replaced while it was paused publishes nothing. Such a driver may have written a
manifest. If it did so before the new owner read the manifests, the new owner resumes from it; else it has no effect.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol

from stretto.actors.address import Address
from stretto.actors.snapshot import Content, Snapshot, plain_of
from stretto.checkpoints import manifest as manifests
from stretto.checkpoints import pieces
from stretto.checkpoints.manifest import ActorRecord, FragmentRecord, Manifest, Piece, checksum_of, digest_of
from stretto.checkpoints.paths import snapshot_file
from stretto.errors import DamagedError, StorageError
from stretto.state import Fragment

KEPT = 3
"""The number of complete checkpoints that are kept by default."""


class Files(Protocol):
    """Storage, by paths below one directory. All methods raise a StorageError when they fail."""

    def write(self, path: str, parts: Sequence[Any]) -> None:
        """Write a file. It appears under its name only when it is complete, and is durable when this returns."""

    def create(self, path: str) -> bool:
        """Create an empty file; returns False if it existed. Of several concurrent calls, exactly one creates it."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Returns a range of bytes of a file, shorter if the file is."""

    def names(self, directory: str) -> list[str]:
        """Returns the relative paths of the files below a directory, at any depth; none if there is no directory."""

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files; files that do not exist are ignored."""


class CheckpointStore:
    """The checkpoints of one app."""

    def __init__(self, files: Files, owner: int = 0) -> None:
        self._files = files
        self.owner = owner
        self._written: dict[Address, dict[tuple[str, int], Piece]] = {}
        """The pieces that are stored already, of each actor here, by state and fragment."""
        self._saved: dict[str, set[str]] = {}
        """The files of the savepoints that were written here, by the path of the savepoint."""

    # Owning.

    def claim(self) -> int:
        """Become the owner: no former owner may publish any more. Of several drivers that claim a number at once, one
        gets it; the others take later ones."""
        number = 0
        while True:
            number = max(number, self._greatest_owner()) + 1
            if self._files.create(f"owners/{number:06d}"):
                self.owner = number
                return number

    def lineage(self, proposed: str) -> str:
        """Returns the name of these checkpoints; it is the proposed one if they have none yet."""
        if not self._lineages():
            self._files.create(f"lineage/{proposed}")
        return min(self._lineages())

    def _lineages(self) -> list[str]:
        return [name for name in self._files.names("lineage") if _LINEAGE.fullmatch(name)]

    def is_owner(self) -> bool:
        return self._greatest_owner() == self.owner

    def _greatest_owner(self) -> int:
        return max((int(name) for name in self._files.names("owners") if name.isdecimal()), default=0)

    # Writing.

    def store(self, address: Address, snapshot: Snapshot) -> ActorRecord:
        """Write the new pieces of an actor into one file; returns the record for the manifest."""
        known = self._written.get(address, {})
        name = f"{_safe(address.function)}-{address.partition}.arrow"
        where = f"data/{self.owner:06d}/{_safe(address.job)}/{snapshot.checkpoint:06d}/{name}"
        parts: list[Any] = []
        offset = 0

        def added(content: Any) -> Piece:
            nonlocal offset
            if content is None:
                raise StorageError(f"a fragment of {address} is not stored", None, "The next checkpoint writes it.")
            part = pieces.encoded(content)
            parts.append(part)
            piece = Piece(where, offset, part.size, checksum_of(part))
            offset += part.size
            return piece

        plain = added(snapshot.plain)
        states = {}
        for state, fragments in snapshot.fragments.items():
            states[state] = [
                FragmentRecord(fragment.number, known.get((state, fragment.number)) or added(fragment.content))
                for fragment in fragments
            ]
        self._files.write(where, parts)
        self._remember(address, states)
        return ActorRecord(plain, states, snapshot.finished, snapshot.watermark_us)

    def _remember(self, address: Address, states: dict[str, list[FragmentRecord]]) -> None:
        self._written[address] = {
            (name, record.number): record.piece for name, records in states.items() for record in records
        }

    def commit(self, manifest: Manifest) -> None:
        """Write the manifest, which completes the checkpoint; all files that it names must be stored."""
        if manifest.savepoint is not None:
            path = f"savepoints/{_safe(manifest.savepoint)}.json"
            self._files.write(path, [manifests.encoded(manifest)])
            self._saved[path] = manifest.files()
        self._files.write(self._name_of(manifest), [manifests.encoded(manifest)])

    def _name_of(self, manifest: Manifest) -> str:
        return f"manifests/{manifest.checkpoint:09d}-{self.owner:06d}.json"

    # Reading.

    def manifests(self) -> tuple[list[Manifest], list[str]]:
        """Returns the readable complete checkpoints, the latest last, and the errors of the others. Where the latest is
        there and only cannot be reached, that is raised: it may be readable soon."""
        found: dict[int, Manifest] = {}
        wrong: list[str] = []
        for name in sorted(self._files.names("manifests"), reverse=True):
            if not _MANIFEST.fullmatch(name):
                continue
            try:
                manifest = self._manifest(f"manifests/{name}", int(name[:9]))
                found.setdefault(manifest.checkpoint, manifest)  # The latest owner's, since names are sorted.
            except StorageError as error:
                if not found and not isinstance(error, DamagedError):
                    raise
                wrong.insert(0, str(error))
        return [found[checkpoint] for checkpoint in sorted(found)], wrong

    def _manifest(self, path: str, checkpoint: int | None = None) -> Manifest:
        """Returns the manifest in a file, which must be of the checkpoint that the name says."""
        manifest = manifests.decoded(self._files.read(path), path)
        if checkpoint is not None and manifest.checkpoint != checkpoint:
            raise DamagedError(f"the manifest {path} cannot be used", f"it is of checkpoint {manifest.checkpoint}")
        return manifest

    def savepoint(self, name: str) -> Manifest:
        """Returns the savepoint of this name."""
        path, known = f"savepoints/{_safe(name)}.json", self._savepoints()
        if path not in known:
            names = sorted(each.removeprefix("savepoints/").removesuffix(".json") for each in known)
            raise StorageError(f"there is no savepoint '{name}'", f"there are {', '.join(names) or 'none'}")
        return self._manifest(path)

    def _savepoints(self) -> list[str]:
        return [f"savepoints/{name}" for name in self._files.names("savepoints") if name.endswith(".json")]

    def rewind(self, savepoint: Manifest) -> None:
        """Make a savepoint the only checkpoint, so that what came after it is computed again."""
        self.commit(savepoint)
        current = self._name_of(savepoint)
        others = [f"manifests/{name}" for name in self._files.names("manifests") if _MANIFEST.fullmatch(name)]
        self._files.delete([path for path in others if path != current])

    def fetch(self, address: Address, record: ActorRecord, same: bool = True) -> Content:
        """Returns a snapshot for an actor; raises a DamagedError if any of it is not as it was written. If the actor is
        not the `same` that wrote it, its next checkpoint writes everything again."""
        assert record.plain is not None
        path = record.plain.path
        try:
            plain = plain_of(self._content(record.plain))
        except StorageError:
            raise
        except Exception as error:
            raise DamagedError(f"the checkpoint file {path} does not hold a snapshot", str(error)) from error
        if plain.described.keys() != record.states.keys():
            detail = f"the manifest has {_list(record.states)}, the snapshot {_list(plain.described)}"
            raise DamagedError(f"the checkpoint file {path} is of other states than its manifest", detail)
        fragments = {
            name: [Fragment(found.number, self._content(found.piece)) for found in records]
            for name, records in record.states.items()
        }
        if same:
            self._remember(address, record.states)
        return Content(plain, fragments, record.finished, path, _paths_of(record))

    def _content(self, piece: Piece) -> Any:
        data = self._files.read(piece.path, piece.offset, piece.bytes)
        if len(data) != piece.bytes or checksum_of(data) != piece.checksum:
            raise DamagedError(
                f"the checkpoint file {piece.path} is damaged",
                f"{len(data)} of {piece.bytes} bytes from {piece.offset} on"
                + (", and their checksum does not match" if len(data) == piece.bytes else ""),
            )
        return pieces.decoded(data, piece.path)

    def forget(self, job: str) -> None:
        """A run has ended: forget the pieces that it stored."""
        self._written = {address: known for address, known in self._written.items() if address.job != job}

    # Removing.

    def prune(self, kept: Sequence[Manifest]) -> None:
        """Remove the manifests older than `kept`, then the files that only they needed."""
        if not kept:
            return
        oldest = kept[0].checkpoint
        gone: set[str] = set()
        names = []
        for name in self._files.names("manifests"):
            if _MANIFEST.fullmatch(name) and int(name[:9]) < oldest:
                names.append(f"manifests/{name}")
                try:
                    gone |= self._manifest(names[-1], int(name[:9])).files()
                except StorageError:
                    continue  # `sweep` removes its files.
        if names:
            self._files.delete(names)
            self._files.delete(self._unneeded(gone, kept)[0])

    def sweep(self, kept: Sequence[Manifest]) -> list[str]:
        """Remove the files of earlier owners that no manifest names; returns the errors of savepoints that cannot be
        read. Files that are not of snapshots stay."""
        found = [f"data/{name}" for name in self._files.names("data")]
        unneeded, wrong = self._unneeded([path for path in found if self._is_earlier(path)], kept)
        self._files.delete(unneeded)
        return wrong

    def _unneeded(self, paths: Collection[str], kept: Sequence[Manifest]) -> tuple[list[str], list[str]]:
        """Returns which of these files neither these checkpoints nor a savepoint needs, and the errors of savepoints
        that cannot be read. Nobody knows which files such a savepoint needs, so all of earlier owners stay: it may be
        readable later, by another version or from a backup."""
        needed = {path for manifest in kept for path in manifest.files()}
        wrong, unknown = [], False
        for savepoint in sorted(self._savepoints()):
            try:
                needed |= self._manifest(savepoint).files()
            except StorageError as error:
                wrong.append(str(error))
                needed |= self._saved.get(savepoint, set())
                unknown |= savepoint not in self._saved
        unneeded = sorted(path for path in paths if path not in needed)
        return [path for path in unneeded if not (unknown and self._is_earlier(path))], wrong

    def _is_earlier(self, path: str) -> bool:
        """Whether a file has snapshots of an earlier owner."""
        file = snapshot_file(path)
        return file is not None and file.owner < self.owner


_MANIFEST = re.compile(r"\d{9}-\d{6}\.json")
_LINEAGE = re.compile(r"[0-9a-f]{8}")


def _paths_of(record: ActorRecord) -> dict[str, str]:
    """Returns the files of each state, as a text."""
    return {
        name: ", ".join(dict.fromkeys(found.piece.path for found in records)) for name, records in record.states.items()
    }


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _safe(name: str) -> str:
    """Returns a name as a part of a path; a name with other characters gets a checksum, so that paths stay distinct."""
    plain = re.sub(r"[^A-Za-z0-9_~#-]", "_", name)
    return plain if plain == name else f"{plain}.{digest_of(name.encode())[:8]}"
