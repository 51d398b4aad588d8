"""Where the checkpoints of one app are kept, and how one is written, found, read and removed.

    lineage/5f0c9a1e                          a name for this directory, wherever it is moved
    owners/000002                             who may commit: the greatest number
    data/000002/q5~3/000014/windows-0.arrow   written by the second owner in the third run of q5, for checkpoint 14
    manifests/000000014-000002.json           written last
    savepoints/before-upgrade.json            a manifest that was asked for by name, and is kept until it is removed

A driver begins by claiming to be the owner, and then looks at the manifests. Before it publishes anything it looks
whether it still is: a driver that was replaced while it was paused then knows. It may have written a manifest
meanwhile, but either before the new owner looked, who then goes on from it, or it publishes nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from stretto.actors.address import Address
from stretto.actors.snapshot import Content, Snapshot
from stretto.checkpoints import manifest as manifests
from stretto.checkpoints import pieces
from stretto.checkpoints.manifest import ActorRecord, FragmentRecord, Manifest, Piece, checksum_of, digest_of
from stretto.errors import DamagedError, StorageError
from stretto.state import Fragment
from stretto.state.packing import unpacked

KEPT = 3
"""Complete checkpoints that are kept, unless the app says."""


class Files(Protocol):
    """Storage, by paths below one directory. All raise StorageError when they cannot do it."""

    def write(self, path: str, parts: Sequence[Any]) -> None:
        """Write a file. It has its name only when it is whole, and is durable when this returns."""

    def create(self, path: str) -> bool:
        """Make an empty file, or say that it was there already. Of several that try at once, exactly one makes it."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """A stretch of a file, shorter if the file is."""

    def names(self, directory: str) -> list[str]:
        """The files below a directory, at any depth, by their path from there; none if there is no such directory."""

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files; those that are gone already do not matter."""


class CheckpointStore:
    """The checkpoints of one app."""

    def __init__(self, files: Files, owner: int = 0) -> None:
        self._files = files
        self.owner = owner
        self._written: dict[Address, dict[tuple[str, int], Piece]] = {}
        """What is stored already of each actor here, by state and fragment."""

    # Owning.

    def claim(self) -> int:
        """Become the owner: nobody who was it before may publish any more. Of several drivers that claim a number at
        once, one gets it; the others take later ones."""
        number = 0
        while True:
            number = max(number, self._greatest_owner()) + 1
            if self._files.create(f"owners/{number:06d}"):
                self.owner = number
                return number

    def lineage(self, proposed: str) -> str:
        """The name of these checkpoints: the proposed one, if they have none yet."""
        if not self._files.names("lineage"):
            self._files.create(f"lineage/{proposed}")
        return min(self._files.names("lineage"))

    def is_owner(self) -> bool:
        return self._greatest_owner() == self.owner

    def _greatest_owner(self) -> int:
        return max((int(name) for name in self._files.names("owners") if name.isdecimal()), default=0)

    # Writing.

    def store(self, address: Address, snapshot: Snapshot) -> ActorRecord:
        """Write what is new of an actor into one file."""
        known = self._written.get(address, {})
        name = f"{_safe(address.function)}-{address.partition}.arrow"
        where = f"data/{self.owner:06d}/{_safe(address.job)}/{snapshot.checkpoint:06d}/{name}"
        parts: list[Any] = []
        offset = 0

        def added(content: Any) -> Piece:
            nonlocal offset
            if content is None:
                raise StorageError(f"a part of {address} was not stored before", None, "The next checkpoint has it.")
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
        """The checkpoint is complete; all that it names must be stored."""
        if manifest.savepoint is not None:
            self._files.write(f"savepoints/{_safe(manifest.savepoint)}.json", [manifests.encoded(manifest)])
        self._files.write(self._name_of(manifest), [manifests.encoded(manifest)])

    def _name_of(self, manifest: Manifest) -> str:
        return f"manifests/{manifest.checkpoint:09d}-{self.owner:06d}.json"

    # Reading.

    def manifests(self) -> tuple[list[Manifest], list[str]]:
        """The complete checkpoints that can be read, the latest last, and what is wrong with the others."""
        found: dict[int, Manifest] = {}
        wrong = []
        for name in sorted(self._files.names("manifests")):
            if not _MANIFEST.fullmatch(name):
                continue
            path = f"manifests/{name}"
            try:
                manifest = manifests.decoded(self._files.read(path), path)
                found[manifest.checkpoint] = manifest  # Of one checkpoint, that of the later owner.
            except DamagedError as error:
                wrong.append(str(error))
        return [found[checkpoint] for checkpoint in sorted(found)], wrong

    def savepoint(self, name: str) -> Manifest:
        """The savepoint of this name."""
        path = f"savepoints/{_safe(name)}.json"
        if f"{_safe(name)}.json" not in self._files.names("savepoints"):
            known = sorted(each.removesuffix(".json") for each in self._files.names("savepoints"))
            raise StorageError(f"there is no savepoint '{name}'", f"there are {', '.join(known) or 'none'}")
        return manifests.decoded(self._files.read(path), path)

    def rewind(self, savepoint: Manifest) -> None:
        """Make a savepoint the only checkpoint: what came after it is to happen anew."""
        self.commit(savepoint)
        current = self._name_of(savepoint)
        others = [f"manifests/{name}" for name in self._files.names("manifests") if _MANIFEST.fullmatch(name)]
        self._files.delete([path for path in others if path != current])

    def _needed(self, kept: Sequence[Manifest]) -> set[str]:
        """The files of these checkpoints and of all savepoints."""
        saved = [f"savepoints/{name}" for name in self._files.names("savepoints")]
        named = [manifests.decoded(self._files.read(path), path) for path in saved]
        return {path for manifest in (*kept, *named) for path in manifest.files()}

    def fetch(self, address: Address, record: ActorRecord, same: bool = True) -> Content:
        """Read a snapshot for an actor; a DamagedError if any of it is not as it was written. Where it is not the
        `same` actor as it was of, all that it will have is new."""
        assert record.plain is not None
        plain = unpacked(self._content(record.plain))
        fragments = {
            name: [Fragment(found.number, self._content(found.piece)) for found in records]
            for name, records in record.states.items()
        }
        if same:
            self._remember(address, record.states)
        return Content(plain, fragments, record.finished)

    def _content(self, piece: Piece) -> Any:
        data = self._files.read(piece.path, piece.offset, piece.bytes)
        if len(data) != piece.bytes or checksum_of(data) != piece.checksum:
            raise DamagedError(
                f"the checkpoint file {piece.path} is damaged",
                f"{len(data)} of {piece.bytes} bytes from {piece.offset} on"
                + (", and their checksum is another" if len(data) == piece.bytes else ""),
            )
        return pieces.decoded(data, piece.path)

    def forget(self, job: str) -> None:
        """A run has ended: what was stored of it is not referred to any more."""
        self._written = {address: known for address, known in self._written.items() if address.job != job}

    # Removing.

    def prune(self, kept: Sequence[Manifest]) -> None:
        """Remove the manifests that are older than those to be kept, then the files that only they needed."""
        if not kept:
            return
        oldest = kept[0].checkpoint
        gone: set[str] = set()
        names = []
        for name in self._files.names("manifests"):
            if _MANIFEST.fullmatch(name) and int(name[:9]) < oldest:
                names.append(f"manifests/{name}")
                try:
                    gone |= manifests.decoded(self._files.read(names[-1]), names[-1]).files()
                except StorageError:
                    continue  # What it needed is found by `sweep`.
        if names:
            self._files.delete(names)
            self._files.delete(sorted(gone - self._needed(kept)))

    def sweep(self, kept: Sequence[Manifest]) -> None:
        """Remove all that earlier owners have left and no manifest names; nobody of theirs counts any more."""
        needed = self._needed(kept)
        old = [f"data/{name}" for name in self._files.names("data") if int(name[:6]) < self.owner]
        self._files.delete([path for path in old if path not in needed])


_MANIFEST = re.compile(r"\d{9}-\d{6}\.json")


def _safe(name: str) -> str:
    """A name as a part of a path; names that would look the same get a checksum."""
    plain = re.sub(r"[^A-Za-z0-9_~#-]", "_", name)
    return plain if plain == name else f"{plain}.{digest_of(name.encode())[:8]}"
