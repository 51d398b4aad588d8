"""JSON texts as trees, read and written as Jackson does for Spark.

An object is a list of pairs, since a key may come twice; a number is its text, since no type holds all of them. There
is no kernel that reads JSON exactly so, hence one Python call for each distinct text of a batch.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from enum import Enum
from typing import Any

import pyarrow as pa

from stretto.expressions.texts import java_double

#: Jackson refuses longer numbers.
_NUMBER_LENGTH_MAX = 1000
SPACES = " \t\n\r"
"""White space of JSON: a text of nothing else has no value."""
_TOKEN = re.compile(
    r"""(?P<double>"(?:[^"\\]|\\.)*")|'(?P<single>(?:[^'\\]|\\.)*)'|(?<![\w.])(?P<sign>[+-])(?P<infinite>INF|Infinity)\b""",
    re.DOTALL,
)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_ESCAPED_OR_ASTRAL = re.compile('["\\\\\\x00-\\x1f\\ud800-\\udfff\\U00010000-\\U0010ffff]')
_HALF = re.compile("[\\ud800-\\udfff]")


class NotJson(Exception):
    """A text that Jackson does not read."""


class Pairs(list[Any]):
    """An object: its pairs of key and value."""


class Whole(str):
    """A number without point and exponent."""


class Real(str):
    """A number with a point or an exponent, or one that is not finite."""


class Reading(Enum):
    """What a reader of JSON lets pass."""

    #: get_json_object and its like: a string may have control characters.
    LENIENT = False
    #: from_json: NaN and infinities are numbers.
    STRICT = True


def _number(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        if len(text) > _NUMBER_LENGTH_MAX:
            raise NotJson
        return kind(text)

    return read


def _no_constant(text: str) -> Any:
    raise NotJson


_DECODERS = {
    reading: json.JSONDecoder(
        object_pairs_hook=Pairs,
        parse_int=_number(Whole),
        parse_float=_number(Real),
        parse_constant=Real if reading is Reading.STRICT else _no_constant,
        strict=reading.value,
    )
    for reading in Reading
}


def tree_of(text: str, reading: Reading) -> Any:
    """Returns the first value of a text; what follows it is not read."""
    try:
        return _decoded(text, reading)
    except NotJson:
        pass
    # Rarely: Jackson takes single quotes and INF for what they stand for.
    plain = _TOKEN.sub(lambda found: _rewritten(found, reading), text)
    if plain == text:
        raise NotJson
    return _decoded(plain, reading)


def _decoded(text: str, reading: Reading) -> Any:
    start = len(text) - len(text.lstrip(SPACES))
    try:
        tree, end = _DECODERS[reading].raw_decode(text, start)
    except (ValueError, RecursionError):
        raise NotJson from None
    if isinstance(tree, Whole | Real) and end < len(text) and text[end] not in SPACES:
        raise NotJson
    return tree


def _rewritten(found: re.Match[str], reading: Reading) -> str:
    if found["infinite"]:
        minus = "-" if found["sign"] == "-" else ""
        return f"{minus}Infinity" if reading is Reading.STRICT else found[0]
    if found["double"]:
        return found[0].replace("\\'", "'") if "\\\\" not in found[0] else found[0]
    inner = re.sub(
        r"\\.|\"", lambda part: {"\\'": "'", '"': '\\"'}.get(part[0], part[0]), found["single"], flags=re.DOTALL
    )
    return f'"{inner}"'


def quoted_text(text: str, astral: bool) -> str:
    """Returns a string in quotes; `astral` says whether what is beyond 16 bits is written as it is."""
    return f'"{(_ESCAPED if astral else _ESCAPED_OR_ASTRAL).sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    if char in _ESCAPES:
        return _ESCAPES[char]
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(units[place : place + 2]):04X}" for place in range(0, len(units), 2))


def written(tree: Any) -> str:
    """Returns the text of a tree: without spaces, doubles as Java writes them."""
    if tree is None:
        return "null"
    if isinstance(tree, bool):
        return "true" if tree else "false"
    if isinstance(tree, Whole):
        return str(int(tree))
    if isinstance(tree, Real):
        value = float(tree)
        return java_double(value) if math.isfinite(value) else f'"{java_double(value)}"'
    if isinstance(tree, str):
        return quoted_text(tree, astral=False)
    if isinstance(tree, Pairs):
        return "{" + ",".join(f"{quoted_text(key, astral=False)}:{written(value)}" for key, value in tree) + "}"
    return f"[{','.join(map(written, tree))}]"


def has_half(text: str) -> bool:
    """Whether a text has half of a surrogate pair, which UTF-8 cannot write."""
    return _HALF.search(text) is not None


def well_formed(text: str) -> str:
    """Returns a text that UTF-8 has; half of a surrogate pair is a question mark, as in Java."""
    return text.encode("utf-8", "replace").decode("utf-8")


def of_each_text(texts: pa.Array, make: Callable[[str], Any], kind: pa.DataType) -> pa.Array:
    """Returns what a function makes of each text, called once for each distinct one; null for a null."""
    encoded = texts.dictionary_encode()
    found = pa.array([make(text) for text in encoded.dictionary.to_pylist()], kind)
    if not len(found):
        return pa.nulls(len(texts), kind)
    return found.take(encoded.indices)


def is_plain_text(tree: Any) -> bool:
    """Whether this is a string, and not a number."""
    return type(tree) is str
