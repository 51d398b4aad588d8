"""Functions of strings, with Spark's answers; the same over columns of odd texts is in tests/spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stretto.errors import ExpressionError
from stretto.expressions import compile_scalar, spark_type_name

BATCH = pa.record_batch(
    {
        "s": pa.array(["straße", "a,b;c", None, "", "a\n"]),
        "e": pa.array([",", ";", ",", "", None]),
        "p": pa.array(["ß", "[,;]", "a", "^$", "a$"]),
        "i": pa.array([1, -1, 1, 2, None], pa.int32()),
    }
)
NONE = pa.record_batch([pa.nulls(3, pa.string()), pa.nulls(3, pa.string())], names=["s", "e"])


def evaluated(text: str, batch: pa.RecordBatch = BATCH) -> Any:
    scalar = compile_scalar(text, batch.schema)
    result = scalar.evaluate(batch)
    result.validate(full=True)
    scalar.evaluate(batch.slice(0, 0)).validate(full=True)
    return result.to_pylist()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("upper(s)", ["STRASSE", "A,B;C", None, "", "A\n"]),
        ("lower(upper(s))", ["strasse", "a,b;c", None, "", "a\n"]),
        ("initcap(s)", ["Straße", "A,b;c", None, "", "A\n"]),
        ("split_part(s, ',', 2)", ["", "b;c", None, "", ""]),
        ("split_part(s, e, i)", ["straße", "c", None, "", None]),
        ("split_part(s, '', 2)", ["", "", None, "", ""]),
        ("s rlike p", [True, True, None, True, True]),
        ("s rlike 'a$'", [False, False, None, False, True]),
        ("s rlike '[a&&b]'", [False, False, None, False, False]),
        ("regexp_replace(s, p, '-')", ["stra-e", "a-b-c", None, "-", "-\n"]),
        ("regexp_extract(s, '(.)[,;](.)', 2)", ["", "b", None, "", ""]),
        ("regexp_extract_all(s, '\\\\w', 0)", [["s", "t", "r", "a", "e"], ["a", "b", "c"], None, [], ["a"]]),
        ("regexp_count(s, p)", [1, 2, None, 1, 1]),
        ("regexp_instr(s, p)", [5, 2, None, 1, 1]),
        ("regexp_substr(s, p)", ["ß", ",", None, None, "a"]),
        ("split(s, p)", [["stra", "e"], ["a", "b", "c"], None, [""], ["", "\n"]]),
        ("split(s, ',', 2)", [["straße"], ["a", "b;c"], None, [""], ["a\n"]]),
        ("s like concat('%', e, '%')", [False, True, None, True, None]),
        ("s ilike 'STRA%'", [True, False, None, False, False]),
        ("s like any ('s%', '%c')", [True, True, None, False, False]),
        ("s not like all ('s%', null)", [False, None, None, None, None]),
    ],
)
def test_over_columns(text: str, values: list[Any]) -> None:
    assert evaluated(text) == values


@pytest.mark.parametrize("text", ["upper(s)", "split_part(s, e, 1)", "s rlike e", "split(s, ',')", "s like 'a_'"])
def test_over_nulls(text: str) -> None:
    assert evaluated(text, NONE) == [None, None, None]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("lower('İ')", "string", "i̇"),
        ("lower('ΑΣ')", "string", "ας"),
        ("upper('ŉ ǰ ﬀ')", "string", "ʼN J̌ FF"),
        ("initcap('ǆ ﬁx o''neil İx')", "string", "ǅ Fix O'neil İx"),
        ("upper(12)", "string", "12"),
        ("upper(date '2020-01-01')", "string", "2020-01-01"),
        ("split_part(NULL, '', 2)", "string", None),
        ("split_part(12.3, '.', 1)", "string", "12"),
        ("'it''s'", "string", "it's"),
        ('"say ""x"""', "string", 'say "x"'),
        ("'a' 'b'", "string", "ab"),
        ("'É' rlike '(?i)é'", "boolean", False),
        ("'É' rlike '(?iu)é'", "boolean", True),
        ("'İ' ilike 'i̇'", "boolean", True),
        ("'STRASSE' ilike 'straße'", "boolean", False),
        ("'a%c' like 'a\\\\%c'", "boolean", True),
        ("123 like '1%'", "boolean", True),
        ("regexp_replace('abc', '(b)', '[$1$1]')", "string", "a[bb]c"),
        ("regexp_replace('abc', '(x)', '[$2]')", "string", "abc"),
        ("regexp_replace('abcabc', '^b', 'X', 2)", "string", "aXcabc"),
        ("regexp_replace('a😀b', '', '-')", "string", "-a-?-?-b-"),
        ("regexp_instr('a😀b', 'b')", "int", 3),
        ("split('abc', '')", "array<string>", ["a", "b", "c"]),
        ("split('abc', 'x*')", "array<string>", ["a", "b", "c", ""]),
        ("split('abc', '', 2)", "array<string>", ["a", "bc"]),
        ("regexp_like(null, 'a')", "boolean", None),
    ],
)
def test_of_constants(text: str, kind: str, value: Any) -> None:
    assert spark_type_name(compile_scalar(text, BATCH.schema).type) == kind
    assert evaluated(text)[0] == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("split_part(s, ',', 0)", "index 0"),
        ("s rlike concat(e, '(')", "a bad regular expression"),
        ("s like concat(e, '\\\\')", "a stray escape character"),
        ("regexp_extract(s, 'a', 1)", "no group 1"),
        ("regexp_replace(s, 'a', '$1')", "a bad replacement"),
    ],
)
def test_a_row_that_fails(text: str, words: str) -> None:
    scalar = compile_scalar(text, BATCH.schema)
    with pytest.raises(ExpressionError) as caught:
        scalar.evaluate(BATCH)
    assert words in str(caught.value)
    assert compile_scalar(f"if(s is null, {text}, null)", BATCH.schema).evaluate(BATCH).null_count == len(BATCH)


#: Calls of constants, with Spark's answers.
PLAIN: list[tuple[str, Any]] = [
    ("concat('a', 1, true)", "a1true"),
    ("concat()", ""),
    ("concat(cast('a' as binary), cast('b' as binary))", b"ab"),
    ("1 || 2", "12"),
    ("concat_ws(',', 'a', null, 2)", "a,2"),
    ("concat_ws(null, 'a')", None),
    ("concat_ws('-', split('a,b', ','), 'c')", "a-b-c"),
    ("length(5)", 1),
    ("octet_length('é')", 2),
    ("bit_length('é')", 16),
    ("repeat('ab', -1)", ""),
    ("space('2')", "  "),
    ("lpad('hi', 5, 'é😀')", "é😀éhi"),
    ("rpad('hi', 1, '?')", "h"),
    ("lpad(cast('a' as binary), 3)", b"\0\0a"),
    ("elt(2, 'a', 1)", "1"),
    ("substring('hello', -10, 7)", "he"),
    ("substring('hello' from 2 for 3)", "ell"),
    ("left(12345, '2')", "12"),
    ("right('abc', 5)", "abc"),
    ("substring_index('aaaa', 'aa', -2)", "a"),
    ("trim('x', 'xax')", "a"),
    ("btrim('xax', 'x')", "a"),
    ("trim(leading 'x' from 'xax')", "ax"),
    ("trim(trailing from ' a ')", " a"),
    ("position('l' in 'hello')", 3),
    ("locate('b', 'abcb', 3)", 4),
    ("locate('b', 'abcb', null)", 0),
    ("locate('', 'abc', 5)", 1),
    ("find_in_set('ab', 'abc,b,ab,c')", 3),
    ("levenshtein('kitten', 'sitting', 2)", -1),
    ("levenshtein('kitten', 'sitting')", 3),
    ("soundex('Tymczak')", "T522"),
    ("soundex('Ashcraft')", "A261"),
    ("translate('AaBbCc', 'abc', '12')", "A1B2C"),
    ("overlay('Spark SQL' placing 'ANSI ' from 7 for 0)", "Spark ANSI SQL"),
    ("overlay('abc', 'x', -1)", "xabc"),
    ("reverse('a😀b')", "b😀a"),
    ("mask('AbC1-é')", "XxXn-x"),
    ("replace('aaa', 'aa', 'b')", "ba"),
    ("ascii('😀')", 128512),
    ("chr(321)", "A"),
    ("base64('Spark SQL')", "U3BhcmsgU1FM"),
    ("unbase64('U3B hcmsg')", b"Spark "),
    ("encode('aé', 'UTF-16')", b"\xfe\xff\0a\0\xe9"),
    ("decode(unhex('ff'), 'ISO-8859-1')", "ÿ"),
    ("decode(null, 1, 'a', null, 'b')", "b"),
    ("url_encode('a b~*é')", "a+b%7E*%C3%A9"),
    ("url_decode('a+b%C3%A9')", "a bé"),
    ("try_url_decode('%zz')", None),
    ("luhn_check('79927398713')", True),
    ("quote('Don''t')", "'Don\\'t'"),
    ("md5('Spark')", "8cde774d6f7333752ed72cacddb05126"),
    ("sha2('Spark', 224)", "dbeab94971678d36af2195851c0f7485775a2a7c60073d62fc04549c"),
    ("sha2('Spark', 1)", None),
    ("crc32('Spark')", 1557323817),
    ("hash('Spark', 1)", 205329825),
    ("hash(1Y, 2S, 3L, true, null)", 292960204),
    ("hash(double('nan'), -0.0D, 1.5F)", -533214994),
    ("hash(-12345678901234567890.5)", -777928638),
    ("hash(date '2020-01-01', 'é😀')", -1010726201),
    ("hash(null)", 42),
    ("xxhash64('Spark', 1)", -4449867541325528513),
    ("xxhash64(repeat('abcdefg', 20))", -8644238935828707299),
    ("xxhash64(1.5D, 12345678901234567890.5, null)", -3821041110882350483),
    ("format_number(12332.123456, 4)", "12,332.1235"),
    ("format_number(0.125D, 2)", "0.12"),
    ("format_number(-0.4, 0)", "-0"),
    ("format_number(1e23D, 1)", "99,999,999,999,999,990,000,000.0"),
    ("format_number(double('inf'), 2)", "∞"),
    ("format_number(12, -1)", None),
    (
        "format_string('%5d|%-5d|%05d|%+d|%,d|%(d', 12, 12, 12, 12, 1234567, -5)",
        "   12|12   |00012|+12|1,234,567|(5)",
    ),
    ("format_string('%x %X %#x', -1Y, 255, 255)", "ff FF 0xff"),
    ("format_string('%.2f %e %.0f', 1.005D, 12345.678D, 2.5D)", "1.01 1.234568e+04 3"),
    ("format_string('%2$s %1$S %b', 'a', null)", "null A true"),
    ("printf('%c%%%5s|', 65, true)", "A% true|"),
]


@pytest.mark.parametrize(("text", "value"), PLAIN)
def test_plain_functions(text: str, value: Any) -> None:
    assert evaluated(text)[0] == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("elt(3, s, e)", "index 3"),
        ("encode('é', 'US-ASCII')", "has no bytes in US-ASCII"),
        ("decode(unhex('ff'), 'UTF-8')", "not UTF-8"),
        ("cast(unhex('ff') as string)", "not UTF-8"),
        ("unbase64('U')", "is not base64"),
        ("url_decode('%')", "is not an encoded URL"),
        ("encode(s, 'latin1')", "the charset 'latin1'"),
        ("format_string('%d', 'x')", "%d of string"),
        ("format_string(concat('%', s), 1)", "is not supported"),
    ],
)
def test_plain_functions_fail_by_name(text: str, words: str) -> None:
    scalar = compile_scalar(text, BATCH.schema)
    with pytest.raises(ExpressionError) as caught:
        scalar.evaluate(BATCH)
    assert words in str(caught.value)
