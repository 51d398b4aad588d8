"""The decimal digits that Java 17 prints for a double or a float.

`Double.toString` of Java 17 is not always the shortest text that reads back as the same number (1e23 is
9.999999999999999E22); Java 19 is the first to print that. Spark casts to string by it, and takes its digits where it
makes a decimal of a double, or rounds one. So this is Java's own algorithm (`jdk.internal.math.FloatingDecimal`), in
integers of any size where Java has three copies of it by size.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal

_FRACTION = 52
_HIDDEN = 1 << _FRACTION
_FLOAT_FRACTION = 23
#: The number of bits of 5**n, as Java estimates it.
_FIVES_BITS = [0, 3, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28, 31, 33, 35, 38, 40, 42, 45, 47, 49, 52, 54, 56, 59, 61]
_WHOLE_EXPONENT_MAX = 62
#: Between these, a shortest text of so few digits is what Java prints too: no other text as near is shorter.
_PLAIN_MIN, _PLAIN_MAX, _SURE_DIGITS = 1e-3, 1e7, 15
#: Java's text is within 25 units of the last of the 17 digits that Python prints at most, so that both round alike
#: where a tie is farther away.
_NEAR_TIE, _DROPPED_MIN = 100, 4


def double_digits(value: float) -> tuple[str, int]:
    """Returns the digits of a finite number above zero, and the place of the point: ("125", 1) is 1.25."""
    text = repr(value)
    if _PLAIN_MIN <= value < _PLAIN_MAX:
        whole, _, fraction = text.partition(".")
        if len(whole) + len(fraction) <= _SURE_DIGITS:
            return _shortest(whole, fraction)
    bits = struct.unpack("<q", struct.pack("<d", value))[0]
    exponent, fraction = bits >> _FRACTION, bits & (_HIDDEN - 1)
    if exponent:
        # No text is shorter than Python's, so Java does not stop before these digits either.
        sure = len(text.partition("e")[0].replace(".", "").strip("0")) - 2
        return _digits(exponent - 1023, fraction | _HIDDEN, _FRACTION + 1, sure)
    length = fraction.bit_length()
    return _digits(length - 1 - _FRACTION - 1022, fraction << (_FRACTION + 1 - length), length)


def float_digits(value: float) -> tuple[str, int]:
    """Returns the same for a number that is a float of 32 bits."""
    bits = struct.unpack("<i", struct.pack("<f", value))[0]
    exponent, fraction = bits >> _FLOAT_FRACTION, bits & ((1 << _FLOAT_FRACTION) - 1)
    if exponent:
        wide = (fraction | 1 << _FLOAT_FRACTION) << (_FRACTION - _FLOAT_FRACTION)
        return _digits(exponent - 127, wide, _FLOAT_FRACTION + 1)
    length = fraction.bit_length()
    return _digits(length - 1 - _FLOAT_FRACTION - 126, fraction << (_FRACTION + 1 - length), length)


def _shortest(whole: str, fraction: str) -> tuple[str, int]:
    """Returns the digits and the place of the point of a plain text such as 12.5 or 0.05."""
    if whole != "0":
        return (whole + fraction).rstrip("0"), len(whole)
    digits = fraction.lstrip("0")
    return digits, len(digits) - len(fraction)


def _digits(exponent: int, fraction: int, significant: int, sure: int = 0) -> tuple[str, int]:
    """Returns the digits of `fraction * 2**(exponent - 52)`, of which so many bits are significant.

    There are more than `sure` digits; these are computed at once.
    """
    zeros = (fraction & -fraction).bit_length() - 1
    length = _FRACTION + 1 - zeros
    below_point = max(0, length - exponent - 1)
    if below_point == 0 and exponent <= _WHOLE_EXPONENT_MAX and length < 64:
        return _whole(fraction, exponent, significant)
    return _generated(exponent, fraction >> zeros, length, below_point, significant, sure)


def _whole(fraction: int, exponent: int, significant: int) -> tuple[str, int]:
    """Returns the digits of a whole number, rounded where its last digits are below its precision."""
    number = fraction << (exponent - _FRACTION) if exponent >= _FRACTION else fraction >> (_FRACTION - exponent)
    dropped = _insignificant(exponent - significant - 1) if exponent > significant else 0
    if dropped:
        unit = 10**dropped
        number, rest = divmod(number, unit)
        number += rest >= unit >> 1
    text = str(number)
    return text.rstrip("0"), len(text) + dropped


def _insignificant(power: int) -> int:
    """Returns how many decimal digits are below 2**power."""
    return int(power * math.log10(2)) if power > 1 else 0


def _generated(
    exponent: int, fraction: int, length: int, below_point: int, significant: int, sure: int
) -> tuple[str, int]:
    """Returns digits one by one, until what is left is less than half of the distance to the next number.

    The number is numerator / denominator * 10**place, and `half` is half of that distance, scaled like the numerator.
    """
    mantissa = fraction / (1 << (length - 1))
    place = math.floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)
    fives, ten_fives = max(0, -place), max(0, place)
    twos = fives + below_point + exponent
    half_twos = twos - significant
    denominator_twos = ten_fives + below_point
    twos -= length - 1
    common = min(twos, denominator_twos)
    twos, denominator_twos, half_twos = twos - common, denominator_twos - common, half_twos - common
    if length == 1:  # A power of two: the next number below is at half the distance.
        half_twos -= 1
    if half_twos < 0:
        twos, denominator_twos, half_twos = twos - half_twos, denominator_twos - half_twos, 0
    bits = max(length + twos + _bits_of_fives(fives), denominator_twos + 1 + _bits_of_fives(ten_fives + 1))
    numerator, denominator = fraction * 5**fives << twos, 5**ten_fives << denominator_twos
    return _develop(numerator, denominator, 5**fives << half_twos, place, bits, sure)


def _bits_of_fives(power: int) -> int:
    return _FIVES_BITS[power] if power < len(_FIVES_BITS) else 3 * power


def _develop(numerator: int, denominator: int, half: int, place: int, bits: int, sure: int) -> tuple[str, int]:
    # Java has a copy of this for 32, for 64 and for any number of bits; the first two differ from the last in a tie.
    largest = 2**31 - 1 if bits < 32 else 2**63 - 1 if bits < 64 else 0
    develop = _in_words if largest else _in_any_size
    digits: list[int] = []
    rest, half, low, high = develop(digits, numerator, half, denominator, largest, once=True)
    if digits[0] == 0 and not high:
        digits.clear()
        place -= 1
    if place < -3 or place >= 8:  # At least two digits before an exponent.
        low = high = False
    if not low and not high:
        if (more := sure - len(digits)) > 1:
            unit = 10 ** (more - 1)
            found, rest = divmod(rest * unit, denominator)
            digits.extend(map(int, str(found).zfill(more)))
            rest, half = 10 * rest, half * unit * 10
        rest, half, low, high = develop(digits, rest, half, denominator, largest)
    tens = 10 * denominator
    if high and (not low or 2 * rest > tens or (2 * rest == tens and digits[-1] % 2)):
        return _rounded_up(digits, place + 1)
    return "".join(map(str, digits)), place + 1


def _in_any_size(
    digits: list[int], rest: int, half: int, denominator: int, largest: int, once: bool = False
) -> tuple[int, int, bool, bool]:
    """Adds digits until those so far, or with the last one raised, are near enough: the last two values returned."""
    tens = 10 * denominator
    while True:
        digit, rest = divmod(rest, denominator)
        digits.append(digit)
        rest *= 10
        half *= 10
        low, high = rest < half, rest + half >= tens
        if low or high or once:
            return rest, half, low, high


def _in_words(
    digits: list[int], rest: int, half: int, denominator: int, largest: int, once: bool = False
) -> tuple[int, int, bool, bool]:
    """Does the same in words whose largest number is this, and wraps around where Java does."""
    tens = 10 * denominator
    while True:
        digit, rest = divmod(rest, denominator)
        digits.append(digit)
        rest *= 10
        half *= 10
        if half > largest:
            half = (half + largest + 1) % (2 * largest + 2) - largest - 1
        low, high = (rest < half, tens < rest + half <= largest) if half > 0 else (True, True)
        if low or high or once:
            return rest, half, low, high


def _rounded_up(digits: list[int], point: int) -> tuple[str, int]:
    for at in range(len(digits) - 1, -1, -1):
        if digits[at] != 9:
            digits[at] += 1
            return "".join(map(str, digits)), point
        digits[at] = 0
    return "1" + "0" * (len(digits) - 1), point + 1


def java_decimal(value: float) -> Decimal:
    """Returns the decimal that Java makes of a finite double: by its text, not by its exact value."""
    if value == 0:
        return Decimal(0)
    text = repr(value)
    if _PLAIN_MIN <= abs(value) < _PLAIN_MAX and len(text) <= _SURE_DIGITS:
        return Decimal(text)
    digits, point = double_digits(abs(value))
    return Decimal(f"{'-' if value < 0 else ''}{digits}E{point - len(digits)}")


def rounded_at(value: float, scale: int) -> int:
    """Returns how often 10**-scale is in a finite double of 0 or more, by Java's text of it and rounded half up."""
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    dropped = len(fraction) - int(exponent or 0) - scale
    if dropped >= _DROPPED_MIN:
        quotient, rest = divmod(int(whole + fraction), int(10**dropped))
        half = 5 * int(10 ** (dropped - 1))
        if abs(rest - half) > _NEAR_TIE:
            return quotient + (rest > half)
    if value == 0 or (_PLAIN_MIN <= value < _PLAIN_MAX and len(mantissa) <= _SURE_DIGITS):
        return _rescaled(int(whole + fraction), len(fraction), scale)
    digits, point = double_digits(value)
    return _rescaled(int(digits), len(digits) - point, scale)


def _rescaled(unscaled: int, old: int, new: int) -> int:
    if new >= old:
        return unscaled * int(10 ** (new - old))
    divisor = int(10 ** (old - new))
    return (2 * unscaled + divisor) // (2 * divisor)
