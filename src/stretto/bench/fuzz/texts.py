"""Texts with a language of their own: dates, JSON, patterns, formats. They reach the functions that read them often."""

from __future__ import annotations

DATES = (
    "2020-02-29", "2021-02-29", "2020-12-31", "1969-12-31", "2024-03-10", "2020-2-9", "2020", "2020-01", "20200229",
    "0001-01-01", "9999-12-31", "1582-10-10", "29/02/2020", "31/12/1999", "Feb 9, 2020", "Dec 31, 1999", "12:34",
    "2020-02-29 12:34:56", "2020-02-29 12:34:56.789", "2020-02-29T12:34:56", "2020-02-29T12:34:56.123456Z",
    "2024-03-10 02:30:00", "2024-11-03 01:30:00", "2020-06-01 00:00:00 Europe/Berlin", "2020-01-01 00:00:00+01:30",
    "20-2-9 1:05 PM", "20-12-31 12:00 AM", "Q1 2020", "Saturday", "60", "2020-01-01 24:00:00", "1970-01-01 00:00:00",
    "", " 2020-02-29 ", "2020-02-29garbage", "epoch",
)  # fmt: skip
JSON = (
    '{"a": 1, "b": [1, 2]}', '{"a": null}', "[1, 2]", "{", "{}", "[]", "null", "1", '"x"', "", '{"a": "x", "b": []}',
    '{"a": 1.5, "c": {"d": [true, null]}}', '{"b": [3, null, 4], "a": "7"}', '{"a": 9223372036854775808}',
    '{"a": "2020-02-29"}', '{"a":1}{"a":2}', '{"A": 1}', '{"a": 1, "a": 2}', '{"x": {"a": [{"b": "ß🙂"}]}}', "[{}]",
    '{"a": NaN}', "{'a': 1}", ' {"a" : true } ', '{"a": "\\u00e9\\n"}', '[{"a": 1}, {"a": 2}]',
)  # fmt: skip
LIKE_PATTERNS = ("'%'", "'a%'", "'%b%'", "'_'", "'%_c'", "'h\\\\%%'", "''", "'%ß'", "'abc'", "'A_C'", "'%🙂%'")
PATTERNS = (
    "'a'", "'^a'", "'[a-z]+'", "'(a)(b)?'", "'\\\\d+'", "'.'", "'b$'", "''", "'a|b'", "'(\\\\w+)'", "'[^a-c]'", "'a*'",
    "'(?i)abc'", "'\\\\s'", "','", "'ß'", "'(?i)É'", "'[a-z&&[^b]]'", "'\\\\bh'", "'(?<word>a)'", "'a++b'",
    "'\\\\p{L}+'",
    "'\\\\Qa.b\\\\E'", "'(?s)a.b'", "'(?m)^b'", "'a(?=b)'", "'(?<!a)b'", "'(.)\\\\1'", "'\\\\R'", "'\\\\h'", "'\\\\Z'",
    "'a{2,}?'", "'\\\\W'", "'[[:alpha:]]'", "'\\\\x41'", "'x*$'",
)  # fmt: skip
UNITS = (
    "'year'", "'QUARTER'", "'month'", "'week'", "'day'", "'HOUR'", "'minute'", "'second'", "'millisecond'", "'MON'",
    "'dd'", "'decade'",
)  # fmt: skip
TIME_FORMATS = (
    "'yyyy-MM-dd'", "'yyyy-MM-dd HH:mm:ss'", "'dd/MM/yyyy'", "'yyyyMMdd'", "'HH:mm'", "'MMM d, yyyy'", "'EEEE'", "'D'",
    "'yy-M-d h:mm a'", "'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSXXX'", "'QQQ yyyy'", "'y'", "'E, dd MMM yyyy'", "'ss.SSSSSS'",
    "'VV'", "'O'", "'DDD'", "'kk:mm'", "'G yyyy'",
)  # fmt: skip
ZONES = ("'UTC'", "'+02:00'", "'Europe/Berlin'", "'America/New_York'", "'Asia/Kathmandu'", "'Z'", "'GMT-3'")
PATHS = ("'$.a'", "'$.b[0]'", "'$'", "'$.x'", "'$[1]'", "'$.b[*]'", "'$.c.d[0]'", "'$[*].a'", "'$[\\'a\\']'")
JSON_SCHEMAS = (
    "'a INT'", "'a STRING, b ARRAY<INT>'", "'a DOUBLE'", "'a DATE'", "'a STRING'", "'b ARRAY<STRING>, a BOOLEAN'",
    "'x STRUCT<a: STRING>'", "'array<int>'", "'map<string,string>'", "'a DECIMAL(5,1)'",
)  # fmt: skip
PRINTF = ("'%s'", "'%s-%s'", "'%5s|'", "'%d'", "'%05d'", "'%.2f'", "'%x'", "'100%%'", "'%-6s|'", "'%,d'", "'%e'")
NUMBER_FORMATS = (
    "'999'", "'9,999.99'", "'S000.0'", "'$99.9'", "'999PR'", "'MI99'", "'9g999d99s'", "'0,000mi'", "'.99'", "'S$0.PR'",
    "'999999999999999999999D999'",
)  # fmt: skip
TEXT_FORMS = (*NUMBER_FORMATS, "'hex'", "'base64'", "'utf-8'", "'yyyy-MM-dd'", "'D'", "'HH:mm:ss'")
FORMATTED = ("s", "s2", "'12'", "'-1,234.50'", "'1,234.5-'", "'$5'", "'<12>'", "'1 2'", "'007.5'", "'.5'", "'\u0661'")
ENCODINGS = ("'UTF-8'", "'UTF-16'", "'ISO-8859-1'", "'US-ASCII'", "'UTF-16BE'")
BINARY_FORMATS = ("'hex'", "'UTF-8'", "'utf8'", "'base64'", "'x'")
URLS = (
    "s", "s2", "'http://h.org/p?q=1&a=b#f'", "'https://u:p@H.org:80/a%20b?q'", "'mailto:a@b'", "'//[::1]:8/x;y'",
    "'http://a_b/?q=1'", "'HTTP://1.2.3.4:5'", "'http://h/?a b'", "'x:/p?a=1&q=2&q=3'", "'http://ß.org/日?q=🙂'",
)  # fmt: skip
URL_PARTS = ("'HOST'", "'QUERY'", "'PATH'", "'REF'", "'PROTOCOL'", "'FILE'", "'AUTHORITY'", "'USERINFO'", "'host'")
