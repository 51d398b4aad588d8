"""Reads the classes [...] and the escapes of a pattern into sets of characters."""

from __future__ import annotations

from stretto.expressions.java_regex import characters
from stretto.expressions.java_regex.characters import Ranges
from stretto.expressions.java_regex.reader import Flags, Reader
from stretto.expressions.java_regex.syntax import BadPattern, UnsupportedPattern

_CONTROLS = {"t": 9, "n": 10, "r": 13, "f": 12, "a": 7, "e": 27}
_OCTAL, _HEXADECIMAL = "01234567", "0123456789abcdefABCDEF"
_CASED = ("Lu", "Ll", "Lt")


def letter(point: int, flags: Flags) -> Ranges:
    """Returns one character, in both cases if a flag says so."""
    return characters.same_letter(point, flags.unicode_case) if flags.ignore_case else ((point, point),)


def bracketed(reader: Reader) -> Ranges:
    """Returns the set of [...], after its opening bracket has been taken."""
    negative = reader.take("^")
    ranges = _members(reader)
    if not reader.take("]"):
        raise BadPattern("an unclosed class [...")
    return characters.negated(ranges) if negative else ranges


def _members(reader: Reader) -> Ranges:
    """Returns the set up to a closing bracket, which stays; && binds looser than a list of members."""
    found: Ranges | None = None
    while True:
        if reader.done:
            raise BadPattern("an unclosed class [...")
        if reader.at("]") and found is not None:
            return found
        if reader.take_all("&&"):
            right = _right_side(reader)
            if right is None and found is None:
                raise BadPattern("&& without characters")
            if right is not None:
                found = right if found is None else characters.intersection(found, right)
            continue
        member = bracketed(reader) if reader.take("[") else _range(reader)
        found = member if found is None else characters.union(found, member)


def _right_side(reader: Reader) -> Ranges | None:
    right: Ranges | None = None
    while not reader.done and not reader.at("]") and not reader.at("&"):
        more = bracketed(reader) if reader.take("[") else _members(reader)
        right = more if right is None else characters.union(right, more)
    return right


def _range(reader: Reader) -> Ranges:
    """Returns one member of a class: a character, a range, or a named class."""
    if reader.take("\\"):
        if _is_class(reader):
            return escaped_set(reader)
        low = _escaped_point(reader)
    else:
        low = ord(reader.next())
    if not reader.at("-") or reader.peek_raw(1, "") in ("[", "]", ""):
        return letter(low, reader.flags)
    reader.take("-")
    if reader.take("\\"):
        if _is_class(reader):
            raise BadPattern("a range that ends in a class")
        high = _escaped_point(reader)
    else:
        high = ord(reader.next())
    if high < low:
        raise BadPattern("a range whose end is before its start")
    flags = reader.flags
    return characters.range_in_any_case(low, high, flags.unicode_case) if flags.ignore_case else ((low, high),)


def _is_class(reader: Reader) -> bool:
    char = reader.peek_raw()
    return char.lower() in characters.ESCAPED or char in "pP"


def escaped_set(reader: Reader) -> Ranges:
    """Returns the set behind a backslash that has been taken."""
    if not _is_class(reader):
        return letter(_escaped_point(reader), reader.flags)
    char = reader.next_raw()
    ranges = _property(reader) if char in "pP" else characters.ESCAPED[char.lower()]
    return characters.negated(ranges) if char.isupper() else ranges


def _escaped_point(reader: Reader) -> int:
    """Returns the character that an escape stands for."""
    char = reader.next_raw()
    if char in _CONTROLS:
        return _CONTROLS[char]
    if char == "0":
        return _octal(reader)
    if char == "c":
        return ord(reader.next_raw()) ^ 64
    if char == "x":
        return _hexadecimal(reader)
    if char == "u":
        return _utf16(reader)
    if char.isascii() and char.isalnum():
        raise BadPattern(f"an unknown escape \\{char}")
    return ord(char)


def _octal(reader: Reader) -> int:
    digits = ""
    while (digit := reader.peek_raw(0, "")) and digit in _OCTAL and int(digits + digit, 8) < 256:
        digits += reader.next_raw()
        if len(digits) == 3:
            break
    if not digits:
        raise BadPattern("\\0 without octal digits")
    return int(digits, 8)


def _hexadecimal(reader: Reader) -> int:
    digits = reader.until("}") if reader.take_all("{") else reader.next_raw() + reader.next_raw()
    if not digits or set(digits) - set(_HEXADECIMAL) or int(digits, 16) > 0x10FFFF:
        raise BadPattern("\\x without hexadecimal digits")
    return int(digits, 16)


def _utf16(reader: Reader) -> int:
    unit = _unit(reader)
    if 0xD800 <= unit < 0xDC00 and reader.take_all("\\u"):
        low = _unit(reader)
        if not 0xDC00 <= low < 0xE000:
            raise UnsupportedPattern("half of a surrogate pair")
        return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)
    if 0xD800 <= unit < 0xE000:
        raise UnsupportedPattern("half of a surrogate pair")
    return unit


def _unit(reader: Reader) -> int:
    digits = "".join(reader.next_raw() for _ in range(4))
    if set(digits) - set(_HEXADECIMAL):
        raise BadPattern("\\u without four hexadecimal digits")
    return int(digits, 16)


def _property(reader: Reader) -> Ranges:
    """Returns the set of \\p{name}, after the p has been taken."""
    name = reader.until("}") if reader.take_all("{") else reader.next_raw()
    key, _, value = name.partition("=")
    if value and key.lower() in ("general_category", "gc"):
        ranges = characters.category(value)
    elif value and key.lower() in ("block", "blk"):
        ranges = characters.block(value)
    elif name in characters.POSIX:
        ranges = characters.POSIX[name]
    elif name.startswith("In"):
        ranges = characters.block(name[2:])
    else:
        ranges = characters.category(name.removeprefix("Is"))
    if ranges is None:
        raise UnsupportedPattern(f"\\p{{{name}}}")
    if reader.flags.ignore_case and (name in ("Lower", "Upper") or (value or name.removeprefix("Is")) in _CASED):
        return characters.POSIX["Alpha"] if name in characters.POSIX else characters.category("LC") or ()
    return ranges
