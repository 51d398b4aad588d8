"""The page of `stretto bench report` in a real browser: Debian's Chromium, headless and without network.

The page has no script and forbids scripts. The tests open a copy whose policy allows one added script: it measures the
layout and writes the result into the document, which Chromium then prints. The tests fail without Chromium; `make test`
installs it.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import WAIT_S

from stretto.bench.compare.report import page

ROOT = Path(__file__).parents[2]
DESKTOP, PHONE = (1400, 1000), (390, 844)
WINDOW_WIDTH_MIN = 500
"""The minimum width of a Chromium window; a narrower page is opened in a frame."""

POLICY = "default-src 'none';"

FLAGS = [
    "--headless",
    "--no-sandbox",  # Tests may run as root, where Chromium has no sandbox.
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--enable-logging=stderr",  # Prints the console output of a page, as CONSOLE.
    "--host-resolver-rules=MAP * ~NOTFOUND",
]

PROBE = """<script>
const violations = [];
addEventListener("securitypolicyviolation", (event) => violations.push(event.violatedDirective));
addEventListener("load", () => {
  const box = (element) => { const r = element.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
  const charts = [...document.querySelectorAll("svg.chart")].map((svg) => ({
    name: svg.getAttribute("aria-label"), box: box(svg), drawn: [svg.getBBox().width, svg.getBBox().height],
    texts: [...svg.querySelectorAll("text")].map((text) => [text.textContent, ...box(text)]),
    labels: [...svg.querySelectorAll(".label")].map(box),
  }));
  const style = getComputedStyle(document.body);
  const found = { charts, violations, paper: style.backgroundColor, ink: style.color, width: innerWidth,
    scrolled: document.documentElement.scrollWidth, title: document.title, attacked: window.attacked === true,
    requests: performance.getEntriesByType("resource").map((entry) => entry.name) };
  const output = document.createElement("pre");
  output.id = "probe";
  output.textContent = JSON.stringify(found);
  document.body.append(output);
});
</script>"""

FRAME = """<html><head></head><body style="margin: 0"><script>
const frame = document.createElement("iframe");
frame.style.cssText = "border: 0; width: {width}px; height: {height}px";
frame.srcdoc = {page};
frame.onload = () => document.body.append(document.importNode(frame.contentDocument.getElementById("probe"), true));
document.body.append(frame);
</script></body></html>"""


def chromium(directory: Path, size: tuple[int, int], *arguments: str) -> tuple[str, str]:
    """Run Chromium to its end; returns its stdout and stderr."""
    command = shutil.which("chromium")
    assert command is not None, "there is no chromium: run scripts/ensure_chromium, or make test, which does"
    window = f"--window-size={size[0]},{size[1]}"
    process = subprocess.Popen(
        [command, *FLAGS, f"--user-data-dir={directory / 'profile'}", window, *arguments],
        env=os.environ | {"HOME": str(directory)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    )
    try:
        output, complaints = process.communicate(timeout=WAIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == 0, complaints
    return output, complaints


def looked_at(
    directory: Path, text: str, size: tuple[int, int] = DESKTOP, *arguments: str
) -> tuple[dict[str, Any], list[str]]:
    """Returns what the probe measures in a page, and the console output of the page."""
    path = directory / "copy.html"
    text = text.replace("<head>", f"<head>{PROBE}", 1)
    if size[0] < WINDOW_WIDTH_MIN:
        quoted = json.dumps(text).replace("</", "<\\/")
        text = FRAME.replace("{width}", str(size[0])).replace("{height}", str(size[1])).replace("{page}", quoted)
    path.write_text(text, "utf-8")
    output, complaints = chromium(directory, size, *arguments, "--dump-dom", path.as_uri())
    found = re.search(r'<pre id="probe">(.*?)</pre>', output, flags=re.DOTALL)
    assert found is not None, f"the probe did not run: {complaints}"
    return json.loads(html.unescape(found[1])), [line for line in complaints.splitlines() if "CONSOLE" in line]


def with_scripts(text: str) -> str:
    """Returns the page with a policy that allows inline scripts, but no network access."""
    assert POLICY in text
    return text.replace(POLICY, f"{POLICY} script-src 'unsafe-inline';")


def system(per_core: float, p99_ms: float, **changes: Any) -> dict[str, Any]:
    rates = [(10_000.0, 1.0, True), (per_core, 2.0, True), (1.1 * per_core, 1.9, True), (2.5 * per_core, 60.0, False)]
    return {
        "version": "1.2.3",
        "cores": 2,
        "events_per_s": 2 * per_core,
        "events_per_s_per_core": per_core,
        "latency_ms": {"p50": p99_ms / 2, "p95": p99_ms / 1.2, "p99": p99_ms, "max": p99_ms * 2},
        "match": True,
        "persists": "offsets and state, in a checkpoint directory",
        "rounds": [{"events_per_s": 2 * per_core * share, "p99_ms": p99_ms * share} for share in (0.9, 1.0, 1.1)],
        "latency_quantiles_ms": [[i / 100, p99_ms * (0.5 + i / 200)] for i in range(101)],
        "latency_by_rate": [{"rate": rate, "p99_ms": p99_ms * by, "sustained": good} for rate, by, good in rates],
    } | changes


def comparison(query: str, **changes: Any) -> dict[str, Any]:
    return {
        "query": query,
        "about": "The bids of highest price in each ten seconds.",
        "events": 24_000_000,
        "rounds": 3,
        "cores": 2,
        "rate": 10_000,
        "load": {"before": 0.4, "after": 2.3, "max": 3.1},
        "machine": {"processor": "A processor with a long name", "cores": 2, "memory_gb": 23.5},
        "command": f"stretto bench compare --query {query} --peers spark,flink,bytewax,pathway --rounds 3 --json",
        "taken": "2026-11-15T23:00:00Z",
        "systems": {
            "stretto": system(4_550_000, 4.23),
            "spark": system(1_110_000, 523.0),
            "flink": system(2_250_000, 40.1),
            "bytewax": system(45_500, 38.2, match=query != "q5"),
            "pathway": {"version": "0.33.0", "match": None, "unsupported": "It has no such window."},
        },
    } | changes


@pytest.fixture(scope="module")
def text() -> str:
    return page([comparison("q5"), comparison("q7"), comparison("q11", systems={"stretto": system(1e6, 2.0)})])


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_chart_is_laid_out_and_nothing_is_asked_for(tmp_path: Path, text: str, size: tuple[int, int]) -> None:
    assert re.findall(r"https?:", text) == []
    found, console = looked_at(tmp_path, with_scripts(text), size)
    assert (console, found["requests"], found["violations"]) == ([], [], [])
    assert found["width"] == size[0]
    assert found["scrolled"] <= size[0], "the page is wider than the window"
    assert len(found["charts"]) == 9
    for chart in found["charts"]:
        left, top, right, bottom = chart["box"]
        assert right - left > 250
        assert bottom - top > 180
        assert min(chart["drawn"]) > 100
        for words, *place in chart["texts"]:
            assert left - 1 <= place[0], f"'{words}' sticks out of {chart['name']}"
            assert place[2] <= right + 1, f"'{words}' sticks out of {chart['name']}"


def test_the_names_of_lines_do_not_cover_each_other(tmp_path: Path, text: str) -> None:
    found, _ = looked_at(tmp_path, with_scripts(text))
    for chart in found["charts"]:
        labels = sorted(chart["labels"], key=lambda box: box[1])
        middles = [(top + bottom) / 2 for _, top, _, bottom in labels]
        assert all(below - above > 8 for above, below in pairwise(middles)), chart["name"]


@pytest.mark.parametrize(("scheme", "dark"), [(0, True), (1, False)], ids=["dark", "light"])
def test_the_page_follows_the_colour_scheme(tmp_path: Path, text: str, scheme: int, dark: bool) -> None:
    found, _ = looked_at(tmp_path, with_scripts(text), DESKTOP, f"--blink-settings=preferredColorScheme={scheme}")
    paper, ink = (sum(map(int, re.findall(r"\d+", found[name])[:3])) / 3 for name in ("paper", "ink"))
    assert (paper < 64) is dark
    assert abs(paper - ink) > 150


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    attack = "<script>window.attacked = true</script><img src=x onerror='window.attacked = true'>\"'></svg>"
    systems = {attack: system(1e6, 5.0), "stretto": system(2e6, 5.0, version=attack, persists=attack)}
    hostile = page([comparison(f"q7 {attack}", about=attack, command=attack, taken=attack, systems=systems)])
    # Scripts are allowed here, so that only the escaping protects the page.
    found, console = looked_at(tmp_path, with_scripts(hostile))
    assert not found["attacked"]
    assert (console, found["requests"]) == ([], [])
    assert found["title"] == "stretto compared with other engines"
    assert len(found["charts"]) == 3


def test_the_policy_of_the_page_stops_what_escaping_would_let_through(tmp_path: Path, text: str) -> None:
    injected = text.replace("</body>", "<script>document.title = 'attacked'</script></body>")
    path = tmp_path / "page.html"
    path.write_text(injected, "utf-8")
    output, complaints = chromium(tmp_path, DESKTOP, "--dump-dom", path.as_uri())
    assert "<title>stretto compared with other engines</title>" in output
    assert "Content Security Policy" in complaints


def test_the_probe_sees_complaints_requests_and_attacks(tmp_path: Path) -> None:
    script = "<script>window.attacked = true; console.error('a complaint')</script>"
    bad = f"<html><head></head><body>{script}<img src='http://elsewhere.invalid/a.png'></body></html>"
    found, console = looked_at(tmp_path, bad)
    assert found["attacked"]
    assert found["requests"] == ["http://elsewhere.invalid/a.png"]
    assert any("a complaint" in line for line in console)


def kinds_of_lines(png: Path) -> int:
    """Returns the number of different stored pixel rows of a picture; a blank one has hardly any."""
    data = png.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, packed, width = 8, b"", 0
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width = struct.unpack(">I", body[:4])[0] * {2: 3, 6: 4}[body[9]] + 1
        elif kind == b"IDAT":
            packed += body
        at += length + 12
    pixels = zlib.decompress(packed)
    return len({pixels[start : start + width] for start in range(0, len(pixels), width)})


def test_the_picture_of_the_page_is_not_blank(tmp_path: Path, text: str) -> None:
    pictures = {}
    for name, content in (("page", text), ("blank", "<html><body></body></html>")):
        (tmp_path / f"{name}.html").write_text(content, "utf-8")
        pictures[name] = tmp_path / f"{name}.png"
        chromium(tmp_path, DESKTOP, f"--screenshot={pictures[name]}", (tmp_path / f"{name}.html").as_uri())
    assert kinds_of_lines(pictures["blank"]) < 5
    assert kinds_of_lines(pictures["page"]) > 300


def ensure_chromium(path: Path) -> subprocess.CompletedProcess[str]:
    """Runs scripts/ensure_chromium with only these commands, as a user without permission to install."""
    for name, body in (("id", "echo 1000"), ("bash", 'exec /bin/bash "$@"')):
        (path / name).write_text(f"#!/bin/sh\n{body}\n")
        (path / name).chmod(0o755)
    script = ROOT / "scripts" / "ensure_chromium"
    return subprocess.run([script], env={"PATH": str(path)}, capture_output=True, text=True, check=False)


def test_chromium_that_is_there_is_taken_in_silence(tmp_path: Path) -> None:
    (tmp_path / "chromium").write_text("#!/bin/sh\n")
    (tmp_path / "chromium").chmod(0o755)
    done = ensure_chromium(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_chromium_one_line_says_what_to_install(tmp_path: Path) -> None:
    done = ensure_chromium(tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(r"The browser tests need Chromium: install .*apt-get install chromium\)\n", done.stderr)
