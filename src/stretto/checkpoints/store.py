"""The store of one app's checkpoints: how one is written, found, read and removed.

    lineage/5f0c9a1e                          a name for this directory, wherever it is moved
    log/000000014.json                        a claim, or a manifest, which is written last (`log.py`)
    data/000012/q5~3/000014/windows-0.arrow   written by owner 12 in the third run of q5, for checkpoint 14
    savepoints/before-upgrade.json            a manifest with a name, kept until it is removed

A driver first claims to be the owner, and then reads the manifests. It publishes what it could commit, and a driver
that was replaced cannot commit any more. Nor does it remove anything that its successor needs: it removes the manifests
that it knows, but for the last ones, and files that only those name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from stretto.actors.address import Address
from stretto.actors.snapshot import Content, Snapshot, plain_of
from stretto.checkpoints import manifest as manifests
from stretto.checkpoints import pieces
from stretto.checkpoints.log import Log
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

    def create(self, path: str, parts: Sequence[Any]) -> bool:
        """Like `write`, but only if there is no such file; returns False if there is. Of several concurrent calls,
        exactly one creates it. If it raises, the file may have been created nevertheless."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Returns a range of bytes of a file, shorter if the file is."""

    def names(self, directory: str) -> list[str]:
        """Returns the relative paths of the files below a directory, at any depth; none if there is no directory."""

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files; files that do not exist are ignored."""


class CheckpointStore:
    """The checkpoints of one app."""

    def __init__(self, files: Files, owner: int = 0, log: type[Log] = Log) -> None:
        self._files = files
        self.owner = owner
        self._log = log(files)
        self._known: dict[int, Manifest] = {}
        """The manifests in the log that this driver has read or written, by their places."""
        self._written: dict[Address, dict[tuple[str, int], Piece]] = {}
        """The pieces that are stored already, of each actor here, by state and fragment."""
        self._saved: dict[str, set[str]] = {}
        """The files of the savepoints that were written here, by the path of the savepoint."""

    # Owning.

    def claim(self, by: str = "", token: str = "") -> int:
        """Become the owner: no former owner can commit any more. `by` describes this driver to the others, and `token`
        tells its claim from all others."""
        if self._files.names("owners"):
            raise StorageError(
                "the directory has checkpoints of an earlier version of stretto",
                "they have no log",
                "Use the version of stretto that wrote them, or another directory.",
            )
        self.owner = self._log.claim(by, token)
        return self.owner

    def lineage(self, proposed: str) -> str:
        """Returns the name of these checkpoints; it is the proposed one if they have none yet."""
        if not self._lineages():
            self._files.create(f"lineage/{proposed}", [])
        return min(self._lineages())

    def _lineages(self) -> list[str]:
        return [name for name in self._files.names("lineage") if _LINEAGE.fullmatch(name)]

    def check_owner(self) -> None:
        """Raises a TakenOverError if another driver has claimed the directory since, and a RemovedError if it was
        removed."""
        self._log.check()

    # Writing.

    def store(self, address: Address, snapshot: Snapshot) -> ActorRecord:
        """Write the new pieces of an actor into one file; returns the record for the manifest."""
        known = self._written.get(address, {})
        part = f".{_safe(snapshot.part)}" if snapshot.part else ""
        name = f"{_safe(address.function)}-{address.partition}{part}.arrow"
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
        """Write the manifest, which completes the checkpoint; all files that it names must be stored. Raises a
        TakenOverError or a RemovedError if this driver is not the owner any more."""
        self._known[self._log.append(replace(manifest, owner=self.owner, savepoint=None))] = manifest

    def save(self, manifest: Manifest) -> None:
        """Write a committed checkpoint as a savepoint."""
        assert manifest.savepoint is not None
        path = f"savepoints/{_safe(manifest.savepoint)}.json"
        self._files.write(path, [manifests.encoded(manifest)])
        self._saved[path] = manifest.files()

    # Reading.

    def manifests(self) -> tuple[list[Manifest], list[str]]:
        """Returns the readable complete checkpoints, the last in the log last, and the errors of entries after it.
        Those that come before a checkpoint with the same number or a smaller one are not among them: the app went back
        to that one. If an entry after the last one is there and only cannot be reached, that is raised: it may be
        readable soon."""
        found: list[Manifest] = []
        wrong: list[StorageError] = []
        for place, manifest in self._log.manifests(wrong.append):
            self._known[place] = manifest
            found = [each for each in found if each.checkpoint < manifest.checkpoint]
            found.append(manifest)
            wrong.clear()
        for error in wrong:
            if not isinstance(error, DamagedError):
                raise error
        return found, [str(error) for error in wrong]

    def savepoint(self, name: str) -> Manifest:
        """Returns the savepoint of this name."""
        path, known = f"savepoints/{_safe(name)}.json", self._savepoints()
        if path not in known:
            names = sorted(each.removeprefix("savepoints/").removesuffix(".json") for each in known)
            raise StorageError(f"there is no savepoint '{name}'", f"there are {', '.join(names) or 'none'}")
        return manifests.decoded(self._files.read(path), path)

    def _savepoints(self) -> list[str]:
        return [f"savepoints/{name}" for name in self._files.names("savepoints") if name.endswith(".json")]

    def go_back(self, kept: Sequence[Manifest]) -> None:
        """Make the last of these checkpoints the last one in the log, because the app resumes from it; then remove all
        that are not among them. Else somebody might resume from a later one, whose output will be withdrawn."""
        self.commit(kept[-1])
        self.prune(kept)

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
        # The actor has the state of all its tasks when it resumes, so it writes that of their parts again.
        parts = tuple(self.fetch(address, part, same=False) for part in record.parts)
        return Content(plain, fragments, record.finished, path, _paths_of(record), parts)

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
        """Remove the manifests that this driver knows and that are not kept, then the files that only they needed."""
        last = {manifest.checkpoint: place for place, manifest in self._known.items()}
        stays = {last.get(manifest.checkpoint) for manifest in kept}
        gone = [place for place in self._known if place not in stays]
        if kept and gone:
            files = {path for place in gone for path in self._known[place].files()}
            self._remove(gone)
            self._files.delete(self._unneeded(files, kept)[0])

    def _remove(self, places: Sequence[int]) -> None:
        self._log.remove(places)
        for place in places:
            del self._known[place]

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
                needed |= manifests.decoded(self._files.read(savepoint), savepoint).files()
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
