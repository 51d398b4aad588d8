"""The API as a document and as a page: what a generator of clients needs, and nothing that a browser would run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import pytest

from stretto import App, Entity, reads
from stretto.serving.refusals import Why

from .asgi import Web


@dataclass
class Line:
    """A line of an <order>."""

    what: str
    amount: int = 1


class Odd:
    """No JSON schema has it."""


class Order(Entity):
    """Orders & <b>lines</b>."""

    lines: list[Line] = []  # noqa: RUF012

    async def add(self, line: Line, tags: list[str] = [], note: str = "</script><script>alert(1)</script>") -> int:  # noqa: B006
        """Adds a line.

        It returns <i>how many</i> there are."""
        self.lines.append(line)
        return len(self.lines)

    @reads
    async def find(self, since: int, lines: list[Line] | None = None) -> list[Line]:
        return self.lines[since:]


class Other(Entity):
    async def take(self, value: Any) -> Any:
        return value

    async def odd(self, value: Odd) -> None: ...


app = App("orders", entities=[Order, Other])


@pytest.fixture
def document() -> dict[str, Any]:
    answer = Web(app).ask("GET", "/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    return dict(answer.json)


def test_the_document_has_the_types_of_arguments_and_results(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    assert document["info"]["title"] == "orders"
    assert sorted(document["paths"]) == [
        "/Order/{key}/add",
        "/Order/{key}/find",
        "/Other/{key}/odd",
        "/Other/{key}/take",
    ]
    add = document["paths"]["/Order/{key}/add"]
    assert add.keys() == {"post"}
    assert add["post"]["summary"] == "Adds a line."
    assert add["post"]["requestBody"]["content"]["application/json"]["schema"] == {
        "type": "object",
        "properties": {
            "line": {"$ref": "#/components/schemas/Line"},
            "tags": {"type": "array", "items": {"type": "string"}, "default": []},
            "note": {"type": "string", "default": "</script><script>alert(1)</script>"},
        },
        "required": ["line"],
        "additionalProperties": False,
    }
    assert add["post"]["responses"]["200"]["content"]["application/json"]["schema"] == {"type": "integer"}
    assert [each["name"] for each in add["post"]["parameters"]] == ["key", "Idempotency-Key"]
    line = document["components"]["schemas"]["Line"]
    assert line["properties"] == {"what": {"type": "string"}, "amount": {"type": "integer", "default": 1}}
    for name in ("take", "odd"):  # Of what JSON schemas have no word for, nothing is said.
        post = document["paths"][f"/Other/{{key}}/{name}"]["post"]
        assert post["requestBody"]["content"]["application/json"]["schema"]["properties"] == {"value": {}}


def test_a_method_that_reads_has_a_query(document: dict[str, Any]) -> None:
    find = document["paths"]["/Order/{key}/find"]
    assert find.keys() == {"get", "post"}
    key, since, lines = find["get"]["parameters"]
    assert (key["name"], key["in"]) == ("key", "path")
    assert since == {"name": "since", "in": "query", "required": True, "schema": {"type": "integer"}}
    assert lines["required"] is False
    assert lines["content"]["application/json"]["schema"]["anyOf"]


def test_every_reference_leads_somewhere_and_operations_have_names_of_their_own(document: dict[str, Any]) -> None:
    references = set(re.findall(r"'\$ref': '#/components/schemas/(\w+)'", repr(document)))
    assert references == {"Line", "Error"}
    assert references <= document["components"]["schemas"].keys()
    names = [each["operationId"] for verbs in document["paths"].values() for each in verbs.values()]
    assert len(names) == len(set(names)) == 5


def test_every_answer_is_as_the_document_says(document: dict[str, Any]) -> None:
    codes = document["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["code"]["enum"]
    assert codes == [why.code for why in Why if why is not Why.NOT_DONE], "that one is of the page"
    assert len(set(codes)) == len(codes)
    error = Web(app).call("/Order/a/add", {"line": 1}).json["error"]
    assert set(error) <= document["components"]["schemas"]["Error"]["properties"]["error"]["properties"].keys()


def test_with_a_token_the_document_says_so(document: dict[str, Any]) -> None:
    assert "security" not in document
    secret = "correct-horse-battery"
    answer = Web(app, secret).ask("GET", "/openapi.json", headers={"authorization": f"Bearer {secret}"})
    assert answer.json["security"] == [{"token": []}]
    assert secret.encode() not in answer.body


class Tags(HTMLParser):
    """The tags of a page, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_shows_the_api_runs_nothing_and_loads_nothing() -> None:
    answer = Web(app).ask("GET", "/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = Tags(answer.body.decode())
    for shown in (
        "/Order/{key}/add",
        "Adds a line.",
        "It returns <i>how many</i> there are.",
        "Orders & <b>lines</b>.",
    ):
        assert shown in page.text
    assert "<script>alert(1)</script>" in page.text, "as a text"
    assert page.tags.isdisjoint({"script", "img", "link", "iframe", "object", "b", "i", "form"})
    assert {name for name, _ in page.attributes} <= {"lang", "charset", "name", "content", "href", "class"}
    assert [value for name, value in page.attributes if name == "href"] == ["/openapi.json"]
    assert "//" not in re.sub(r"<style>.*?</style>", "", answer.body.decode(), flags=re.DOTALL)


def test_the_browser_is_told_so() -> None:
    answer = Web(app).ask("GET", "/")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "script" not in policy
    assert answer.headers["cache-control"] == "no-store"
