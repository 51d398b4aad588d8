"""Digests of bytes: md5, sha1, sha2 and crc32."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from typing import Any

from stretto.expressions import types
from stretto.expressions.arguments import data, whole
from stretto.expressions.nodes import Node, Site
from stretto.expressions.registry import Function, fixed, with_aliases
from stretto.expressions.rows import by_rows

#: By the number of bits; 0 is 256.
_SHA2: dict[int, Callable[[bytes], Any]] = {
    0: hashlib.sha256,
    224: hashlib.sha224,
    256: hashlib.sha256,
    384: hashlib.sha384,
    512: hashlib.sha512,
}


def _of_bytes(kind: Any, apply: Callable[[bytes], Any]) -> Function:
    return fixed(lambda site, node: by_rows(kind, apply, site, (data(node, site),)), 1)


def sha2(site: Site, node: Node, bits: Node) -> Node:
    """Returns a digest of so many bits, null of a number of bits that there is not."""

    def of_row(value: bytes, size: int) -> str | None:
        digest = _SHA2.get(size)
        return None if digest is None else str(digest(value).hexdigest())

    return by_rows(types.STRING, of_row, site, (data(node, site), whole(bits, site)))


FUNCTIONS = with_aliases(
    {
        "md5": _of_bytes(types.STRING, lambda value: hashlib.md5(value, usedforsecurity=False).hexdigest()),
        "sha1": _of_bytes(types.STRING, lambda value: hashlib.sha1(value, usedforsecurity=False).hexdigest()),
        "sha2": fixed(sha2, 2),
        "crc32": _of_bytes(types.BIGINT, zlib.crc32),
    },
    sha="sha1",
)
