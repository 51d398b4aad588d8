"""The API: paths, parameters, and that the page is given away file by file."""

from __future__ import annotations

import re
from typing import Any

import pytest

from stretto.dashboard.assets import ORDER, STYLES, page_text
from stretto.dashboard.controls import ACTIONS
from stretto.dashboard.views import decisions_view, job_rows, job_view, overview

from .made import PageWeb


@pytest.fixture(scope="module")
def page() -> PageWeb:
    return PageWeb()


def test_the_api_answers_with_the_views(page: PageWeb) -> None:
    history = page.history
    assert page.ask("GET", "/api/overview").json == {**overview(history, recent=True), "title": "made up"}
    assert page.ask("GET", "/api/jobs/job-001").json == job_view(history, "job-001")
    assert page.ask("GET", "/api/jobs/job-001/rows").json == job_rows(history.jobs["job-001"])
    since = job_rows(history.jobs["job-001"])["job"]["t"][1]
    assert page.ask("GET", f"/api/jobs/job-001/rows?since={since}").json["job"]["t"][0] > since
    assert page.ask("GET", "/api/decisions").json == decisions_view(history)
    assert page.ask("GET", "/api/decisions?outcome=failed&job=").json == []


@pytest.mark.parametrize(
    ("verb", "path", "status", "code"),
    [
        ("GET", "/api/jobs/nobody", 404, "nothing_here"),
        ("GET", "/api/jobs/nobody/rows", 404, "nothing_here"),
        ("GET", "/api/nothing", 404, "nothing_here"),
        ("GET", "/nothing", 404, "nothing_here"),
        ("GET", "/assets/__init__.py", 404, "nothing_here"),
        ("GET", "/assets/../web.py", 404, "nothing_here"),
        ("GET", "/assets/%2e%2e/web.py", 404, "nothing_here"),
        ("GET", "/assets/vendor/README.md", 404, "nothing_here"),
        ("POST", "/", 405, "wrong_verb"),
        ("POST", "/api/overview", 405, "wrong_verb"),
        ("GET", "/api/control", 405, "wrong_verb"),
        ("GET", "/api/jobs/job-001/rows?since=soon", 400, "malformed"),
        ("GET", "/api/decisions?jobs=a", 400, "malformed"),
        ("GET", "/api/decisions?job=a&job=b", 400, "malformed"),
        ("GET", "/api/decisions?job=%ff", 400, "malformed"),
    ],
)
def test_what_is_not_there_or_cannot_be_read_is_refused(
    page: PageWeb, verb: str, path: str, status: int, code: str
) -> None:
    answer = page.ask(verb, path)
    assert (answer.status, answer.code) == (status, code)


def test_all_files_of_the_page_are_there_and_it_names_them_in_their_order(page: PageWeb) -> None:
    named = re.findall(r'(?:src|href)="(/assets/[^"]+)"', page_text())
    assert named == [f"/assets/{name}" for name in (*STYLES, *ORDER)]
    for path in named:
        answer = page.ask("GET", path)
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/css" if path.endswith("css") else "text/javascript")


def test_the_document_has_every_path_that_the_page_asks_for(page: PageWeb) -> None:
    document: dict[str, Any] = page.ask("GET", "/api/openapi.json").json
    scripts = "".join(page.ask("GET", f"/assets/{name}").body.decode() for name in ORDER if "vendor" not in name)
    asked = {
        re.sub(r"\$\{encodeURIComponent\(name\)\}", "{job}", each)
        for each in re.findall(r"`?(/api/[^`\"$?]*(?:\$\{encodeURIComponent\(name\)\}[^`]*)?)", scripts)
    }
    assert asked == {"/api/events", "/api/control", "/api/jobs/{job}/rows", "/api/tables", "/api/query"}
    assert asked <= document["paths"].keys()
    actions = document["components"]["schemas"]
    assert {each.__name__ for each in ACTIONS} <= actions.keys()
    assert {"Stop", "Rescale", "SetObjective"} <= actions.keys()


def test_every_path_of_the_document_is_answered(page: PageWeb) -> None:
    for path, verbs in page.ask("GET", "/api/openapi.json").json["paths"].items():
        if "get" in verbs and path != "/api/events":
            assert page.ask("GET", path.replace("{job}", "job-000")).status == 200, path
