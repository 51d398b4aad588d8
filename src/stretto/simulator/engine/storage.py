"""In-memory files with the faults of real ones: full disk, torn writes, flipped bits."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stretto.errors import DamagedError, StorageError


class SimulatedFiles:
    """Storage that survives crashes. `full` makes every write fail. `claims` is how often the checkpoints were
    claimed, and `owner` their last owner; both are for the checks."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.full = False
        self.flipped = False
        self.claims = 0
        self.owner = 0

    def write(self, path: str, parts: Sequence[Any]) -> None:
        if self.full:
            raise StorageError(f"cannot write {path}", "no space left")
        self.contents[path] = b"".join(bytes(part) for part in parts)

    def create(self, path: str, parts: Sequence[Any]) -> bool:
        if path in self.contents:
            return False
        self.write(path, parts)
        return True

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if path not in self.contents:
            raise DamagedError(f"cannot read {path}", "there is no such file")
        content = self.contents[path][offset:]
        return content if length is None else content[:length]

    def names(self, directory: str) -> list[str]:
        start = f"{directory}/"
        return [path.removeprefix(start) for path in self.contents if path.startswith(start)]

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.contents.pop(path, None)

    def append(self, path: str, data: bytes) -> None:
        self.write(path, [self.contents.get(path, b""), data])

    def sync(self, path: str) -> None:
        """What was appended is there already; a writer that crashes leaves a part of it (`tear`)."""

    def close(self, path: str) -> None:
        """Nothing is open."""

    # Faults.

    def tear(self, path: str, parts: Sequence[Any], chance: random.Random) -> None:
        """Write only a part of a file, as when its writer crashes."""
        content = b"".join(bytes(part) for part in parts)
        self.contents[path] = content[: chance.randrange(len(content) + 1)]

    def flip(self, path: str, chance: random.Random) -> Callable[[], None]:
        """Flip one bit of a file. Returns what restores the file, if nobody has written it since."""
        whole = self.contents[path]
        content = bytearray(whole)
        if content:
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        flipped = self.contents[path] = bytes(content)

        def restore() -> None:
            if self.contents.get(path) == flipped:
                self.contents[path] = whole

        return restore
