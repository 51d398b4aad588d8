"""Workers ask the homes of shared objects what they hold."""

from __future__ import annotations

import msgspec


class ObjectsAsked(msgspec.Struct, frozen=True, tag="objectsasked"):
    """What do these objects of a space hold? Asked of the home of a partition of them, also to learn which writes it
    has made."""

    job: str
    space: str
    partition: int
    number: int
    names: tuple[str, ...]


class Held(msgspec.Struct, frozen=True, array_like=True):
    """What an object holds; without a kind, nothing."""

    kind: str | None
    data: bytes
    version: int


class ObjectsSent(msgspec.Struct, frozen=True, tag="objectssent"):
    """The answer: what each holds, and the last write of each writer on the asker's worker that is in them."""

    job: str
    space: str
    partition: int
    number: int
    objects: tuple[Held, ...]
    applied: dict[str, int]
