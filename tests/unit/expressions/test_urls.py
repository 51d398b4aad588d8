"""parse_url, with Spark's answers; random URLs are in tests/spark/test_forms_spark.py."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stretto.errors import ExpressionError
from stretto.expressions import compile_scalar
from stretto.expressions.java_uri import BadUri, Uri, read_uri

URL = "https://u:p@Spark.org:80/a%20b/c?q=1&r=2#f"
ROWS = pa.record_batch({"u": pa.array([URL, None, "no url"]), "k": pa.array(["r", "q", "q"])})


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        (
            URL,
            Uri("https", "u:p@Spark.org:80", "u:p", "Spark.org", "/a%20b/c", "q=1&r=2", "f"),
        ),
        ("mailto:a@b?c#d", Uri("mailto", fragment="d")),
        ("", Uri(path="")),
        ("a/b?c", Uri(path="a/b", query="c")),
        ("//h", Uri(authority="h", host="h", path="")),
        ("///p", Uri(path="/p")),
        ("x://a_b:1/", Uri("x", "a_b:1", path="/")),
        ("x://1.2.3.4", Uri("x", "1.2.3.4", host="1.2.3.4", path="")),
        ("x://1.2.3.256", Uri("x", "1.2.3.256", path="")),
        ("x://[::1%eth0]:8", Uri("x", "[::1%eth0]:8", host="[::1%eth0]", path="")),
        ("x://[1:2:3:4:5:6:1.2.3.4]", Uri("x", "[1:2:3:4:5:6:1.2.3.4]", host="[1:2:3:4:5:6:1.2.3.4]", path="")),
        ("x://日本/ß", Uri("x", "日本", path="/ß")),
    ],
)
def test_a_uri_has_javas_parts(text: str, uri: Uri) -> None:
    assert read_uri(text) == uri


@pytest.mark.parametrize(
    "text",
    ["a b", "1:x", ":x", "x:", "x://", "//", "x:/%2", "x:/a\u00a0b", "x:/a[b]", "x://[::1", "x://[1:2]", "x://[:::1]",
     "x://u[@h", "x://h%", "x://[::1]8", "x://[12345::]", "x://[1.2.3.4::]", "x:/a#b#c"],
)  # fmt: skip
def test_what_is_no_uri(text: str) -> None:
    with pytest.raises(BadUri):
        read_uri(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("parse_url(u, 'HOST')", "Spark.org"),
        ("parse_url(u, 'FILE')", "/a%20b/c?q=1&r=2"),
        ("parse_url(u, 'QUERY', 'q')", "1"),
        ("parse_url(u, 'QUERY', k)", "2"),
        ("parse_url(u, 'QUERY', '[qr]')", "1"),
        ("parse_url(u, 'QUERY', '(r)')", "r"),
        ("parse_url(u, 'QUERY', 'x')", None),
        ("parse_url(u, 'PATH', 'q')", None),
        ("parse_url(u, 'host')", None),
        ("try_parse_url('a b', 'HOST')", None),
    ],
)
def test_parts_of_urls(text: str, value: str | None) -> None:
    good = ROWS.slice(0, 2)
    assert compile_scalar(text, ROWS.schema).evaluate(good).to_pylist() == [value, None if "u" in text[:13] else value]


def test_what_is_no_url_fails_by_name() -> None:
    assert compile_scalar("try_parse_url(u, 'HOST')", ROWS.schema).evaluate(ROWS).to_pylist()[2] is None
    with pytest.raises(ExpressionError, match="'no url' is no URL"):
        compile_scalar("parse_url(u, 'HOST')", ROWS.schema).evaluate(ROWS)
    with pytest.raises(ExpressionError, match="a bad regular expression"):
        compile_scalar("parse_url(u, 'QUERY', '(')", ROWS.schema)
