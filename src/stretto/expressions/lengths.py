"""How long a text or a binary is: in characters, bytes or bits."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from stretto.expressions import types
from stretto.expressions.arguments import text_or_bytes
from stretto.expressions.nodes import Node, Site, kernel
from stretto.expressions.registry import fixed, with_aliases


def length(site: Site, node: Node) -> Node:
    """Returns the number of characters of a text, or of bytes of a binary."""
    subject = text_or_bytes(node, site)
    count = pc.binary_length if subject.type == types.BINARY else pc.utf8_length
    return kernel(types.INT, lambda values: pc.cast(count(values), types.INT), site, (subject,))


def octets(site: Site, node: Node) -> Node:
    return kernel(types.INT, _bytes, site, (text_or_bytes(node, site),))


def bits(site: Site, node: Node) -> Node:
    return kernel(types.INT, lambda values: pc.multiply(_bytes(values), 8), site, (text_or_bytes(node, site),))


def _bytes(values: Any) -> Any:
    return pc.cast(pc.binary_length(values), types.INT)


FUNCTIONS = with_aliases(
    {"length": fixed(length, 1), "octet_length": fixed(octets, 1), "bit_length": fixed(bits, 1)},
    len="length",
    char_length="length",
    character_length="length",
)
