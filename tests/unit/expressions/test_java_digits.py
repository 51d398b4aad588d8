"""The text of doubles and floats, as `Double.toString` and `Float.toString` of Java 17 printed it."""

from __future__ import annotations

import math
import random

import pytest

from stretto.expressions.java_digits import double_digits, java_decimal, rounded_at
from stretto.expressions.texts import java_double, java_float

DOUBLES = [
    (-7.980125029921302e17, "-7.9801250299213018E17"),
    (-7.696617613503462e18, "-7.6966176135034624E18"),
    (-5.437693895730568e18, "-5.4376938957305682E18"),
    (6.783321379043816e-167, "6.7833213790438156E-167"),
    (-5.134542348527557e18, "-5.1345423485275566E18"),
    (1.3837150999012646e18, "1.38371509990126464E18"),
    (7.070781967001971e18, "7.0707819670019707E18"),
    (8.217572671829947e18, "8.2175726718299474E18"),
    (-2.849235996930311e18, "-2.8492359969303112E18"),
    (-8.955681828076436e17, "-8.9556818280764365E17"),
    (2.1147397103928817e18, "2.11473971039288166E18"),
    (8.77953753286429e18, "8.7795375328642898E18"),
    (1.6e-322, "1.58E-322"),
    (-3.77580410606856e18, "-3.7758041060685599E18"),
    (3.9231885846166755e56, "3.9231885846166755E56"),
    (631746895.783064, "6.31746895783064E8"),
    (0.5030120843241522, "0.5030120843241522"),
    (899550000.0, "8.9955E8"),
    (4.4694447931517093e-249, "4.4694447931517093E-249"),
    (9.8278e21, "9.8278E21"),
    (-3.287603460930977e-211, "-3.287603460930977E-211"),
    (45654000000.0, "4.5654E10"),
    (-1.9255459493396792e-123, "-1.9255459493396792E-123"),
    (1.2909475387670595e26, "1.2909475387670595E26"),
    (0.0, "0.0"),
    (-0.0, "-0.0"),
    (0.001, "0.001"),
    (9.99e-4, "9.99E-4"),
    (9999999.0, "9999999.0"),
    (1e7, "1.0E7"),
    (1e23, "9.999999999999999E22"),
    (2.0**-44, "5.6843418860808015E-14"),
    (5e-324, "4.9E-324"),
    (math.inf, "Infinity"),
    (math.nan, "NaN"),
]
FLOATS = [
    (-470452608.0, "-4.70452608E8"),
    (-1136168009728.0, "-1.13616801E12"),
    (-8053610214588416.0, "-8.0536102E15"),
    (9818620297216.0, "9.8186203E12"),
    (-29475509108736.0, "-2.94755091E13"),
    (2973946880.0, "2.97394688E9"),
    (0.2898949980735779, "0.289895"),
    (1.2832465645651325e-10, "1.2832466E-10"),
    (7.533820152282715, "7.53382"),
    (113458179735552.0, "1.1345818E14"),
    (1.907476910092306e-24, "1.907477E-24"),
    (1.2260636426316338e-25, "1.2260636E-25"),
    (881.72998046875, "881.73"),
    (-1.0166779221377024e16, "-1.01667792E16"),
    (1.401298464324817e-45, "1.4E-45"),
    (-math.inf, "-Infinity"),
]


@pytest.mark.parametrize(("value", "text"), DOUBLES)
def test_the_text_of_a_double(value: float, text: str) -> None:
    assert java_double(value) == text


@pytest.mark.parametrize(("value", "text"), FLOATS)
def test_the_text_of_a_float(value: float, text: str) -> None:
    assert java_float(value) == text


def test_a_text_reads_back_as_the_same_number() -> None:
    rng = random.Random(5)
    for _ in range(2_000):
        value = rng.uniform(0, 10) * 10.0 ** rng.randrange(-300, 300)
        digits, point = double_digits(value)
        assert float(f"0.{digits}e{point}") == value
        assert float(java_decimal(-value)) == -value


def test_rounding_is_that_of_the_text() -> None:
    rng = random.Random(6)
    for _ in range(2_000):
        scale = rng.randrange(0, 30)
        value = rng.choice((rng.uniform(0, 10), round(rng.uniform(0, 10), 4), 2.5 / 10**scale)) * 10.0 ** rng.randrange(
            9
        )
        exact = java_decimal(value).scaleb(scale).to_integral_value("ROUND_HALF_UP")
        assert rounded_at(value, scale) == int(exact), (value, scale)
    assert rounded_at(1.005, 2) == 101
    assert rounded_at(0.0, 5) == 0
