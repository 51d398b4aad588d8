"""Numbers by formats, and URLs, against Spark: random formats, numbers, texts and URLs, each row for itself.

The pure twins are in tests/unit/expressions: test_number_formats.py and test_urls.py.
"""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.form_cases import READ, WRITTEN

from stretto.bench.fuzz import ours
from stretto.bench.fuzz.answers import Answered, Refused
from stretto.bench.fuzz.judging import judge
from stretto.bench.fuzz.sparks import SparkOracle
from stretto.bench.fuzz.terms import literal
from stretto.bench.fuzz.texts import URL_PARTS

FORMATS, TEXTS, URLS = 25, 60, 300
HOSTS = [
    "h", "h.org", "1.2.3.4", "1.2.3", "256.1.1.1", "1.2.3.4.", "a-b.c-", "-a", "a_b", "a..b", "h.", "h.1", "1h",
    "[::1]", "[1:2:3:4:5:6:7:8]", "[1:2:3:4:5:6:7::]", "[::]", "[1::2::3]", "[::1.2.3.4]", "[1.2.3.4::]",
    "[fe80::1%eth0]", "[fe80::1%]", "[12345::]", "[]", "[::1", "::1]", "[1:2:3:4:5:6:7]", "00001.2.3.4", "ß.org", "日",
    "a%20b", "a%2", "",
]  # fmt: skip
ODD = [*"/;=+$,!*'()~.-_:@&[]|^{<\"\\ \x7f\x80\x85\xa0\u200b\u2003ß🙂", "%20", "%zz", "%"]
BASE64 = [
    "YQ", "YQ=", "YQ==", "Y Q = =", "YQ==YQ", "Y", "YWI", "YWI==", "=", "", "YQ-_", "YQ\u00a0", "Y\u2003Q", "YW\n",
    "YQ\x0b==", "YQ== ", "abc", "0g", "é", "F", None,
]  # fmt: skip
KEYS = ("'a'", "''", "'[ab]'", "'(a)'", "'(x)?b'", "'.'")


@pytest.fixture(scope="module")
def oracle(spark: SparkSession) -> SparkOracle:
    return SparkOracle(spark)


def random_format(rng: random.Random) -> str:
    digits = ["".join(rng.choice("0999000,9") for _ in range(rng.randint(0, 6))).strip(",") for _ in range(2)]
    text = "".join(
        (rng.choice(["", "", "S", "MI", "s"]), rng.choice(["", "$"]), digits[0], rng.choice(["", ".", "D"]),
         digits[1].replace(",", ""), rng.choice(["", "S", "MI", "PR", "$"]))
    )  # fmt: skip
    if text and rng.random() < 0.12:
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice("09.,DGS$MPRx ") + text[place + rng.randint(0, 1) :]
    return text


def random_number(rng: random.Random) -> str:
    """Returns a text that may be a number by a format."""
    digits = "".join(rng.choice("0123456789" if rng.random() < 0.8 else ", ") for _ in range(rng.randint(0, 5)))
    rest = "".join(rng.choice("0123456789") for _ in range(rng.randint(0, 3)))
    return rng.choice(["", "", "-", "+", "<", "$", "-$"]) + digits + rng.choice(["", "."]) + rest + rng.choice("  >-+")


def random_url(rng: random.Random) -> str:
    def part() -> str:
        return "".join(
            rng.choice(ODD) if rng.random() < 0.2 else rng.choice("abcq=&/") for _ in range(rng.randint(0, 6))
        )

    text = rng.choice(["http", "a+b-c.1", "1a", "", "mailto", "é"]) + rng.choice([":", ":", ""])
    text += rng.choice(["//", "//", "//", "/", "", "///"]) + rng.choice(["", "", "u@", "u:p@", "u%20@", "[u@", "@"])
    text += rng.choice(HOSTS) + rng.choice(["", "", ":80", ":", ":99999999999", ":8a", ":-1"])
    return text + "".join(mark + part() for mark in "/?#" if rng.random() < 0.5)


def wrong(oracle: SparkOracle, texts: list[str], rows: pa.RecordBatch) -> list[object]:
    """Returns where stretto and Spark disagree: on a value, a type, a failure, or on what they refuse."""
    found: list[object] = []
    for text, theirs in zip(texts, oracle.answers(texts, rows), strict=True):
        mine = ours.answer(text, rows)
        disagreement = judge(literal(text, ""), mine, theirs).disagreement
        if disagreement or isinstance(mine, Refused) != isinstance(theirs, Refused):
            found.append((text, disagreement, mine if isinstance(mine, Refused) else theirs))
    return found


def test_numbers_by_random_formats(oracle: SparkOracle) -> None:
    rng = random.Random(16)
    numbers = [Decimal(rng.randint(-(10 ** (k % 9)), 10 ** (k % 9))).scaleb(-(k % 5)) for k in range(TEXTS)]
    texts = ["1 2", "\u0661\u0662", "1\u00a02", "1\u20032", *(random_number(rng) for _ in range(TEXTS - 4))]
    rows = pa.record_batch({"s": pa.array(texts), "d": pa.array(numbers, pa.decimal128(20, 4))})
    formats = dict.fromkeys(random_format(rng) for _ in range(FORMATS))
    calls = [call.format(f"'{each}'") for each in formats for call in ("to_number(s, {})", "to_char(d, {})")]
    assert wrong(oracle, calls, rows) == []
    accepted = [each for each in calls if isinstance(ours.answer(each, rows), Answered)]
    assert len(calls) / 3 < len(accepted) < len(calls)


def test_calls_by_hand_have_sparks_answers(oracle: SparkOracle) -> None:
    rows = pa.record_batch({"n": pa.array([1])})
    assert wrong(oracle, [text for text, *_ in (*READ, *WRITTEN)], rows) == []


def test_bytes_of_texts(oracle: SparkOracle) -> None:
    rows = pa.record_batch({"s": pa.array(BASE64), "i": pa.array(range(len(BASE64)), pa.int32())})
    forms = ("", ", 'hex'", ", 'BASE64'", ", 'utf-8'", ", 'Utf8'", ", NULL", ", 'x'", ", 'hex '")
    calls = [f"{name}({of}{form})" for name in ("to_binary", "try_to_binary") for of in ("s", "i") for form in forms]
    calls += [
        "try_to_binary(string(1 div i))",
        "try_to_binary(string(1 div i), 'x')",
        "to_binary(string(1 div i), NULL)",
    ]
    assert wrong(oracle, calls, rows) == []


def test_parts_of_random_urls(oracle: SparkOracle) -> None:
    rng = random.Random(16)
    more = ["", "#", "?", "/", "//", "//?", "//#", "http:", "http:#", "a:b#", "a:?b#c", ":", "http://", "?a=1", "#f"]
    rows = pa.record_batch({"u": pa.array([*more, *(random_url(rng) for _ in range(URLS))])})
    calls = [f"{name}(u, {part})" for name in ("parse_url", "try_parse_url") for part in URL_PARTS]
    calls += [f"try_parse_url(u, 'QUERY', {key})" for key in KEYS]
    assert wrong(oracle, calls, rows) == []
    paths = ours.answer("try_parse_url(u, 'PATH')", rows)
    assert isinstance(paths, Answered)
    assert URLS / 10 < len(paths.rows) - paths.rows.count(None) < URLS
