"""The page in a real browser, on a made-up cluster that goes on while it is looked at: what it shows against the API.

The server and its sockets are real; only the observations are made up. Nothing here waits for a time: the browser is
asked again until a condition holds.
"""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from tests.browser.hands import picture, prefer, press
from tests.unit.dashboard.made import HOSTILE, Driven, renamed
from tests.waiting import eventually

from stretto.api.slo import SLO
from stretto.bench.page.browser import Browser, browser
from stretto.bench.page.feed import FUNCTIONS, SLOW, MadeUp, MadeUpCluster
from stretto.dashboard.history import History
from stretto.dashboard.kept import Kept
from stretto.dashboard.live import Page
from stretto.dashboard.recording import Recording
from stretto.dashboard.report import report_text
from stretto.dashboard.web import PAGE_LIMITS, DashboardWeb
from stretto.elasticity.records import DecisionRecord
from stretto.errors import UserError
from stretto.observation.model import Observation
from stretto.queries.answers import Answer, Missing
from stretto.runtime.announcements import Announcements
from stretto.serving.guard import Guard, Token
from stretto.serving.limits import Limits
from stretto.serving.server import Server, bound

TOKEN = "a-token-of-the-page-for-tests"
JOBS, WORKERS = 4, 3


class Live:
    """A page that is served, with a cluster behind it that goes on when it is told to."""

    def __init__(
        self, limits: Limits = PAGE_LIMITS, streams_max: int = 16, hostile: bool = False, banks: int = 0
    ) -> None:
        self._made_up = MadeUpCluster(MadeUp(JOBS, WORKERS, banks=banks, begins_ns=1_763_000_000_000_000_000))
        self._hostile = hostile
        self.history = History()
        self.kept = Kept(self.history, lambda: self.history.observation.time_ns)
        self.cluster = Driven()
        for _ in range(30):
            self.go_on()
        for _ in range(6):
            self.decide()
        guards = Guard(None), Guard(Token(TOKEN))
        self.web = DashboardWeb(self.kept, "made up", *guards, self.cluster, limits, streams_max=streams_max)
        self.server = Server(bound("127.0.0.1", 0), self.web, limits, "page")
        self.url = self.server.url

    def go_on(self) -> Observation:
        observation = self._made_up.observe()
        if self._hostile:
            observation = renamed(observation, "job-000", HOSTILE)
        self.kept.take([observation], [])
        return observation

    def decide(self) -> DecisionRecord:
        record = self._made_up.decide()
        self.kept.take([], [record])
        return record

    def api(self, path: str) -> Any:
        address = urlsplit(self.url)
        with closing(http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)) as connection:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())


@contextmanager
def live(**given: Any) -> Iterator[Live]:
    started = Live(**given)
    started.server.start()
    try:
        yield started
    finally:
        started.web.close()
        started.server.end()


@pytest.fixture(scope="module")
def page() -> Iterator[Live]:
    with live() as started:
        yield started


@pytest.fixture(scope="module")
def _chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def chromium(_chromium: Browser) -> Iterator[Browser]:
    _chromium.complaints.clear()
    _chromium.requested.clear()
    _chromium.resize(1280, 900)
    yield _chromium
    assert _chromium.complaints == [], "the page complains in the console"


def texts(chromium: Browser, selector: str) -> list[str]:
    found = chromium.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((each) => each.textContent)")
    return [" ".join(text.split()) for text in found]


def opened(chromium: Browser, page: Live, place: str = "#/") -> None:
    chromium.open(page.url + place)
    chromium.until("document.querySelector('header .connection.open')")


def test_the_overview_shows_what_the_api_says_and_goes_on_with_the_cluster(chromium: Browser, page: Live) -> None:
    opened(chromium, page)
    chromium.until(f"document.querySelectorAll('[data-job]').length === {JOBS}")
    told = page.api("/api/overview")
    for job in told["jobs"]:
        (row,) = texts(chromium, f"[data-job='{job['name']}']")
        assert ("✓ held" if job["held"] else "✗ missed") in row
        assert chromium.run(f"stretto.format.rate({job['rows_in']})") in row
        assert chromium.run(f"stretto.format.ms({job['p99_ms']})") in row
    assert len(texts(chromium, "[data-worker]")) == len(told["workers"]) == WORKERS
    assert "windows is the cause" in texts(chromium, "[data-job='job-000']")[0]
    picture(chromium, "overview")
    page.go_on()
    now = page.api("/api/overview")
    rate = chromium.run(f"stretto.format.rate({now['jobs'][1]['rows_in']})")
    chromium.until(f"document.querySelector(\"[data-job='job-001']\").textContent.includes('{rate}')")
    assert chromium.requested[0] == page.url
    assert {urlsplit(each).netloc for each in chromium.requested if each.startswith("http")} == {
        urlsplit(page.url).netloc
    }


def test_the_planted_slow_function_is_marked_as_the_cause_and_not_its_victims(chromium: Browser, page: Live) -> None:
    opened(chromium, page, "#/job/job-000")
    chromium.until("document.querySelector('.plot canvas') && document.querySelector('canvas.heat')")
    marked = chromium.run(
        "Object.fromEntries([...document.querySelectorAll('.node')].map((node) => "
        "[node.dataset.function, [node.dataset.pressure, node.getAttribute('aria-label')]]))"
    )
    told = page.api("/api/jobs/job-000")
    assert {name: pressure for name, (pressure, _) in marked.items()} == {
        each["name"]: each["pressure"] for each in told["graph"]
    }
    assert [name for name, (pressure, _) in marked.items() if pressure == "cause"] == [SLOW]
    assert marked[SLOW][1].startswith(f"{SLOW}: cause")
    assert texts(chromium, "[data-cause]")[0].startswith(f"Cause: {SLOW}")
    assert len(texts(chromium, ".functions tbody tr")) == len(FUNCTIONS)
    picture(chromium, "a job with its cause")
    # Its neighbours are drawn from left to right, and edges have their rates.
    lefts = chromium.run("[...document.querySelectorAll('.node')].map((node) => node.getBoundingClientRect().left)")
    assert lefts == sorted(lefts)
    rates = [chromium.run(f"stretto.format.rate({edge['sent']})") for edge in told["edges"]]
    assert texts(chromium, ".edge text") == rates
    assert chromium.run(
        "document.querySelector('canvas.heat').getContext('2d').getImageData(200, 20, 600, 1).data.some((each) => each)"
    )


def test_entities_show_their_transactions_and_why_they_were_aborted(chromium: Browser) -> None:
    with live(banks=1) as page:
        opened(chromium, page)
        chromium.until("document.querySelector('[data-job=bank-000] [data-transactions]')")
        told = page.api("/api/overview")["jobs"][0]
        rate = chromium.run(f"stretto.format.count(Math.round({told['transactions_per_s']}))")
        assert texts(chromium, "[data-transactions]") == [f"{rate} transactions/s"]
        opened(chromium, page, "#/job/bank-000")
        chromium.until("document.querySelectorAll('.entities .plot canvas').length === 4")
        found = page.api("/api/jobs/bank-000")["entities"]
        assert not texts(chromium, ".graph"), "it has no functions"
        tiles = " ".join(texts(chromium, ".entities .tile"))
        for name in ("committed_per_s", "aborted_per_s", "conflicts_per_s", "epochs_per_s"):
            assert chromium.run(f"stretto.format.rate({found[name]})") in tiles
        assert chromium.run(f"stretto.format.ms({found['p99_ms']})") in tiles
        reasons = chromium.run("[...document.querySelectorAll('[data-abort]')].map((each) => each.dataset.abort)")
        assert reasons == list(found["aborted_by"])
        for reason, count in found["aborted_by"].items():
            assert chromium.run(f"stretto.format.count({count})") in texts(chromium, f"[data-abort='{reason}']")[0]
        for place in found["places"]:
            (row,) = texts(chromium, f"[data-place='{place['number']}']")
            assert place["worker"] in row
            assert chromium.run(f"stretto.format.count({place['conflicts']})") in row
        picture(chromium, "entities")
        page.go_on()
        rows = page.api("/api/jobs/bank-000/rows")["entities"]
        chromium.until(f"stretto.store.rows['bank-000'].entities.t.at(-1) === {rows['t'][-1]}")
        assert chromium.run("stretto.store.rows['bank-000'].entities") == rows


def test_rows_that_come_are_added_to_the_plots_once(chromium: Browser, page: Live) -> None:
    opened(chromium, page, "#/job/job-001")
    chromium.until("stretto.store.rows['job-001']")
    for _ in range(3):
        page.go_on()
    told = page.api("/api/jobs/job-001/rows")
    chromium.until(f"stretto.store.rows['job-001'].job.t.at(-1) === {told['job']['t'][-1]}")
    assert chromium.run("stretto.store.rows['job-001'].job") == told["job"]
    assert chromium.run("stretto.store.rows['job-001'].functions") == told["functions"]


def test_decisions_have_their_reasons_and_filters(chromium: Browser, page: Live) -> None:
    opened(chromium, page, "#/decisions")
    told = page.api("/api/decisions")
    chromium.until(f"document.querySelectorAll('[data-decision]').length === {len(told)}")
    assert chromium.run(
        "[...document.querySelectorAll('[data-decision]')].map((each) => Number(each.dataset.decision))"
    ) == [each["number"] for each in told]
    latest = told[0]
    chromium.run("document.querySelector('.summary').click()")
    chromium.until("document.querySelector('.detail .plot canvas')")
    (detail,) = texts(chromium, ".detail")
    for candidate in latest["candidates"]:
        assert candidate["what"] in detail
        assert (candidate["lost_because"] or "chosen") in detail
    picture(chromium, "decisions")
    for name in latest["seen"]:
        assert name.replace("_", " ") in detail
    job = told[-1]["job"]
    chromium.run(
        f"(() => {{ const choice = document.querySelector('.filters select'); choice.value = '{job}'; "
        "choice.dispatchEvent(new Event('change', { bubbles: true })); })()"
    )
    count = sum(each["job"] == job for each in told)
    chromium.until(f"document.querySelectorAll('[data-decision]').length === {count}")
    record = page.decide()
    shown = count + (record.job == job)
    chromium.until(f"document.querySelector('.filters output').textContent === '{shown} of {len(told) + 1}'")


def test_it_is_used_with_keys_alone(chromium: Browser, page: Live) -> None:
    opened(chromium, page, "#/job/job-000")
    chromium.until("document.querySelector('.node')")
    reached = []
    while not reached or reached[-1] != "ranking":
        assert len(reached) < 20, reached
        press(chromium, "Tab")
        name = "document.activeElement.dataset.function || document.activeElement.textContent.trim()"
        reached.append(chromium.run(name))
    assert reached == ["stretto", "Overview", "Decisions", "Tables", "◐", *FUNCTIONS[:4]]
    press(chromium, "Enter")
    chromium.until("document.querySelector('[data-chosen=ranking]')")


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("place", ["#/", "#/job/job-000", "#/decisions"])
def test_nothing_is_wider_than_the_window(chromium: Browser, page: Live, width: int, place: str) -> None:
    chromium.resize(width, 900)
    opened(chromium, page, place)
    chromium.until("document.querySelector('main > *:nth-child(2)')")
    assert chromium.run("document.documentElement.scrollWidth") <= width
    picture(chromium, f"{place.strip('#/').replace('/', ' ') or 'overview'} at {width}")
    small = chromium.run(
        "[...document.querySelectorAll('main *')].filter((each) => each.childElementCount === 0 && "
        "each.textContent.trim() && parseFloat(getComputedStyle(each).fontSize) < 11).map((each) => each.textContent)"
    )
    assert small == [], "these texts are too small"


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_entities_and_answers_fit_into_the_window(chromium: Browser, width: int, scheme: str) -> None:
    with live(banks=1) as page:
        chromium.resize(width, 900)
        prefer(chromium, scheme)
        chromium.open(f"{page.url}#token={TOKEN}")
        chromium.until("document.querySelector('header .connection.open')")
        for place, there in (("job/bank-000", ".entities .plot canvas"), ("tables", "[data-table]")):
            chromium.run(f"location.hash = '#/{place}'")
            chromium.until(f"document.querySelector('{there}')")
            if place == "tables":
                typed(chromium, "SELECT auction, price FROM bids")
                chromium.until("document.querySelector('.answer td')")
            assert chromium.run("document.documentElement.scrollWidth") <= width
            picture(chromium, f"{place.replace('/', ' ')} at {width} {scheme}")
    prefer(chromium, "light")


@pytest.mark.parametrize(("scheme", "is_dark"), [("dark", True), ("light", False)])
def test_it_is_light_or_dark_as_wished_and_readable(chromium: Browser, page: Live, scheme: str, is_dark: bool) -> None:
    prefer(chromium, scheme)
    opened(chromium, page, "#/job/job-000")
    chromium.until("document.querySelector('.functions')")
    paper, ink, soft = chromium.run(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color, "
        "getComputedStyle(document.querySelector('.tile .note')).color]"
    )
    assert (luminance(paper) < 0.1) is is_dark
    assert contrast(paper, ink) > 10
    assert contrast(paper, soft) > 4.5, "the least contrast of the accessibility guidelines for text"


def luminance(colour: str) -> float:
    """The relative luminance of the accessibility guidelines (WCAG 2)."""
    parts = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_token_goes_from_the_address_into_the_tab_and_changes_are_asked_twice(
    chromium: Browser, page: Live
) -> None:
    opened(chromium, page, "#/")
    chromium.run("sessionStorage.clear()")
    opened(chromium, page, "#/job/job-001")
    chromium.until("document.querySelector('.controls')")
    assert "with its token" in texts(chromium, ".controls")[-1]
    opened(chromium, page, f"#token={TOKEN}")
    assert TOKEN not in chromium.run("location.href")
    stored = "[sessionStorage.getItem('stretto-token'), JSON.stringify(localStorage) + document.cookie]"
    in_tab, elsewhere = chromium.run(stored)
    assert (in_tab, TOKEN in elsewhere) == (TOKEN, False)
    assert not any(TOKEN in each.partition("#")[0] for each in chromium.requested)
    chromium.run("location.hash = '#/job/job-001'")
    chromium.until("[...document.querySelectorAll('.control button')].some((each) => each.textContent === 'Stop now')")
    press = "[...document.querySelectorAll('.control button')].find((each) => each.textContent === 'Stop now').click()"
    chromium.run(press)
    chromium.until("document.querySelector('dialog[open]')")
    chromium.run("document.querySelector('dialog menu button').click()")
    chromium.until("!document.querySelector('dialog')")
    assert page.cluster.done == []
    chromium.run(press)
    chromium.until("document.querySelector('dialog[open]')")
    chromium.run("document.querySelector('dialog .confirm').click()")
    chromium.until(
        "[...document.querySelectorAll('.control [role=status]')].some((each) => each.textContent.includes('ends'))"
    )
    assert page.cluster.done == [("job", "job-001"), ("stop", False, None)]


def test_an_objective_is_changed_from_the_page(chromium: Browser) -> None:
    with live() as page:
        chromium.open(f"{page.url}#token={TOKEN}")
        chromium.until("document.querySelector('header .connection.open')")
        chromium.run("location.hash = '#/job/job-001'")
        chromium.until("document.querySelector('fieldset[aria-label=Objective]')")
        told = page.api("/api/jobs/job-001")["objective"]
        fields = "[...document.querySelectorAll('fieldset[aria-label=Objective] input')]"
        assert chromium.run(f"{fields}.map((each) => each.value)") == ["500", "99", "", f"{told['priority']:g}"]
        for place, value in enumerate(("200", "95", "", "4")):
            chromium.run(
                f"(() => {{ const field = {fields}[{place}]; field.value = '{value}'; "
                "field.dispatchEvent(new Event('input', { bubbles: true })); })()"
            )
        chromium.run("document.querySelector('fieldset[aria-label=Objective] .control > button').click()")
        chromium.until("document.querySelector('dialog[open]')")
        (question,) = texts(chromium, "dialog p")
        assert question == f"Have job-001 promise 200 ms for 95 % of results, with priority 4? Before: {told['text']}."
        picture(chromium, "an objective is changed")
        assert page.cluster.done == [], "it was not confirmed yet"
        chromium.run("document.querySelector('dialog .confirm').click()")
        chromium.until("document.querySelector('fieldset [role=status]').textContent.includes('promises')")
        assert page.cluster.done == [("job", "job-001"), ("objective", SLO(200.0, 95.0, None, 4.0, share=3.0))]


def typed(chromium: Browser, sql: str) -> None:
    chromium.run(
        f"(() => {{ const box = document.querySelector('textarea'); box.value = {json.dumps(sql)}; "
        "box.dispatchEvent(new Event('input', { bubbles: true })); })()"
    )
    chromium.until("!document.querySelector('.question button').disabled")
    chromium.run("document.querySelector('.question button').click()")


def test_tables_are_listed_and_asked_and_an_answer_is_shown_as_it_came(chromium: Browser) -> None:
    with live() as page:
        chromium.open(f"{page.url}#token={TOKEN}")
        chromium.until("document.querySelector('header .connection.open')")
        chromium.run("[...document.querySelectorAll('nav a')].find((each) => each.textContent === 'Tables').click()")
        chromium.until("document.querySelector('[data-table]') && document.querySelector('[data-state]')")
        told = page.api("/api/tables")
        (row,) = texts(chromium, "[data-table]")
        (table,) = told["tables"]
        for each in (table["name"], table["job"], *(column["name"] for column in table["columns"])):
            assert each in row
        assert told["states"][0]["name"] in texts(chromium, "[data-state]")[0]
        # A table that is chosen is what is asked.
        chromium.run("document.querySelector('[data-table] button').click()")
        chromium.until("document.querySelector('textarea').value === 'SELECT * FROM bids LIMIT 20'")
        chromium.run("document.querySelector('.question button').click()")
        chromium.until("document.querySelector('[data-answer]')")
        assert page.cluster.done == [("ask", "SELECT * FROM bids LIMIT 20", 10.0, None)]
        assert texts(chromium, ".answer tbody td") == ["7", "1.50", str(2**60), "null"]
        assert texts(chromium, ".answer th") == ["auctionbigint", "pricedecimal(10,2)"]
        assert "2 rows; everything before 2026-01-01T00:00:00Z is in it." in texts(chromium, "[data-answer] p")[0]
        picture(chromium, "an answer")


def test_an_answer_that_is_incomplete_says_what_is_missing_and_texts_of_users_stay_texts(chromium: Browser) -> None:
    with live() as page:
        page.cluster.answer = Answer(pa.table({HOSTILE: [HOSTILE]}), None, (Missing("partition 1", HOSTILE),))
        chromium.open(f"{page.url}#token={TOKEN}")
        chromium.until("document.querySelector('header .connection.open')")
        chromium.run("location.hash = '#/tables'")
        chromium.until("document.querySelector('textarea')")
        typed(chromium, "SELECT 1")
        chromium.until("document.querySelector('[data-answer] [role=alert]')")
        assert texts(chromium, "[data-answer] [role=alert]") == [f"It is not complete. partition 1: {HOSTILE}"]
        assert texts(chromium, ".answer td") == [HOSTILE]
        assert chromium.run("window.attacked") is None
        # What cannot be asked is said in the words of the API, and the last answer is not shown beside it.
        page.cluster.fails = UserError("there is no table 'bidz'", "there is bids")
        typed(chromium, "SELECT * FROM bidz")
        chromium.until("!document.querySelector('[data-answer]') && document.querySelector('main > .error')")
        assert "there is no table 'bidz'" in texts(chromium, "main > .error")[0]
    chromium.complaints[:] = [each for each in chromium.complaints if "422" not in each and "400" not in each]


def test_without_the_token_nothing_can_be_asked(chromium: Browser, page: Live) -> None:
    chromium.open("about:blank")
    chromium.open(page.url)
    chromium.run("sessionStorage.clear()")
    opened(chromium, page, "#/tables")
    chromium.until("document.querySelector('[data-table]')")
    assert not texts(chromium, "textarea")
    assert "with its token" in texts(chromium, "main")[0]


def test_a_report_opened_from_disk_shows_the_same_and_asks_for_nothing(
    chromium: Browser, page: Live, tmp_path: Path
) -> None:
    path = tmp_path / "run.html"
    path.write_text(page.kept.read(lambda history: report_text(history, "a run")), "utf-8")
    chromium.open(path.as_uri())
    chromium.until(f"document.querySelectorAll('[data-job]').length === {JOBS}")
    assert texts(chromium, ".connection") == ["recorded"]
    chromium.run("location.hash = '#/job/job-000'")
    chromium.until("document.querySelector('.plot canvas')")
    assert chromium.run("document.querySelector('.node[data-pressure=cause]').dataset.function") == SLOW
    assert "Controls" not in texts(chromium, "h2")
    picture(chromium, "a report from disk")
    chromium.run("location.hash = '#/decisions'")
    chromium.until(f"document.querySelectorAll('[data-decision]').length === {len(page.history.decisions)}")
    assert chromium.requested == [path.as_uri()]


ATTACKED = "(window.attacked === true || document.querySelector('main script, main img') !== null)"


def is_attacked(chromium: Browser) -> bool:
    return bool(chromium.run(ATTACKED))


def test_a_job_that_is_called_a_script_is_a_text(chromium: Browser, tmp_path: Path) -> None:
    with live(hostile=True) as hostile:
        report = tmp_path / "run.html"
        report.write_text(hostile.kept.read(lambda history: report_text(history, HOSTILE)), "utf-8")
        for url in (hostile.url, report.as_uri()):
            chromium.open(url + "#/")
            chromium.until(f"document.querySelectorAll('[data-job]').length === {JOBS}")
            names = texts(chromium, "[data-job] a")
            assert HOSTILE in names
            # The link leads to the very job.
            chromium.run(f"[...document.querySelectorAll('[data-job] a')][{names.index(HOSTILE)}].click()")
            chromium.until("document.querySelector('.plot canvas')")
            assert texts(chromium, "h1") == [HOSTILE]
            chromium.run("location.hash = '#/decisions'")
            chromium.until("document.querySelector('.filters')")
            assert not is_attacked(chromium)


def test_without_escaping_the_same_name_is_a_script(page: Live, tmp_path: Path) -> None:
    """The weakness, planted: a name that is made HTML of. The policy stops the script of it even then."""
    with browser() as chromium:
        opened(chromium, page)
        # In one step, since the page may be drawn again at any moment.
        assert chromium.run(f"document.querySelector('main').innerHTML = {json.dumps(HOSTILE)}; {ATTACKED}")

        def complained() -> bool:
            assert chromium.run("window.attacked === true") is False
            return any("Content Security Policy" in each for each in chromium.complaints)

        eventually(complained)


def test_open_pages_have_a_limit_and_a_closed_one_makes_room() -> None:
    with live(streams_max=2) as limited, browser() as first:
        opened(first, limited)
        address = urlsplit(limited.url)
        with closing(http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)) as second:
            second.request("GET", "/api/events")
            assert second.getresponse().readline().startswith(b"event: overview")
            refused = limited.api("/api/events")
            assert refused["error"]["code"] == "busy"
        first.until("stretto.store.connection === 'open'")
    first_ended = limited.server.runs
    assert not first_ended, "open pages do not hold up the end of the server"


def test_connections_have_a_limit() -> None:
    with live(limits=Limits(connections=2)) as limited:
        address = urlsplit(limited.url)
        connections = [http.client.HTTPConnection(address.hostname or "", address.port, timeout=60) for _ in range(3)]
        for connection in connections:
            connection.connect()
        statuses = []
        for connection in connections:
            try:
                connection.request("GET", "/api/overview")
                statuses.append(connection.getresponse().status)
            except ConnectionError:
                statuses.append(503)
        for connection in connections:
            connection.close()
        assert sorted(statuses) == [200, 200, 503]


def test_a_page_for_other_machines_asks_for_the_token(tmp_path: Path) -> None:
    recording = Recording(Announcements(), "made up")
    page = Page(recording, Driven(), "0.0.0.0:0")
    address, _, token = page.url.replace("0.0.0.0", "127.0.0.1").partition("#token=")
    try:
        place = urlsplit(address)
        for given, status in (({}, 401), ({"Authorization": f"Bearer {token}"}, 200)):
            with closing(http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)) as connection:
                connection.request("GET", "/api/overview", headers=given)
                assert connection.getresponse().status == status
        with browser() as chromium:
            chromium.open(address)
            chromium.until("document.querySelector('.connection.refused')")
            assert texts(chromium, ".connection") == ["the token is missing or wrong"]
            chromium.complaints.clear()  # Of the answer 401, which it was to get.
            chromium.open(f"{address}#token={token}")
            chromium.until("document.querySelector('.connection.open')")
            page.close()
            chromium.until("document.querySelector('.connection.ended')")
            assert texts(chromium, ".connection") == ["the cluster has ended"]
            assert chromium.complaints == []
    finally:
        page.close()
        recording.close()
    recording.write_report(str(tmp_path / "run.html"))
    assert '"jobs":[]' in (tmp_path / "run.html").read_text("utf-8")
