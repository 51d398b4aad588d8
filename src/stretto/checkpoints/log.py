"""The log of a checkpoint directory: which driver may commit, and which checkpoint is the last.

    log/000000001.json   a driver claims the directory; it is owner 1
    log/000000002.json   owner 1 commits a checkpoint
    log/000000003.json   owner 1 commits another one
    log/000000004.json   another driver claims the directory; it is owner 4, and resumes from the entry before

Claims and commits are entries of one sequence, and each is created only if its place is free, in one operation:

- A claim takes the place after the last entry. It counts if no later entry exists after it was created.
- A commit takes the place after the last entry of its own driver, and no other.
- Claims and the last entry are never removed.

So the place after an owner's last entry is free, or the claim of its successor is there, for good: an earlier owner
cannot commit after a claim, however long it was paused. What it committed before, the new owner finds, because it reads
the log after its claim. The order of the entries is the only order: neither owners nor numbers of checkpoints are
compared across entries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from stretto.checkpoints import manifest as manifests
from stretto.checkpoints.manifest import Manifest, digest_of
from stretto.errors import DamagedError, RemovedError, StorageError, TakenOverError

_NAME = re.compile(r"\d{9,}\.json")


class Claim(msgspec.Struct, frozen=True):
    """A driver's claim. `by` describes the driver to others, `token` tells its claim from all others."""

    by: str
    token: str


class _SealedClaim(msgspec.Struct, frozen=True):
    """A claim in its file, with a checksum."""

    digest: str
    claim: Claim


class LogFiles(Protocol):
    """What the log needs of the storage."""

    def create(self, path: str, parts: Sequence[Any]) -> bool: ...

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes: ...

    def names(self, directory: str) -> list[str]: ...

    def delete(self, paths: Iterable[str]) -> None: ...


class Log:
    """The log as one driver uses it. `owner` is the place of its claim, or 0."""

    def __init__(self, files: LogFiles) -> None:
        self._files = files
        self.owner = 0
        self._claim: Claim | None = None
        self._last = 0
        """The place of this driver's last entry."""

    # Writing.

    def claim(self, by: str, token: str) -> int:
        """Become the owner. Raises a TakenOverError if another driver claims the directory right after this one."""
        claim = Claim(by, token)
        place = 0
        while True:
            place = max(place, self.greatest()) + 1
            if not self._placed(place, _encoded(claim)):
                continue
            if self.greatest() == place:
                self.owner = self._last = place
                self._claim = claim
                return place
            # It took the place of an entry that the owner has removed meanwhile, or another driver came right after it.
            following = self._entry(place + 1)
            if isinstance(following, Claim):
                raise _taken_over(following)

    def append(self, manifest: Manifest) -> int:
        """Commit a manifest, and return its place. Raises a TakenOverError if another driver has claimed the directory,
        and a RemovedError if the claim of this one is not there any more."""
        self._check_claim()
        content = manifests.encoded(manifest)
        while not self._placed(place := self._next_place(manifest), content):
            found = self._entry(place)
            if not (isinstance(found, Manifest) and found.owner == self.owner):
                raise _taken_over(found)
            self._last = place  # An earlier commit of this driver, which was told that it failed.
        self._last = place
        return place

    def _next_place(self, manifest: Manifest) -> int:
        return self._last + 1

    def _placed(self, place: int, content: bytes) -> bool:
        """Create an entry; returns whether it is the one in this place. A request whose answer was lost counts."""
        try:
            if self._files.create(_path(place), [content]):
                return True
        except StorageError:
            if self._content(place) != content:
                raise
            return True
        return self._content(place) == content

    def remove(self, places: Iterable[int]) -> None:
        """Remove manifests that are not needed. They must be none of the last entry and of claims."""
        self._files.delete([_path(place) for place in places])

    # Reading.

    def check(self) -> None:
        """Raises a TakenOverError or a RemovedError if this driver is not the owner any more."""
        self._check_claim()
        for place in self.places():
            if place > self._last and isinstance(found := self._entry(place), Claim):
                raise _taken_over(found)

    def _check_claim(self) -> None:
        try:
            content = self._files.read(_path(self.owner))
        except DamagedError as error:
            raise RemovedError(
                "somebody has removed the checkpoints",
                f"the claim of this driver is gone: {error.fact}",
                "Start the job again; it begins from scratch unless the directory is restored.",
            ) from error
        try:
            found = _decoded(content, _path(self.owner))
        except DamagedError:
            return  # Its place is what counts, and that is taken.
        if found != self._claim:
            raise _taken_over(found)

    def greatest(self) -> int:
        return max(self.places(), default=0)

    def places(self) -> list[int]:
        return sorted(int(name.removesuffix(".json")) for name in self._files.names("log") if _NAME.fullmatch(name))

    def manifests(self, report: Callable[[StorageError], None]) -> Iterator[tuple[int, Manifest]]:
        """Yields the places and manifests of all commits in order; calls `report` for an entry that cannot be read."""
        for place in self.places():
            try:
                entry = _decoded(self._files.read(_path(place)), _path(place))
            except StorageError as error:
                report(error)
                continue
            if isinstance(entry, Manifest):
                yield place, entry

    def _entry(self, place: int) -> Claim | Manifest | None:
        content = self._content(place)
        try:
            return None if content is None else _decoded(content, _path(place))
        except DamagedError:
            return None

    def _content(self, place: int) -> bytes | None:
        try:
            return self._files.read(_path(place))
        except DamagedError:
            return None  # There is no such file.


def _path(place: int) -> str:
    return f"log/{place:09d}.json"


def _encoded(claim: Claim) -> bytes:
    return msgspec.json.encode(_SealedClaim(_digest(claim), claim))


def _decoded(content: bytes, path: str) -> Claim | Manifest:
    """Returns the entry in a file; raises a DamagedError if the file is not as it was written."""
    try:
        sealed = msgspec.json.decode(content, type=_SealedClaim)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return manifests.decoded(content, path)
    if _digest(sealed.claim) != sealed.digest:
        raise DamagedError(f"the claim {path} is damaged", "its checksum does not match")
    return sealed.claim


def _digest(claim: Claim) -> str:
    return digest_of(msgspec.json.encode(claim))


def _taken_over(entry: Claim | Manifest | None) -> TakenOverError:
    return TakenOverError(
        "another driver has taken over the checkpoints",
        f"it is {entry.by}" if isinstance(entry, Claim) else None,
        "Run the app from one driver at a time.",
    )
