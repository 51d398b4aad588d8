"""Strings and regular expressions against Spark: columns of odd texts in every argument of every function."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests import answers

from stretto.expressions import parse_schema

DDL = (
    "s string, q string, e string, r string, l string, i int, n bigint, x double, d decimal(10,2), b boolean, z binary"
)
ROWS = 600
TEXTS = [
    "", "a", "b", "A", "ab", "abc", "aab", "bab", "ABC", "a,b;c", "a,b,,c,", ",", ";;", "a\n", "a\r\n", "\r\n", "\n",
    "a\r", "a\u0085", "a\u2028b", "a\nb", "a b", "é", "É", "aé b", "straße", "STRASSE", "İstanbul", "ıI", "ΑΣ ΣΑ",
    "ὈΔΥΣΣΕΎΣ", "ǅa", "ﬁne", "1a2", "12", "-7", " 5 ", "a_b%c\\d", "😀", "a😀b", "e\u0301a", "²x", "Ⅷ", "x.y[z]",
    "\t tab", "  both  ", "aaa bbb", "Hello World", "o'neil-SMITH", "ａ", "\u00a0", "bc cb", "ABab", "key=value&k2=v2",
]  # fmt: skip
PATTERNS = [
    "a", "a$", "^a", "[a&&b]", "[a-z&&[^b]]", "(?i)É", "(?iu)é", "\\bb", "\\ba\\b", "\\h+", "\\R", "a*+b", "(?<=a)b",
    "(?<!a)b", "(a)(b)?", "(.)\\1", "\\p{Lu}", "\\P{L}+", "\\p{Punct}", "\\Qa.b\\E", ".", "x*", "", "(?m)^b", "(?m)a$",
    "(?s)a.b", "(?x) a b # c", "[^\\w]", "\\0101", "\\u00e9", "a|b", "(?=b)", "[,;]", "\\W", "\\d+", "(\\w+) (\\w+)",
]  # fmt: skip
LIKES = ["a%", "%b", "%", "_", "a_b", "", "%a%", "a\\%", "%\\_%", "\\\\", "é", "É", "a,b%", "%ß%", "a%b_", "😀", "_😀_"]

EXPRESSIONS = [
    "upper(s)", "lower(s)", "initcap(s)", "upper(i)", "lower(x)", "upper(d)", "initcap(b)", "upper(null)",
    "upper('straße')", "lower('İ')", "lower('ΑΣ')", "upper('ŉ ǰ ΐ ﬀ ᾳ և')", "initcap('ßa ǆ ŉx İ ΣΑΣ o''neil')",
    "split_part(s, ',', 1)", "split_part(s, ',', 2)", "split_part(s, ',', -1)", "split_part(s, ',', -9)",
    "split_part(s, '', 1)", "split_part(s, '', 2)", "split_part(s, e, 1)", "split_part(s, e, -2)",
    "split_part(s, e, nullif(i, 0))", "split_part('a,b', e, 2)", "split_part(null, '', 2)", "split_part(s, null, 2)",
    "split_part(s, ',', null)", "split_part(d, '.', 1)", "split_part(s, 'ab', 1)", "split_part('a,b', ',', 2)",
    "s like l", "s ilike l", "s not like l", "l like q", "i like '1%'", "d like '%5_'", "like(s, l)", "ilike(s, 'A%')",
    "like(s, 'a/_b%', '/')", "s like 'a/%' escape '/'", "s like any ('a%', '%b')", "s like all ('a%', '%b')",
    "s not like any ('a%', null)", "s not like all ('a%', '%b', null)", "s ilike any ('A%', 'É')", "s like null",
    "s ilike some ('STRASSE', 'ας%')", "null like s", "s like ''", "s like '%'", "s like '_'", "s like 'a%b%c'",
    "s rlike r", "s not rlike r", "'a😀b' rlike r", "i rlike '^-?1'", "regexp_like(s, r)", "regexp(s, 'b$')",
    "regexp_extract(s, r, 0)", "regexp_extract(s, '(a)(b)?', 2)", "regexp_extract(s, '(\\\\w+)[^\\\\w](\\\\w+)', 2)",
    "regexp_extract(s, '(a)')", "regexp_extract(s, 'a|(b)')", "regexp_extract(s, '([a-z]+)(.*)', abs(i) % 3)",
    "regexp_extract_all(s, r, 0)", "regexp_extract_all(s, '(\\\\w)')", "regexp_extract_all(s, '(a)|b', 1)",
    "regexp_replace(s, r, '<$0>')", "regexp_replace(s, r, q)", "regexp_replace(s, '(a)(b)', '$2$1')",
    "regexp_replace(s, 'a', 'x\\\\\\\\y\\\\$')", "regexp_replace(s, 'b', '-', 2)", "regexp_replace(s, 'b', '-', 9)",
    "regexp_replace(s, '[^a-z]', '')", "regexp_replace(s, '', '-')", "regexp_replace(s, '(xx)', '$7')",
    "regexp_replace(s, '(.)(.)', '$2$1')", "regexp_replace(d, '\\\\.', ',')", "regexp_replace(s, null, 'x')",
    "regexp_replace(s, 'a', null)", "regexp_replace(s, 'a', 'b', null)", "regexp_count(s, r)", "regexp_count(s, 'a')",
    "regexp_instr(s, r)", "regexp_instr(s, 'b', 1)", "regexp_substr(s, r)", "regexp_substr(s, '[a-z]+')",
    "split(s, r)", "split(s, r, i)", "split(s, ',')", "split(s, ',', 2)", "split(s, '[,;]')", "split(s, '[,;]', 2)",
    "split(s, '')", "split(s, '', 2)", "split(s, e, -1)", "split(null, ',')", "split(s, '\\\\s+')", "split(d, '\\\\.')",
]  # fmt: skip
PLAIN = [
    "length(s)", "length(z)", "len(i)", "char_length(d)", "character_length(s)", "octet_length(s)", "octet_length(z)",
    "bit_length(s)", "bit_length(n)", "concat(s, q)", "concat(s, i, d, b)", "concat()", "concat(z, z)",
    "concat(s, null)",
    "concat(s, x, n)", "s || i", "i || n", "b || s", "z || z", "concat_ws(e, s, q)", "concat_ws(',', s, i, null, q)",
    "concat_ws(e)", "concat_ws(e, 'a', null)", "concat_ws(null, s)", "concat_ws('-', split(s, ','), q)",
    "concat_ws(',', s)", "repeat(s, i)", "repeat('ab', i)", "repeat(s, 2)", "repeat(i, 3)", "space(i)", "space(3)",
    "lpad(s, 4, '*')", "rpad(s, 4, '*')", "lpad(s, 5)", "rpad(s, 0, 'x')", "lpad(s, i, q)", "rpad(s, i + 4, q)",
    "lpad(s, 6, 'é😀')", "lpad(z, 4)", "rpad(z, 5, z)", "lpad(i, 5, 0)", "rpad(s, 3, '')",
    "elt(abs(i) % 2 + 1, s, q)", "elt(2, s, i)", "elt(null, s, q)", "elt(1, z, z)", "substring(s, 2)", "substr(s, i)",
    "substring(s, i, 2)", "substring(s, 2, i)", "substring(s, -2, 1)", "substring(s, 0, 3)", "substring(z, i, 2)",
    "substring(s from i for 2)", "substring(s from 2)", "substring(i, 1, 1)", "substring(s, '2')", "substring(s, 1.9)",
    "left(s, i)", "left(s, 2)", "left(z, 2)", "right(s, i)", "right(s, 2)", "substring_index(s, e, i)",
    "substring_index(s, ',', 2)", "substring_index(s, ',', -2)", "substring_index(d, '.', 1)", "trim(s)", "ltrim(s)",
    "rtrim(s)", "btrim(s)", "trim('ab', s)", "ltrim(q, s)", "rtrim(q, s)", "btrim(s, q)", "trim(both 'a' from s)",
    "trim(leading q from s)", "trim(trailing from s)", "trim(q from s)", "trim(null from s)", "trim(i)",
    "startswith(s, 'a')", "startswith(s, q)", "endswith(s, 'b')", "endswith(s, q)", "contains(s, 'b')",
    "contains(s, q)",
    "contains(z, z)", "contains(s, i)", "startswith(s, null)", "instr(s, 'b')", "instr(s, q)", "instr(n, 1)",
    "locate('b', s)", "locate('b', s, 2)", "locate(q, s, i)", "locate('', s, i)", "locate('b', s, null)",
    "position('b' in s)", "position(q, s)", "find_in_set(q, s)", "find_in_set('b', s)", "levenshtein(s, q)",
    "levenshtein(s, 'abc', 2)", "levenshtein(s, q, i)", "soundex(s)", "soundex(q)", "replace(s, 'a', 'x')",
    "replace(s, 'b')", "replace(s, q, e)", "replace(s, '', 'x')", "replace(i, 1, 'one')", "translate(s, 'abc', 'xy')",
    "translate(s, q, e)", "overlay(s placing 'XY' from 2)", "overlay(s, q, i)", "overlay(s, q, i, 2)",
    "overlay(s placing q from 2 for i)", "overlay(z, z, 2)", "reverse(s)", "reverse(z)", "reverse(i)", "mask(s)",
    "mask(s, 'Q', null, 'd', '*')", "ascii(s)", "ascii(i)", "chr(i)", "chr(n)", "char(200)", "chr('65')", "base64(s)",
    "base64(z)", "base64(repeat(s, 30))", "unbase64(base64(s))", "unbase64('YW I')", "encode(s, 'UTF-8')",
    "encode(s, 'utf-16')", "encode(s, 'UTF-32')", "decode(encode(s, 'UTF-16LE'), 'UTF-16LE')",
    "decode(z, 'ISO-8859-1')", "decode(s, 'a', 1, 'b', 2, 3)", "decode(i, 1, s, null, 'none')", "url_encode(s)",
    "url_decode(url_encode(s))", "try_url_decode(s)", "try_url_decode(concat(s, '%'))", "luhn_check(s)",
    "luhn_check('79927398713')", "quote(s)", "is_valid_utf8(s)", "make_valid_utf8(s)", "validate_utf8(s)", "md5(s)",
    "md5(z)", "sha(s)", "sha1(z)", "sha2(s, 256)", "sha2(s, 0)", "sha2(z, 512)", "sha2(s, abs(i) * 32)", "crc32(s)",
    "hash(s)", "hash(s, q, i, n, x, d, b, z)", "hash(repeat(s, 9))", "hash(null, i)", "hash(cast(i as tinyint), -x)",
    "hash(cast(d as decimal(38,2)))", "xxhash64(s)", "xxhash64(s, q, i, n, x, d, b, z)", "xxhash64(repeat(s, 20))",
    "xxhash64(cast(d as decimal(38,2)))", "xxhash64('a', null)", "format_number(x, 2)", "format_number(d, i)",
    "format_number(n, 1)", "format_number(x / 7, 3)", "format_string('%s|%5d|%-4s|%08.3f|%x', s, i, q, x, n)",
    "format_string('%,d %+d %(d %b %S', n, i, i, b, s)", "printf('%.2e %c', x / 3, abs(i) + 65)", "printf(q, 1)",
    "printf('%.1s|%.2s|%5.3s', s, s, s)",
    "crc32(z)", "hex(s)", "hex(z)", "unhex(hex(s))", "upper(trim(concat(s, q)))",
]  # fmt: skip
#: Patterns that meet every text, both for the whole text and for each of its matches.
ANSWERED = [
    "a$", "\\.b", "[a&&b]", "(?i)é", "(?iu)É", "(?i)ß", "(?iu)ß", "(?iu)i", "(?iu)[j-l]", "(?i)[a-c]", "\\b", "\\bb\\b",
    "\\B.", "\\h", "\\H+", "\\v", "\\V+", "\\R", "\\R+", "a++b", "a?+a", "(?>a|ab)c?", "(?<=a)b", "(?<![ab])b",
    "(?<=a|bc)c", "(?=.*b)a", "(?!ab)a.", "(a)(b)?\\2", "(.)\\1", "(?<n>a)\\k<n>", "(?i)(a)\\1", "\\p{L}", "\\p{Lu}+",
    "\\pN", "\\p{IsLl}", "\\p{InGreek}", "\\p{gc=Lu}", "\\p{Alpha}+", "\\p{Space}", "(?i)\\p{Lower}", "(?i)\\p{Lu}",
    "\\Q.[\\E", "[\\Q,;\\E]", "\\0141", "\\x61", "\\x{1F600}", "\\u0061", "\\ud83d\\ude00", "\\cM", "\\t", "\\e?\\a?b",
    "(?x) a\\ b #c", "(?x)[a b]", "(?m)^", "(?m)$", "(?m)^.", "(?d).$", "(?dm)$", "(?s).+", ".+", "\\A.", ".\\z",
    ".\\Z", "[^a-c&&b-z]", "[a-z&&[aeiou]]", "[a-z&&[^b]c]", "[[ab]c]", "[^[a]b]", "[]a]", "[a-]", "[a^]", "[&a]",
    "[\\w&&[^a]]",
    "a{2}", "a{1,}", "a{0,1}?b", "(?:a|b)+", "(a|b)*c", "a|b|", "(a*)*", "(a*)+b", "(?:)", "(?i:A)B", "a(?i)B(?-i)C",
    "((?i)a|b)C", "x?", "b*?", "[^ ]+", "\\D\\S\\W", "[\\s\\S]b", "]", "}", "a\\{", "\\-", "\\é",
]  # fmt: skip
FAILING = [
    "split_part(s, ',', 0)", "split_part(s, ',', i)", "s like 'a\\\\b'", "s like 'a\\\\'", "s like 'a' escape 'xy'",
    "s rlike '('", "s rlike '[a'", "s rlike '*'", "s rlike 'a{'", "s rlike '\\\\y'", "s rlike '[b-a]'",
    "s rlike '(?z)'",
    "regexp_extract(s, '(a)', 2)", "regexp_extract(s, 'a')", "regexp_extract(s, '(a)', -1)", "upper(array(s))",
    "regexp_replace(s, 'a', '$1')", "regexp_replace(s, 'a', '$')", "regexp_replace(s, 'a', 'x\\\\')", "upper(s, s)",
    "encode(s, 'US-ASCII')", "encode(s, 'latin1')", "decode(z, 'UTF-8')", "unbase64('U')", "unbase64('YQ=')",
    "url_decode(concat(s, '%'))", "elt(i, s, q)", "elt(1)", "md5(i)", "base64(i)", "crc32(x)", "substring(s, b)",
    "format_string('%d', s)", "format_string('%s')", "format_number(s, 2)", "hash()",
    "left(s)", "lpad(s, true)", "mask(s, 'QQ')", "concat(s, array(s))", "chr('x')", "trim(both s)",
    "regexp_replace(s, 'a', 'b', 0)", "regexp_replace(s, 'a', 'b', i)", "regexp_extract_all(s, 'a', 1)",
]  # fmt: skip


def _literal(text: str) -> str:
    """Returns the text as a literal of Spark SQL."""
    escaped = (char if char.isascii() and char.isalnum() else f"\\U{ord(char):08x}" for char in text)
    return f"'{''.join(escaped)}'"


def _column(name: str, kind: pa.DataType, rng: random.Random) -> pa.Array:
    choices: dict[str, list[Any]] = {
        "s": TEXTS,
        "q": ["", "x", "<é>", "-😀-", "ab"],
        "e": [",", ";", "", "ab", "a", " ", "."],
        "r": PATTERNS,
        "l": LIKES,
        "i": [-3, -2, -1, 0, 1, 2, 3, 7],
        "n": [0, 1, -1, 2**40, -(2**63)],
        "x": [0.5, -2.0, 1e10],
        "z": [b"", b"abc", b"\xff\x00", "é".encode()],
    }
    if name in choices:
        values = [rng.choice(choices[name]) for _ in range(ROWS)]
        values[: len(choices[name])] = choices[name]
    else:
        values = [rng.randrange(-999, 999) if name == "d" else rng.random() < 0.5 for _ in range(ROWS)]
    return pa.array([None if rng.random() < 0.04 else value for value in values], kind)


@pytest.fixture(scope="module")
def batch() -> pa.RecordBatch:
    rng = random.Random(16)
    schema = parse_schema(DDL)
    return pa.record_batch([_column(field.name, field.type, rng) for field in schema], schema=schema)


@pytest.fixture(scope="module")
def table(spark: SparkSession, batch: pa.RecordBatch) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_batches([batch])).coalesce(1).cache()


def test_strings_are_sparks(batch: pa.RecordBatch, table: DataFrame) -> None:
    wrong = answers.differences(EXPRESSIONS + PLAIN, table, batch)
    assert not wrong, "\n" + "\n".join(wrong)


def test_patterns_are_javas(batch: pa.RecordBatch, table: DataFrame) -> None:
    texts = [
        form.format(_literal(pattern))
        for pattern in ANSWERED
        for form in ("s rlike {}", "regexp_replace(s, {}, '<$0>')", "regexp_extract(s, {}, 0)", "split(s, {}, i)")
    ]
    wrong = answers.differences(texts, table, batch)
    assert not wrong, "\n" + "\n".join(wrong)


def test_what_fails_in_spark_fails_here(batch: pa.RecordBatch, table: DataFrame) -> None:
    wrong = answers.not_failing(FAILING, table, batch)
    assert not wrong, "\n" + "\n".join(wrong)
