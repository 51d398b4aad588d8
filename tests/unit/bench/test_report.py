"""The page of a comparison: scales and ticks, charts as XML, which figures count, and the command."""

from __future__ import annotations

import copy
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from stretto.bench.compare import charts
from stretto.bench.compare.charts import Axis, Bar, Line, Mark, Point, Scale
from stretto.bench.compare.report import Better, Ratio, Verdict, count, duration, lower, moment, page, plain, runs
from stretto.cli.program import program

VALUES = st.floats(1e-6, 1e15)
HOSTILE = """<script>alert(1)</script><img src=x onerror="alert(2)">'" onload=alert(3) &amp; </title></svg>"""


def system(per_core: float, p99_ms: float, **changes: Any) -> dict[str, Any]:
    return {
        "version": "1.0",
        "cores": 2,
        "events_per_s": 2 * per_core,
        "events_per_s_per_core": per_core,
        "latency_ms": {"p50": p99_ms / 2, "p95": p99_ms / 1.2, "p99": p99_ms, "max": p99_ms * 2},
        "match": True,
        "persists": "nothing",
        "rounds": [{"events_per_s": 2 * per_core * share, "p99_ms": p99_ms * share} for share in (0.9, 1.0, 1.1)],
        "latency_quantiles_ms": [[i / 100, p99_ms * (0.5 + i / 200)] for i in range(101)],
        "latency_by_rate": [
            {"rate": 10_000, "p50_ms": p99_ms / 2, "p99_ms": p99_ms, "sustained": True},
            {"rate": per_core, "p50_ms": p99_ms, "p99_ms": 2 * p99_ms, "sustained": True},
            {"rate": 3 * per_core, "p50_ms": p99_ms, "p99_ms": 50 * p99_ms, "sustained": False},
        ],
    } | changes


def comparison(query: str = "q7", **changes: Any) -> dict[str, Any]:
    return {
        "query": query,
        "about": "The bids of highest price in each ten seconds.",
        "events": 24_000_000,
        "rounds": 3,
        "cores": 2,
        "rate": 10_000,
        "load": {"before": 0.4, "after": 2.3, "max": 3.1},
        "machine": {"processor": "A fast one", "cores": 2, "memory_gb": 23.5, "python": "3.11.7", "java": "17.0.15"},
        "command": f"stretto bench compare --query {query}",
        "taken": "2026-11-15T23:00:00Z",
        "systems": {
            "stretto": system(4_000_000, 4.0),
            "spark": system(1_000_000, 500.0, persists="offsets and state"),
            "flink": system(2_000_000, 40.0),
            "pathway": {"version": "0.33.0", "match": None, "unsupported": "It has no such window."},
        },
        "ratios": {"throughput_per_core": {"spark": 4.1, "flink": 2.0}, "p99": {"spark": 0.008, "flink": 0.1}},
        "ranges": {
            "throughput_per_core": {"spark": [3.8, 4.6], "flink": [0.9, 2.2]},
            "p99": {"spark": [0.007, 0.009], "flink": [0.08, 0.12]},
        },
    } | changes


def svgs(text: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)]


def having(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    """Returns the elements with a class."""
    return [element for element in root.iter() if kind in element.get("class", "").split()]


class Outline(HTMLParser):
    """Collects the elements, attributes and text of a page, and whether every element is closed."""

    VOID = ("meta", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes.update(name for name, _ in attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes.update(name for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def text_of(fragment: str) -> str:
    return " ".join(" ".join(Outline(fragment).words).split())


def table(text: str, title: str, number: int = 0) -> list[list[str]]:
    """Returns the rows of the table with a title, as text."""
    found = [part for part in re.findall(r"<table>.*?</table>", text, flags=re.DOTALL) if f"<caption>{title} " in part]
    rows = re.findall(r"<tr>(.*?)</tr>", found[number], flags=re.DOTALL)
    return [[text_of(cell) for cell in re.findall(r"<(?:th|td).*?</(?:th|td)>", row, flags=re.DOTALL)] for row in rows]


# Scales and ticks


@given(VALUES, st.integers(3, 12))
def test_linear_ticks_are_round_and_reach_the_value(high: float, most: int) -> None:
    ticks = charts.linear_ticks(high, most)
    step = ticks[1]
    assert ticks[0] == 0
    assert high <= ticks[-1] * (1 + 1e-12) < high + 1.0001 * step
    assert 2 <= len(ticks) <= most
    assert ticks == pytest.approx([step * index for index in range(len(ticks))])
    assert f"{step:.3e}"[:5] in ("1.000", "2.000", "2.500", "5.000")


@given(VALUES)
def test_round_bounds_enclose_a_value_closely(value: float) -> None:
    low, high = charts.log_floor(value), charts.log_ceiling(value)
    assert low <= value <= high
    assert high / low <= 2.5 * (1 + 1e-9)


@given(VALUES, st.floats(1.0, 1e9), st.integers(4, 10))
def test_log_ticks_are_few_sorted_and_inside(value: float, factor: float, most: int) -> None:
    low, high = charts.log_floor(value), charts.log_ceiling(value * factor * 1.01)
    ticks = charts.log_ticks(low, high, most)
    assert 2 <= len(ticks) <= most
    assert ticks == sorted(set(ticks))
    assert low <= ticks[0]
    assert ticks[-1] <= high
    assert {f"{tick:.2e}"[:4] for tick in ticks} <= {"1.00", "2.00", "3.00", "5.00"}


@given(VALUES, st.floats(1.5, 1e6), st.lists(st.floats(0.0, 1.0), min_size=2), st.booleans())
def test_a_scale_keeps_order_and_fills_its_room(low: float, factor: float, shares: list[float], log: bool) -> None:
    scale = Scale(low, low * factor, 300.0, 10.0, log)
    values = sorted(low + share * (low * factor - low) for share in shares)
    places = [scale.at(value) for value in values]
    assert places == sorted(places, reverse=True)
    assert [scale.at(low), scale.at(low * factor)] == pytest.approx([300.0, 10.0])
    assert [scale.at(low / 2), scale.at(low * factor * 2)] == pytest.approx([300.0, 10.0])


def test_a_log_scale_gives_equal_ratios_equal_room() -> None:
    scale = Scale(1.0, 1000.0, 0.0, 300.0, log=True)
    assert [scale.at(value) for value in (1, 10, 100, 1000)] == pytest.approx([0, 100, 200, 300])


@given(st.lists(st.floats(0.0, 300.0), max_size=12))
def test_labels_are_spread_in_order_and_inside(wanted: list[float]) -> None:
    placed = charts.spread(wanted, 15.0, 0.0, 300.0)
    in_order = [placed[index] for index in sorted(range(len(wanted)), key=lambda index: wanted[index])]
    assert all(b - a >= 15.0 - 1e-6 for a, b in pairwise(in_order))
    assert all(-1e-6 <= place <= 300.0 + 1e-6 for place in placed)


def test_labels_that_are_apart_stay_where_they_are() -> None:
    assert charts.spread([200.0, 20.0, 100.0], 15.0, 0.0, 300.0) == [200.0, 20.0, 100.0]


# Charts


def bar_chart(*rows: Bar) -> ElementTree.Element:
    return ElementTree.fromstring(charts.bars("throughput", rows, Axis("events/s", count)))


def widths(root: ElementTree.Element) -> list[float]:
    return [float(bar.get("width", "")) for bar in having(root, "bar")]


@given(st.lists(st.floats(100.0, 2000.0), min_size=1, max_size=8))
def test_bars_are_as_many_as_systems_and_proportional(values: list[float]) -> None:
    root = bar_chart(*(Bar(f"system {i}", value, tone=i) for i, value in enumerate(values)))
    assert len(having(root, "bar")) == len(values)
    drawn = widths(root)
    # Coordinates are written to a hundredth of a unit.
    assert [width / drawn[0] for width in drawn] == pytest.approx([v / values[0] for v in values], rel=0.01)
    assert "log scale" not in "".join(root.itertext())


def test_values_far_apart_have_a_log_axis_where_every_bar_has_a_length() -> None:
    root = bar_chart(*(Bar("system", value) for value in (1e3, 1e4, 1e5, 1e6)))
    drawn = widths(root)
    steps = [b - a for a, b in pairwise(drawn)]
    assert "log scale" in "".join(root.itertext())
    assert drawn[0] > 5
    assert steps == pytest.approx([steps[0]] * 3, abs=0.05)


@pytest.mark.parametrize(("values", "wide"), [([1, 20], False), ([1, 20.1], True), ([0, 5], False), ([], False)])
def test_the_log_axis_begins_at_twenty_fold(values: list[float], wide: bool) -> None:
    assert charts.spans_widely(values) is wide


def test_a_whisker_spans_the_range() -> None:
    root = bar_chart(Bar("a", 100.0, 50.0, 100.0), Bar("b", 50.0))
    (whisker,) = having(root, "whisker")
    low, high = (float(end) for end in re.findall(r"M([\d.]+) [\d.]+v", whisker.get("d", "")))
    start = float(having(root, "bar")[0].get("x", ""))
    assert [low - start, high - start] == pytest.approx([widths(root)[1], widths(root)[0]], abs=0.05)


def test_a_bar_without_a_value_is_a_dash_and_a_void_one_says_so() -> None:
    root = bar_chart(Bar("a", 100.0), Bar("b", None, note="not supported"), Bar("c", 90.0, note="wrong", void=True))
    assert len(having(root, "bar")) == 2
    assert len(having(root, "row")) == 3
    (void,) = having(root, "void")
    assert "wrong" in "".join(void.itertext())
    assert "–" in "".join(having(root, "row")[1].itertext())


def test_points_that_were_not_sustained_are_hollow() -> None:
    points = [Point(10, 1), Point(100, 2), Point(1000, 50, Mark.HOLLOW), Point(2000, 60, Mark.NONE)]
    axis = Axis("rate", count)
    root = ElementTree.fromstring(charts.lines("p99", [Line("a", points), Line("b", points[:1], tone=1)], axis, axis))
    assert len(having(root, "point")) == 4
    (hollow,) = having(root, "hollow")
    right = max(float(point.get("cx", "")) for point in having(root, "point"))
    assert float(hollow.get("cx", "")) == right
    assert len(having(root, "line")) == 1  # one point alone has no stroke
    assert [label.text for label in having(root, "label")] == ["a", "b"]


def test_a_stroke_may_take_another_way_than_the_points() -> None:
    axis = Axis("rate", plain)
    line = Line("a", [Point(1, 1), Point(1, 100), Point(100, 10)], path=[Point(1, 10), Point(100, 10)])
    root = ElementTree.fromstring(charts.lines("p99", [line], axis, axis))
    (stroke,) = having(root, "line")
    heights = re.findall(r"[ML][\d.]+ ([\d.]+)", stroke.get("d", ""))
    assert len(having(root, "point")) == 3
    assert len(heights) == 2
    assert len(set(heights)) == 1


def test_zero_has_no_place_on_a_log_axis() -> None:
    axis = Axis("rate", plain)
    root = ElementTree.fromstring(charts.lines("p99", [Line("a", [Point(0, 1), Point(5, 1)])], axis, axis))
    assert len(having(root, "point")) == 1


@pytest.mark.parametrize(
    "chart",
    [
        charts.bars("t", [], Axis("x", count)),
        charts.bars("t", [Bar("a", None)], Axis("x", count)),
        charts.lines("t", [], Axis("x", count), Axis("y", count)),
        charts.lines("t", [Line("a", [])], Axis("x", count), Axis("y", count)),
    ],
)
def test_a_chart_of_nothing_says_so(chart: str) -> None:
    root = ElementTree.fromstring(chart)
    assert "no figures" in "".join(root.itertext())
    assert "no figures" in root.get("aria-label", "")


@given(st.text())
def test_any_text_can_stand_in_xml(text: str) -> None:
    root = ElementTree.fromstring(f'<a b="{charts.escaped(text)}">{charts.escaped(text)}</a>')
    kept = re.sub(r"[^\x20-\x7e]", "", text)
    assert re.sub(r"[^\x20-\x7e]", "", "".join(root.itertext())) == kept


def test_half_a_surrogate_pair_can_be_written() -> None:
    assert charts.escaped("a\ud800b").encode("utf-8") == b"a?b"


# Formats


@pytest.mark.parametrize(
    ("format", "value", "text"),
    [
        (count, 4_550_000, "4.55M"),
        (count, 4_500_000, "4.5M"),
        (count, 999_999, "1M"),
        (count, 999_400, "999k"),
        (count, 10_000, "10k"),
        (count, 950, "950"),
        (count, 0, "0"),
        (count, 2.4e9, "2.4G"),
        (duration, 12.34, "12.3 ms"),
        (duration, 0.42, "0.42 ms"),
        (duration, 0.0042, "4.2 µs"),
        (duration, 999.7, "1 s"),
        (duration, 1500, "1.5 s"),
        (duration, 250_000, "250 s"),
        (plain, 0.00755, "0.00755"),
        (plain, 100.0, "100"),
        (plain, 1e-9, "0.000000001"),
        (lower, 0.007, "143× lower"),
        (lower, 1.5, "1.5× higher"),
    ],
)
def test_numbers_are_short(format: Callable[[float], str], value: float, text: str) -> None:
    assert format(value) == text


@given(st.floats(1e-3, 1e11))
def test_a_short_number_is_within_half_a_percent(value: float) -> None:
    number, unit = re.fullmatch(r"([\d.]+)([GMk]?)", count(value)).groups()  # type: ignore[union-attr]
    assert float(number) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[unit] == pytest.approx(value, rel=0.00501)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-11-15T23:00:00Z", "2026-11-15 23:00 UTC"),
        ("2026-11-16T01:30:00+02:00", "2026-11-15 23:30 UTC"),
        ("2026-11-15 23:00", "2026-11-15 23:00"),
        ("0001-01-01T00:00:00+10:00", "0001-01-01T00:00:00+10:00"),
        ("yesterday", "yesterday"),
    ],
)
def test_moments_are_in_utc(text: str, shown: str) -> None:
    assert moment(text) == shown


@pytest.mark.parametrize(
    ("ratio", "better", "verdict"),
    [
        (Ratio(4.1, (3.8, 4.6)), Better.MORE, Verdict.BETTER),
        (Ratio(4.1, (3.8, 4.6)), Better.LESS, Verdict.WORSE),
        (Ratio(0.1, None), Better.LESS, Verdict.BETTER),
        (Ratio(0.5, None), Better.MORE, Verdict.WORSE),
        (Ratio(1.2, (0.9, 1.4)), Better.MORE, Verdict.LEVEL),
        (Ratio(1.05, (1.001, 1.1)), Better.MORE, Verdict.LEVEL),
        (Ratio(1.0, None), Better.LESS, Verdict.LEVEL),
    ],
)
def test_a_ratio_whose_range_includes_one_decides_nothing(ratio: Ratio, better: Better, verdict: Verdict) -> None:
    assert ratio.verdict(better) is verdict


# The page


def test_a_page_is_well_formed_and_needs_nothing_from_elsewhere() -> None:
    text = page([comparison("q7"), comparison("q1")])
    outline = Outline(text)
    assert outline.open == []
    assert outline.tags["svg"] == 6
    assert outline.tags.keys().isdisjoint({"script", "link", "img", "iframe", "object", "base"})
    assert outline.attributes.keys().isdisjoint({"src", "srcset", "style"})
    assert re.findall(r"https?:|//|url\(|@import", text) == []
    assert "default-src 'none'" in text


def test_charts_and_tables_can_be_read_aloud() -> None:
    text = page([comparison()])
    for root in svgs(text):
        assert root.get("role") == "img"
        assert root.get("aria-label", "").startswith("q7: ")
        assert root[0].tag == "title"
    for found in re.findall(r"<table>.*?</table>", text, flags=re.DOTALL):
        assert "<caption>" in found
        assert 'scope="col"' in found
        assert 'scope="row"' in found


def test_the_charts_have_what_was_measured() -> None:
    bars, quantiles, rates = svgs(page([comparison()]))
    assert [len(having(bars, kind)) for kind in ("row", "bar", "whisker")] == [4, 3, 3]
    assert len(having(quantiles, "line")) == 3
    assert [len(having(rates, kind)) for kind in ("line", "point", "hollow")] == [3, 9, 3]


def test_runs_at_about_the_same_rate_are_joined_by_their_median() -> None:
    entries = [
        {"rate": rate, "p99_ms": p99, "sustained": True} for rate, p99 in [(10, 1), (10, 9), (11, 5), (1000, 50)]
    ]
    changed = comparison(systems={"stretto": system(1e6, 1.0, latency_by_rate=entries)})
    rates = svgs(page([changed]))[2]
    (stroke,) = having(rates, "line")
    assert len(having(rates, "point")) == 4
    assert stroke.get("d", "").count("L") == 1


def test_the_headline_has_every_system_and_the_ratios() -> None:
    text = page([comparison()])
    throughput, latency = table(text, "Throughput per core"), table(text, "p99 latency")
    assert throughput[0] == ["query", "stretto", "spark", "flink", "pathway", "stretto ÷ best peer"]
    assert throughput[1] == ["q7", "4M", "1M", "2M", "–", "2× flink"]
    assert latency[0] == ["query", "stretto", "spark", "flink", "pathway", "against spark", "against flink"]
    assert latency[1] == ["q7", "4 ms", "500 ms", "40 ms", "–", "125× lower", "10× lower"]
    assert "stretto's throughput per core is 2 times the best peer's." in text_of(text)
    assert "Its p99 latency is 125× lower than spark's." in text_of(text)


def test_a_query_has_its_figures_ratios_and_setting() -> None:
    text = page([comparison()])
    figures = {row[0]: row[1:] for row in table(text, "Figures")}
    assert figures["answer"] == ["right", "right", "right", "not supported"]
    assert figures["per core"] == ["4M 3.6–4.4M", "1M 900k–1.1M", "2M 1.8–2.2M", "–"]
    assert figures["p99"] == ["4 ms 3.6–4.4 ms", "500 ms 450–550 ms", "40 ms 36–44 ms", "–"]
    assert table(text, "Ratios")[1:] == [
        ["spark", "4.1× 3.8–4.6, better", "0.008× 0.007–0.009, better"],
        ["flink", "2× 0.9–2.2, no clear difference", "0.1× 0.08–0.12, better"],
        ["pathway", "–", "–"],
    ]
    words = text_of(text)
    for said in (
        *("spark offsets and state", "pathway not supported: It has no such window.", "A fast one, 2 cores, 23.5 GB"),
        *("0.4 before, 2.3 after, 3.1 at most", "stretto bench compare --query q7", "2026-11-15 23:00 UTC"),
        *(
            "24M events generated",
            "Python 3.11.7, Java 17.0.15",
            "Parquet files",
            "neither its backlog nor its p99 grows",
        ),
    ):
        assert said in words


def test_a_wrong_answer_does_not_count() -> None:
    changed = comparison()
    changed["systems"]["flink"]["match"] = False
    text = page([changed])
    (run,) = runs([changed])
    assert run.best_peer is not None
    assert run.best_peer.name == "spark"
    assert "flink" not in run.throughput
    assert "flink" not in run.p99
    assert table(text, "Throughput per core")[1] == ["q7", "4M", "1M", "2M wrong answer", "–", "4.1× spark"]
    assert "<s>2M</s>" in text
    assert len(having(svgs(text)[0], "void")) == 2  # pathway has no figures at all
    assert table(text, "Ratios")[2] == ["flink", "–", "–"]


def test_nothing_is_claimed_when_our_own_answer_is_wrong() -> None:
    changed = comparison()
    changed["systems"]["stretto"]["match"] = False
    (run,) = runs([changed])
    assert (run.throughput, run.p99) == ({}, {})
    assert "There are no figures to compare." in page([changed])


def test_an_unchecked_peer_counts_and_is_marked() -> None:
    changed = comparison()
    changed["systems"]["flink"]["match"] = None
    assert table(page([changed]), "Throughput per core")[1][3] == "2M ?"
    assert runs([changed])[0].throughput["flink"].value == 2.0


def test_a_system_that_failed_says_why() -> None:
    changed = comparison()
    changed["systems"]["flink"] = {"match": True, "error": "it ran out of memory"}
    assert "flink failed: it ran out of memory" in text_of(page([changed]))


def test_ratios_that_are_missing_are_worked_out() -> None:
    (run,) = runs([comparison(ratios=None, ranges=None)])
    assert {name: ratio.value for name, ratio in run.throughput.items()} == {"spark": 4.0, "flink": 2.0}
    assert {name: ratio.value for name, ratio in run.p99.items()} == {"spark": 0.008, "flink": 0.1}


@pytest.mark.parametrize(("before", "busy"), [(0.4, False), (1.7, True), (None, False)])
def test_a_busy_machine_is_told(before: float | None, busy: bool) -> None:
    text = page([comparison(load={"before": before})])
    assert ("the machine was busy before the run" in text) is busy


def test_queries_are_in_natural_order_and_repeats_are_told_apart() -> None:
    found = [
        comparison("q11", file="a.json"),
        comparison("q2", file="a.json"),
        comparison("q2", file="b.json"),
        comparison("q1"),
        comparison("q1"),
    ]
    labels = [run.label for run in runs(found)]
    assert labels == ["q1, run 1", "q1, run 2", "q2 (a.json)", "q2 (b.json)", "q11"]
    assert Outline(page(found)).tags["svg"] == 15
    assert "3 queries · 5 runs · taken 2026-11-15" in page(found)


def test_systems_keep_their_colours_from_query_to_query() -> None:
    only_spark = comparison("q1", systems={"spark": system(1e6, 5.0), "another": system(1e6, 5.0)})
    tones = [{s.name: s.tone for s in run.systems} for run in runs([only_spark, comparison("q7")])]
    assert tones == [{"spark": 1, "another": 4}, {"stretto": 0, "spark": 1, "flink": 2, "pathway": 3}]


# What is missing, broken or hostile

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.just({}),
    st.just([]),
    st.just([[None, 1], ["a"], [0.5, -1.0], [2, 2]]),
    st.just([{"rate": 0, "p99_ms": 0}, None, 3]),
)
ANY_JSON = st.recursive(
    JUNK, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)


def places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Yields the path to every element inside a JSON value."""
    inside: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    return [found for key, one in inside for found in [(*path, key), *places(one, (*path, key))]]


PLACES = places(comparison())


@given(st.lists(st.tuples(st.sampled_from(PLACES), JUNK), min_size=1, max_size=6))
@settings(max_examples=60)
def test_a_comparison_with_holes_makes_a_page(holes: list[tuple[tuple[Any, ...], Any]]) -> None:
    broken = comparison()
    for path, junk in holes:
        owner: Any = broken
        try:
            for key in path[:-1]:
                owner = owner[key]
            owner[path[-1]] = copy.deepcopy(junk)
        except (KeyError, IndexError, TypeError):
            continue  # It is inside an element that was removed before.
    text = page([broken])
    assert len(svgs(text)) == 3
    assert Outline(text).open == []
    assert re.findall(r'"[^"]*\b(?:nan|inf)\b[^"]*"', " ".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))) == []


@given(st.dictionaries(st.sampled_from(sorted(comparison())), ANY_JSON))
@settings(max_examples=60)
def test_any_object_makes_a_page(found: dict[str, Any]) -> None:
    text = page([found])
    assert len(svgs(text)) == 3
    assert text.encode("utf-8")


def test_no_comparison_makes_a_page() -> None:
    assert "0 queries" in page([])


def hostile(value: Any) -> Any:
    """Returns the same value, with an attack in every text and every system name."""
    if isinstance(value, dict):
        return {f"{key}{HOSTILE}" if key == "flink" else key: hostile(one) for key, one in value.items()}
    if isinstance(value, list):
        return [hostile(one) for one in value]
    return value + HOSTILE if isinstance(value, str) else value


def test_text_from_the_json_is_only_ever_text() -> None:
    outline, plain_outline = Outline(page([hostile(comparison())])), Outline(page([comparison()]))
    assert outline.open == []
    assert outline.tags.keys() == plain_outline.tags.keys()
    assert outline.attributes.keys() == plain_outline.attributes.keys()
    assert "alert(1)" in " ".join(outline.words)


# The command


def invoke(*arguments: str | Path) -> Result:
    command = ["bench", "report", *map(str, arguments)]
    return CliRunner().invoke(program, command, env={"COLUMNS": "200", "NO_COLOR": "1"})


def test_the_command_writes_the_page_and_prints_its_path(tmp_path: Path) -> None:
    (tmp_path / "q7.json").write_text(json.dumps(comparison(), indent=2))
    result = invoke(tmp_path / "q7.json", "--output", tmp_path / "out.html")
    assert result.exit_code == 0
    assert result.stdout == f"{tmp_path / 'out.html'}\n"
    assert len(svgs((tmp_path / "out.html").read_text("utf-8"))) == 3


def test_the_page_is_report_html_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q7.json").write_text(json.dumps(comparison()))
    assert invoke("q7.json").stdout == "report.html\n"
    assert (tmp_path / "report.html").exists()


def test_files_hold_one_comparison_or_several(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text("\ufeff" + json.dumps(comparison("q11")), "utf-8")
    (tmp_path / "array.json").write_text(json.dumps([comparison("q1"), comparison("q2")]))
    (tmp_path / "lines.json").write_text("\n\n".join(json.dumps(comparison(query)) for query in ("q5", "q7")) + "\n")
    files = [tmp_path / name for name in ("one.json", "array.json", "lines.json")]
    result = invoke(*files, "--output", tmp_path / "out.html", "--json")
    printed = json.loads(result.stdout)
    assert printed["queries"] == ["q1", "q2", "q5", "q7", "q11"]
    assert printed["page"] == str(tmp_path / "out.html")
    assert printed["bytes"] == (tmp_path / "out.html").stat().st_size


def test_two_runs_of_a_query_are_both_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("monday.json", "friday.json"):
        (tmp_path / name).write_text(json.dumps(comparison("q7")))
    printed = json.loads(invoke("monday.json", "friday.json", "--json").stdout)
    assert printed["queries"] == ["q7 (monday.json)", "q7 (friday.json)"]


@pytest.mark.parametrize(
    ("content", "fact", "detail"),
    [
        (None, "cannot read", "No such file"),
        ("", "holds no comparison", "it is empty"),
        ("[]", "holds no comparison", "it is empty"),
        ("{nonsense", "is not JSON", "line 1, column 2"),
        (b"\xff\xfe\x00", "is not JSON", "not UTF-8"),
        ("17", "is not a comparison", "not a JSON object but of type int"),
        ('{"systems": {}}', "is not a comparison", "'query'"),
        ('{"query": "q7"}', "is not a comparison", "'systems'"),
        ('{"query": "q7", "systems": {}}', "is not a comparison", "'systems'"),
        (json.dumps([comparison(), 3]), "value 2 of", "not a JSON object"),
        (json.dumps(comparison()) + '\n{"query": ', "line 2 of", "is not JSON"),
    ],
)
def test_bad_input_is_explained(tmp_path: Path, content: str | bytes | None, fact: str, detail: str) -> None:
    path = tmp_path / "found.json"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    result = invoke(path, "--output", tmp_path / "out.html")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert str(path) in result.stderr
    assert fact in result.stderr
    assert detail in result.stderr
    assert len(result.stderr.splitlines()) == 2  # the second line says what to do
    assert not (tmp_path / "out.html").exists()


def test_an_input_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "q7.json"
    path.write_text(json.dumps(comparison()))
    result = invoke(path, "--output", path)
    assert result.exit_code == 2
    assert "is an input" in result.stderr
    assert json.loads(path.read_text())["query"] == "q7"


def test_a_page_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "q7.json").write_text(json.dumps(comparison()))
    result = invoke(tmp_path / "q7.json", "--output", tmp_path / "missing" / "out.html")
    assert result.exit_code == 2
    assert "cannot write" in result.stderr
    assert "--output" in result.stderr


def test_the_help_says_what_is_read_and_written() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    for text in ("FILE...", "--output", "--json", "bench compare", "one HTML page"):
        assert text in result.stdout


def test_the_ranges_come_from_the_rounds() -> None:
    (run,) = runs([comparison()])
    assert run.systems[0].per_core_range == pytest.approx((3.6e6, 4.4e6))
    assert math.isclose(run.systems[1].p99_range[1], 550.0)  # type: ignore[index]
