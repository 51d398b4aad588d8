"""Renders the results of `stretto bench compare` as one HTML page with tables and charts.

Pure: JSON objects in, text out. The page loads nothing from the network, and its content security policy forbids it.
Any field may be missing or of the wrong type: the page then shows a dash. All text from the JSON is escaped.
`runs` reads the objects, the rest writes; `charts` draws.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from statistics import median
from typing import Any

from stretto.bench.compare import charts
from stretto.bench.compare.charts import Axis, Bar, Line, Mark, Point, escaped

OURS = "stretto"
KNOWN_SYSTEMS = (OURS, "spark", "flink", "bytewax", "pathway")
"""Each system has the same position and colour in every table and chart; other systems follow."""

LATENCY_PEERS = ("spark", "flink")
DASH = "–"
DIGITS = 3
MARKED_QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999, 1.0)
SAME_RATE_MAX = 1.25
"""Runs whose rates are within this factor count as the same rate."""

IDLE_LOAD_MAX = 1.0
"""A higher load than this before a run means that the machine was busy."""

Range = tuple[float, float]


class Standing(Enum):
    """Whether a system's figures count."""

    RIGHT = "right"
    WRONG = "wrong answer"
    UNCHECKED = "not checked"
    UNSUPPORTED = "not supported"
    FAILED = "failed"
    NO_FIGURES = "no figures"


class Verdict(Enum):
    """How stretto compares by a ratio."""

    BETTER = "better"
    WORSE = "worse"
    LEVEL = "no clear difference"


class Better(Enum):
    """The direction in which a figure is better."""

    MORE = "events per second and core; more is better"
    LESS = "less is better"


@dataclass(frozen=True, slots=True)
class System:
    name: str
    tone: int
    standing: Standing
    version: str
    cores: float | None
    events_per_s: float | None
    per_core: float | None
    per_core_range: Range | None
    latency_ms: Mapping[str, float | None]
    p99_range: Range | None
    persists: str
    reason: str
    quantiles: Sequence[tuple[float, float]]
    by_rate: Sequence[Point]

    @property
    def counts(self) -> bool:
        # An unchecked answer still counts: excluding a fast peer for it would favour stretto.
        return self.standing in (Standing.RIGHT, Standing.UNCHECKED)


@dataclass(frozen=True, slots=True)
class Ratio:
    """stretto divided by a peer, with the range over the rounds."""

    value: float
    range: Range | None

    def verdict(self, better: Better) -> Verdict:
        low, high = map(_rounded, self.range or (self.value, self.value))
        if low <= 1.0 <= high:
            return Verdict.LEVEL
        return Verdict.BETTER if (self.value > 1.0) is (better is Better.MORE) else Verdict.WORSE


@dataclass(frozen=True, slots=True)
class Run:
    """One comparison as read. The label is the query, with the file if a query was run more than once."""

    label: str
    anchor: str
    facts: Mapping[str, Any]
    systems: Sequence[System]
    throughput: Mapping[str, Ratio]
    p99: Mapping[str, Ratio]

    @property
    def best_peer(self) -> System | None:
        peers = [s for s in self.systems if s.name != OURS and s.counts and s.per_core is not None]
        return max(peers, key=lambda peer: peer.per_core or 0.0, default=None)


def runs(comparisons: Sequence[Mapping[str, Any]]) -> list[Run]:
    """Returns the comparisons ordered by query, each with a unique label."""
    ordered = sorted(comparisons, key=lambda comparison: _natural(_query(comparison)))
    return [
        _run(comparison, label, f"run-{number}", comparisons)
        for number, (comparison, label) in enumerate(zip(ordered, _labels(ordered), strict=True), start=1)
    ]


def _query(comparison: Mapping[str, Any]) -> str:
    return _string(comparison.get("query")) or "query"


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Returns a sort key by which q2 comes before q11."""
    parts = re.split(r"([0-9]{1,9})", name)
    return [(0, int(part), "") if index % 2 else (1, 0, part) for index, part in enumerate(parts)]


def _labels(comparisons: Sequence[Mapping[str, Any]]) -> list[str]:
    labels = [_query(comparison) for comparison in comparisons]
    files = [_string(comparison.get("file")) for comparison in comparisons]
    labels = [
        f"{label} ({file})" if file and labels.count(label) > 1 else label
        for label, file in zip(labels, files, strict=True)
    ]
    return [
        f"{label}, run {labels[: index + 1].count(label)}" if labels.count(label) > 1 else label
        for index, label in enumerate(labels)
    ]


def _run(facts: Mapping[str, Any], label: str, anchor: str, all_of_them: Sequence[Mapping[str, Any]]) -> Run:
    names = _system_names(all_of_them)
    entries = _object(facts.get("systems"))
    systems = [_system(name, names.index(name), _object(entries[name]), facts) for name in names if name in entries]
    ours = next((system for system in systems if system.name == OURS), None)
    ratios, ranges = _object(facts.get("ratios")), _object(facts.get("ranges"))

    def against_peers(field: str, figure: Callable[[System], float | None]) -> dict[str, Ratio]:
        found = {}
        for peer in systems:
            if peer.name == OURS or ours is None or not (ours.counts and peer.counts):
                continue
            value = _number(_object(ratios.get(field)).get(peer.name)) or _quotient(figure(ours), figure(peer))
            if value is not None and value > 0:
                found[peer.name] = Ratio(value, _range(_object(ranges.get(field)).get(peer.name)))
        return found

    throughput = against_peers("throughput_per_core", lambda system: system.per_core)
    return Run(label, anchor, facts, systems, throughput, against_peers("p99", lambda system: system.latency_ms["p99"]))


def _system_names(comparisons: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the names of all systems in page order."""
    found = {str(name) for comparison in comparisons for name in _object(comparison.get("systems"))}
    return [name for name in KNOWN_SYSTEMS if name in found] + sorted(found - set(KNOWN_SYSTEMS))


def _system(name: str, tone: int, entry: Mapping[str, Any], facts: Mapping[str, Any]) -> System:
    cores = _number(entry.get("cores")) or _number(facts.get("cores"))
    total = _number(entry.get("events_per_s"))
    per_core = _number(entry.get("events_per_s_per_core"))
    per_core = _quotient(total, cores) if per_core is None else per_core
    latency = {key: _number(_object(entry.get("latency_ms")).get(key)) for key in ("p50", "p95", "p99", "max")}
    rounds = [_object(one) for one in _array(entry.get("rounds"))]
    rates = [_number(one.get("events_per_s")) for one in rounds]
    return System(
        name=name,
        tone=tone,
        standing=_standing(entry, [total, per_core, *latency.values()]),
        version=_string(entry.get("version")),
        cores=cores,
        events_per_s=total,
        per_core=per_core,
        per_core_range=_extent([_quotient(rate, cores) for rate in rates]),
        latency_ms=latency,
        p99_range=_extent([_number(one.get("p99_ms")) for one in rounds]),
        persists=_string(entry.get("persists")),
        reason=_string(entry.get("unsupported")) or _string(entry.get("error")),
        quantiles=_quantiles(entry.get("latency_quantiles_ms")),
        by_rate=_by_rate(name, entry.get("latency_by_rate")),
    )


def _standing(entry: Mapping[str, Any], figures: Sequence[float | None]) -> Standing:
    if entry.get("match") is False:
        return Standing.WRONG
    if entry.get("unsupported"):
        return Standing.UNSUPPORTED
    if entry.get("error"):
        return Standing.FAILED
    if all(figure is None for figure in figures):
        return Standing.NO_FIGURES
    return Standing.RIGHT if entry.get("match") is True else Standing.UNCHECKED


def _quantiles(value: object) -> list[tuple[float, float]]:
    pairs = [(_number(pair[0]), _number(pair[1])) for pair in map(_array, _array(value)) if len(pair) == 2]
    return sorted((q, ms) for q, ms in pairs if q is not None and ms is not None and 0.0 <= q <= 1.0)


def _by_rate(name: str, value: object) -> list[Point]:
    """Returns a point for each run: its rate and its p99 latency."""
    points = []
    for entry in map(_object, _array(value)):
        rate, p99_ms, sustained = _number(entry.get("rate")), _number(entry.get("p99_ms")), entry.get("sustained")
        if rate is not None and p99_ms is not None:
            note = f"{name} at {count(rate)}/s: p99 {duration(p99_ms)}{', not sustained' if sustained is False else ''}"
            points.append(Point(rate, p99_ms, Mark.HOLLOW if sustained is False else Mark.SOLID, note))
    return sorted(points, key=lambda point: point.x)


def _number(value: object) -> float | None:
    """Returns a measured number, or None; infinities, NaN and negative numbers are not measurements."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if value == 0 or 1e-9 <= value <= 1e18 else None


def _range(value: object) -> Range | None:
    ends = [_number(end) for end in _array(value)]
    return _extent(ends) if len(ends) == 2 and None not in ends else None


def _extent(values: Sequence[float | None]) -> Range | None:
    there = [value for value in values if value is not None]
    return (min(there), max(there)) if there else None


def _quotient(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _array(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _string(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _rounded(value: float) -> float:
    """Rounds to the shown digits before a unit is chosen: 999,999 is 1M and not 1000k."""
    return value if value == 0 else round(value, DIGITS - 1 - math.floor(math.log10(abs(value))))


def plain(value: float) -> str:
    """Formats the significant digits, without an exponent and trailing zeros."""
    value = _rounded(value)
    places = 0 if value == 0 else max(0, DIGITS - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(value: float) -> str:
    """Formats 4,550,000 as 4.55M."""
    value = _rounded(value)
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return plain(value / size) + unit
    return plain(value)


def duration(ms: float) -> str:
    """Formats 12.34 as 12.3 ms, 1,500 as 1.5 s."""
    ms = _rounded(ms)
    if ms >= 1000:
        return f"{plain(ms / 1000)} s"
    return f"{plain(ms * 1000)} µs" if 0 < ms < 0.01 else f"{plain(ms)} ms"


def moment(text: str) -> str:
    """Formats a time in UTC to the minute; other text is returned unchanged."""
    try:
        taken = datetime.fromisoformat(text)
        return f"{taken.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if taken.tzinfo else f"{taken:%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError):
        return text


def _shown(value: float | None, format: Callable[[float], str]) -> str:
    return DASH if value is None else format(value)


def _shown_range(found: Range | None, format: Callable[[float], str], between: str = DASH) -> str:
    """Formats a range, with one unit if both ends have the same: 4.2–5.5 ms."""
    if found is None:
        return ""
    low, high = format(found[0]), format(found[1])
    if low.lstrip("0123456789.") == (unit := high.lstrip("0123456789.")):
        low = low.removesuffix(unit)
    return high if low + unit == high else low + between + high


def times(ratio: float) -> str:
    return f"{plain(ratio)}×"


def lower(ratio: float) -> str:
    """Formats a ratio of latencies in words: 0.007 is 143 times lower."""
    return f"{plain(1 / ratio)}× lower" if ratio < 1 else f"{plain(ratio)}× higher"


def page(comparisons: Sequence[Mapping[str, Any]]) -> str:
    """Returns the whole page."""
    found = runs(comparisons)
    tones = "".join(f".tone{tone} {{ --tone: var(--t{tone}); }}\n" for tone in range(charts.TONES))
    body = [_header(found), _headline(found), METHOD, *(_section(run) for run in found)]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{OURS} compared with other engines</title>\n"
        f"<style>{STYLE}{tones}{charts.STYLE}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def _header(found: Sequence[Run]) -> str:
    days = sorted({moment(_string(run.facts.get("taken")))[:10] for run in found} - {""})
    machines = sorted({_machine(run) for run in found} - {""})
    queries = len({_query(run.facts) for run in found})
    facts = ["1 query" if queries == 1 else f"{queries} queries"] + [f"{len(found)} runs"] * (queries != len(found))
    facts += [f"taken {days[0]}" if len(days) == 1 else f"taken {days[0]} to {days[-1]}"] if days else []
    facts += [machines[0] if len(machines) == 1 else f"{len(machines)} machines"] if machines else []
    links = "".join(f'<a href="#{run.anchor}">{escaped(run.label)}</a>' for run in found)
    return (
        f"<header><h1>{OURS} compared with other engines</h1>"
        f'<p class="facts">{escaped(" · ".join(facts))}</p>'
        f'<p class="lead">{escaped(_summary(found))}</p>'
        f'<nav aria-label="Queries">{links}</nav></header>'
    )


def _summary(found: Sequence[Run]) -> str:
    """Returns one or two sentences with the ranges of the ratios over all queries."""
    sentences = []
    best = [run.throughput[peer.name].value for run in found if (peer := run.best_peer) and peer.name in run.throughput]
    if best:
        ends = _shown_range((min(best), max(best)), plain, " to ")
        sentences.append(f"{OURS}'s throughput per core is {ends} times the best peer's.")
    for name in LATENCY_PEERS:
        ratios = [run.p99[name].value for run in found if name in run.p99]
        if ratios:
            ends = _shown_range((max(ratios), min(ratios)), lower, " to ")
            sentences.append(f"Its p99 latency is {ends} than {name}'s.")
    return " ".join(sentences) or "There are no figures to compare."


def _headline(found: Sequence[Run]) -> str:
    names = _system_names([run.facts for run in found])
    peers = [name for name in LATENCY_PEERS if name in names]
    throughput, latency = [], []

    def reason(system: System) -> str:
        return "" if system.counts else system.standing.value

    for run in found:
        link = f'<th scope="row" class="name"><a href="#{run.anchor}">{escaped(run.label)}</a></th>'
        best = run.best_peer.name if run.best_peer else ""
        ratio = run.throughput.get(best)
        cells = _figures(run, names, lambda s: s.per_core, count, max, reason)
        throughput.append([link, *cells, _cell(ratio, Better.MORE, times, best)])
        cells = _figures(run, names, lambda s: s.latency_ms["p99"], duration, min, reason)
        latency.append([link, *cells, *(_cell(run.p99.get(peer), Better.LESS, lower) for peer in peers)])
    heads = ['<th scope="col">query</th>', *(_system_head(name, index) for index, name in enumerate(names))]
    last = f'<th scope="col">{OURS} ÷ best peer</th>'
    ends = [f'<th scope="col">against {escaped(peer)}</th>' for peer in peers]
    return (
        '<section id="headline"><h2>All queries</h2><div class="pair">'
        + _table("Throughput per core", Better.MORE.value, [*heads, last], throughput)
        + _table("p99 latency", Better.LESS.value, [*heads, *ends], latency)
        + '</div><p class="note"><b>Bold</b>: the best of its row. <s>Struck through</s>: does not count, for the '
        f"reason below it. {DASH}: no figure; the query's section has the reason. ?: the answer was not checked.</p>"
        "</section>"
    )


def _system_head(name: str, tone: int, scope: str = "col") -> str:
    return f'<th scope="{scope}" class="tone{tone % charts.TONES}"><i class="key"></i>{escaped(name)}</th>'


def _figures(
    run: Run,
    names: Sequence[str],
    figure: Callable[[System], float | None],
    format: Callable[[float], str],
    best: Callable[[list[float]], float],
    note: Callable[[System], str] = lambda system: "",
) -> list[str]:
    """Returns the cells of one figure, one per system, each with a note; the best that counts is bold."""
    counted = [value for system in run.systems if system.counts and (value := figure(system)) is not None]
    top = best(counted) if counted else None
    systems = {system.name: system for system in run.systems}
    cells = []
    for name in names:
        system = systems.get(name)
        value = figure(system) if system else None
        if system is None or value is None:
            cells.append(f"<td>{DASH}</td>")
            continue
        mark = "s" if not system.counts else "b" if value == top else "span"
        doubt = ' <abbr title="the answer was not checked">?</abbr>' if system.standing is Standing.UNCHECKED else ""
        cells.append(f"<td><{mark}>{escaped(format(value))}</{mark}>{doubt}{_sub(note(system))}</td>")
    return cells


def _cell(ratio: Ratio | None, better: Better, format: Callable[[float], str], note: str = "") -> str:
    """Returns a cell with a ratio, coloured by its verdict."""
    if ratio is None:
        return f"<td>{DASH}</td>"
    return f'<td class="ratio {ratio.verdict(better).name.lower()}">{escaped(format(ratio.value))}{_sub(note)}</td>'


def _sub(text: str) -> str:
    return f'<span class="sub">{escaped(text)}</span>' if text else ""


def _table(title: str, about: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    # A table that is too wide for a phone scrolls; tabindex allows that by keyboard too.
    return (
        f'<div class="wide" role="region" aria-label="{escaped(title)}" tabindex="0"><table>'
        f"<caption>{escaped(title)} {_sub(about)}</caption><thead><tr>{''.join(heads)}</tr></thead><tbody>"
        + "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
        + "</tbody></table></div>"
    )


METHOD = """<section id="method"><h2>How to read this</h2><ul>
<li><b>The same events for all.</b> The events are generated beforehand, as Parquet files. Each file appears in the
input directory at the time it is due at the given rate, in the same way for every system.</li>
<li><b>Latency</b> counts from when the file with the event that a result waits for was due, not from when a system
picked it up: waiting in a backlog is part of it. 99 of 100 results do not exceed the p99.</li>
<li><b>Throughput</b> is the rate that a system sustains: neither its backlog nor its p99 grows while the run lasts. It
is divided by the cores that the system may use. A system may be set up in one way for throughput and in another for
latency; runs at the rate at which latency is measured use the latter setup.</li>
<li><b>Rounds are interleaved</b>: the systems take turns on one machine, so that a slow minute affects all of them.
Throughput and ratios are medians over the rounds; latencies are over the results of all rounds together; whiskers and
ranges are the minimum and maximum of the rounds.</li>
<li><b>A ratio</b> is stretto's figure divided by the peer's. Where its range includes 1, the rounds do not show which
of the two is better, and the page says so.</li>
<li><b>Answers are checked</b> before anything is timed. A system with a wrong answer does not count. The systems
persist different things for recovery, which takes time: see what each persists.</li>
<li>It is one workload on one machine, set up by the authors of one of the systems, and files of columns suit some
systems better than others. Run it on yours; <code>src/stretto/bench/README.md</code> has the method in full.</li>
</ul></section>"""


def _section(run: Run) -> str:
    about = _string(run.facts.get("about"))
    return (
        f'<section class="query" id="{run.anchor}"><h2>{escaped(run.label)}</h2>'
        + (f'<p class="about">{escaped(about)}</p>' if about else "")
        + f'<p class="facts">{escaped(_workload(run))}</p>'
        + f'<div class="charts">{_throughput_chart(run)}{_latency_chart(run)}{_rate_chart(run)}</div>'
        + f'<div class="pair">{_figures_table(run)}<div>{_ratios_table(run)}{_notes(run)}</div></div>'
        + f"{_setting(run)}</section>"
    )


def _workload(run: Run) -> str:
    names = {"events": "events generated", "rounds": "rounds", "cores": "cores for each system"}
    names["rate"] = "events/s while latency is measured"
    return " · ".join(f"{_shown(_number(run.facts.get(key)), count)} {name}" for key, name in names.items())


def _figure(title: str, about: str, chart: str) -> str:
    return f"<figure><figcaption><b>{escaped(title)}</b> {escaped(about)}</figcaption>{chart}</figure>"


def _throughput_chart(run: Run) -> str:
    rows = []
    for system in run.systems:
        low, high = system.per_core_range or (None, None)
        note = "" if system.standing is Standing.RIGHT else system.standing.value
        rows.append(Bar(system.name, system.per_core, low, high, system.tone, note, not system.counts))
    chart = charts.bars(f"{run.label}: throughput per core", rows, Axis("events per second and core", count))
    return _figure("Throughput per core.", "More is better. The whisker is the range over the rounds.", chart)


def _latency_chart(run: Run) -> str:
    """Draws latency by quantile. The axis is stretched towards the tail: each nine has the same width."""
    inner = [q for system in run.systems for q, _ in system.quantiles if q < 1.0]
    end = max([_nines(q) for q in inner] + [2.0]) + 0.4
    names = {0.0: "0", _nines(0.5): "50"} | {float(n): f"{100 - 10.0 ** (2 - n):.10g}" for n in range(1, int(end) + 1)}
    names[end] = "max"
    series = []
    for system in run.systems:
        points = [
            Point(
                end if q == 1.0 else _nines(q),
                ms,
                Mark.SOLID if q in MARKED_QUANTILES else Mark.NONE,
                f"{system.name}, {'max' if q == 1.0 else f'p{100 * q:g}'}: {duration(ms)}",
            )
            for q, ms in system.quantiles
        ]
        series.append(Line(system.name, points, system.tone, not system.counts))
    x = Axis("percent of the results, tail stretched", lambda at: names[at], log=False, ticks=list(names))
    chart = charts.lines(f"{run.label}: latency by quantile", series, x, Axis("latency", duration))
    rate = _shown(_number(run.facts.get("rate")), count)
    return _figure("Latency by quantile.", f"At {rate} events/s. Lower is better.", chart)


def _nines(quantile: float) -> float:
    """Returns how many nines a quantile below 1 has: 0.9 is 1, 0.99 is 2; at most nine."""
    return round(min(-math.log10(max(1.0 - quantile, 1e-9)), 9.0), 9)


def _rate_chart(run: Run) -> str:
    series = [Line(s.name, s.by_rate, s.tone, not s.counts, _medians(s.by_rate)) for s in run.systems]
    x, y = Axis("events per second", count), Axis("p99 latency", duration)
    chart = charts.lines(f"{run.label}: p99 latency against rate", series, x, y)
    about = "A point is a run, hollow if not sustained; lines join medians. Lower and further right is better."
    return _figure("p99 latency against rate.", about, chart)


def _medians(points: Sequence[Point]) -> list[Point]:
    """Returns one point for all runs at about the same rate: a line through all runs would zigzag at the limit."""
    groups: list[list[Point]] = []
    for point in points:
        if groups and point.x <= groups[-1][0].x * SAME_RATE_MAX:
            groups[-1].append(point)
        else:
            groups.append([point])
    return [Point(median(p.x for p in group), median(p.y for p in group), Mark.NONE) for group in groups]


def _figures_table(run: Run) -> str:
    names = [system.name for system in run.systems]

    def texts(text: Callable[[System], str]) -> list[str]:
        return [f"<td>{escaped(text(system) or DASH)}</td>" for system in run.systems]

    def extent(of: Callable[[System], Range | None], format: Callable[[float], str]) -> Callable[[System], str]:
        return lambda system: _shown_range(of(system), format) if system.counts else ""

    def latency(key: str, note: Callable[[System], str] = lambda system: "") -> list[str]:
        return _figures(run, names, lambda system: system.latency_ms[key], duration, min, note)

    rows = {
        "answer": texts(lambda system: system.standing.value),
        "version": texts(lambda system: system.version),
        "cores": texts(lambda system: _shown(system.cores, plain)),
        "events/s": _figures(run, names, lambda system: system.events_per_s, count, max),
        "per core": _figures(run, names, lambda s: s.per_core, count, max, extent(lambda s: s.per_core_range, count)),
        "p50": latency("p50"),
        "p95": latency("p95"),
        "p99": latency("p99", extent(lambda system: system.p99_range, duration)),
        "max": latency("max"),
    }
    heads = ["<td></td>", *(_system_head(system.name, system.tone) for system in run.systems)]
    cells = [[f'<th scope="row">{title}</th>', *found] for title, found in rows.items()]
    return _table("Figures", "small: the range over the rounds", heads, cells)


def _ratios_table(run: Run) -> str:
    rows = []
    for peer in run.systems:
        if peer.name != OURS:
            found = ((run.throughput.get(peer.name), Better.MORE), (run.p99.get(peer.name), Better.LESS))
            cells = [_cell(ratio, better, times, _ratio_note(ratio, better)) for ratio, better in found]
            rows.append([_system_head(peer.name, peer.tone, "row"), *cells])
    heads = [f'<th scope="col">{title}</th>' for title in ("peer", "throughput per core", "p99 latency")]
    return _table("Ratios", f"{OURS} ÷ peer, with the range over the rounds", heads, rows)


def _ratio_note(ratio: Ratio | None, better: Better) -> str:
    parts = [_shown_range(ratio.range, plain), ratio.verdict(better).value] if ratio else []
    return ", ".join(part for part in parts if part)


def _notes(run: Run) -> str:
    """Returns what each system persists, and why a system has no figures or does not count."""
    keeps = [_entry(system.name, system.persists or DASH) for system in run.systems]
    doubts = [
        _entry(system.name, f"{system.standing.value}: {system.reason}" if system.reason else system.standing.value)
        for system in run.systems
        if system.standing is not Standing.RIGHT
    ]
    found = f'<h3>What each system persists</h3><dl class="facts">{"".join(keeps)}</dl>'
    return found + (f'<h3>Remarks</h3><dl class="facts">{"".join(doubts)}</dl>' if doubts else "")


def _setting(run: Run) -> str:
    load = _object(run.facts.get("load"))
    before, after, most = (_number(load.get(key)) for key in ("before", "after", "max"))
    loads = f"{_shown(before, plain)} before, {_shown(after, plain)} after, {_shown(most, plain)} at most"
    if before is not None and before > IDLE_LOAD_MAX:
        loads += ": the machine was busy before the run"
    entries = [
        _entry("machine", _machine(run) or DASH),
        _entry("load", loads),
        _entry("taken", moment(_string(run.facts.get("taken"))) or DASH),
        f"<dt>command</dt><dd><code>{escaped(_string(run.facts.get('command')) or DASH)}</code></dd>",
    ]
    return f'<h3>Where and how it ran</h3><dl class="facts">{"".join(entries)}</dl>'


def _entry(name: str, text: str) -> str:
    return f"<dt>{escaped(name)}</dt><dd>{escaped(text)}</dd>"


def _machine(run: Run) -> str:
    machine = _object(run.facts.get("machine"))
    cores, memory = _number(machine.get("cores")), _number(machine.get("memory_gb"))
    parts = [_string(machine.get("processor"))]
    parts += [f"{plain(cores)} cores"] if cores is not None else []
    parts += [f"{plain(memory)} GB"] if memory is not None else []
    parts += [
        f"{name} {_string(machine.get(name.lower()))}" for name in ("Python", "Java") if machine.get(name.lower())
    ]
    return ", ".join(part for part in parts if part)


# The first five colours, based on those of Okabe and Ito, are the most distinguishable for colour-blind readers.
STYLE = """
:root { color-scheme: light dark; --ink: #1c2128; --muted: #59636e; --grid: #e3e7ec; --paper: #fff; --back: #f5f7f9;
  --good: #00694d; --bad: #a33c00;
  --t0: #0067a5; --t1: #c65300; --t2: #009e73; --t3: #8e2f6b; --t4: #5c3d00; --t5: #2b8fc4; --t6: #555; --t7: #7a4fbf; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6eaef; --muted: #9aa5b1; --grid: #2e3640;
  --paper: #171c22; --back: #0e1216; --good: #3fd0a4; --bad: #ff9a5c;
  --t0: #3aa0f0; --t1: #f07820; --t2: #45e0b0; --t3: #e070b5; --t4: #f5e06a; --t5: #8fd3f7; --t6: #bbb;
  --t7: #b79bf0; } }
body { margin: 0 auto; padding: 2rem 1.5rem 4rem; max-width: 82rem; background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; letter-spacing: -0.02em; }
h2 { margin: 0 0 .25rem; font-size: 1.3rem; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h3, caption, figcaption b { margin: 0 0 .4rem; font-size: .95rem; font-weight: 650; text-align: left; }
h3 { margin-top: 1.25rem; } p { margin: 0 0 .6rem; }
a { color: inherit; text-decoration-color: var(--muted); text-underline-offset: .2em; }
* { box-sizing: border-box; } b { font-weight: 650; } s, abbr { color: var(--muted); } abbr { text-decoration: none; }
code { font: .85em/1.45 ui-monospace, "SFMono-Regular", Menlo, Consolas, "Liberation Mono", monospace; }
.facts, .note { color: var(--muted); font-size: .87rem; } .note { margin: .8rem 0 0; }
.lead { max-width: 60rem; margin: .8rem 0; font-size: 1.1rem; }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin-bottom: 1.25rem; }
section { margin: 0 0 1.25rem; padding: 1.25rem 1.5rem; background: var(--paper); border: 1px solid var(--grid);
  border-radius: .6rem; }
#method ul { margin: .5rem 0 0; padding-left: 1.1rem; columns: 28rem 2; column-gap: 2.5rem; }
#method li { margin-bottom: .45rem; break-inside: avoid; }
.pair, .charts { display: grid; gap: 1.5rem 2.5rem; margin-top: 1.25rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, var(--least, 30rem)), 1fr)); }
.charts { --least: 20rem; column-gap: 2rem; }
.pair > *, figure { min-width: 0; margin: 0; }
figcaption { min-height: 4.1rem; color: var(--muted); font-size: .82rem; line-height: 1.35; }
figcaption b { display: block; margin: 0; color: var(--ink); } .wide { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { padding: .32rem 0 .32rem .7rem; border-bottom: 1px solid var(--grid); text-align: right;
  vertical-align: baseline; white-space: nowrap; font-weight: 400; }
th:first-child, td:first-child { padding-left: 0; text-align: left; }
thead th { color: var(--muted); font-size: .82rem; vertical-align: bottom; }
thead th:not([class]), .ratio, .sub { white-space: normal; } tbody tr:last-child > * { border-bottom: 0; }
tbody .name { max-width: 14rem; min-width: 2.5rem; white-space: normal; overflow-wrap: anywhere; }
.key { display: inline-block; width: .6em; height: .6em; margin-right: .35em; border-radius: 2px;
  background: var(--tone); -webkit-print-color-adjust: exact; print-color-adjust: exact; }
.sub { display: block; color: var(--muted); font-size: .78rem; font-weight: 400; line-height: 1.25; }
.better, .worse { color: var(--good); font-weight: 650; } .worse { color: var(--bad); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; }
dt { color: var(--ink); } dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  body { padding: 1rem .5rem 2rem; }
  section { padding: 1rem .7rem; } h1 { font-size: 1.5rem; }
  table { font-size: .75rem; } thead th { font-size: .68rem; } .sub { font-size: .68rem; }
  th, td { padding-left: .3rem; white-space: normal; } thead .key { display: block; margin: 0 0 .2em auto; }
  figcaption { min-height: 0; margin-bottom: .4rem; }
}
@media print {
  html { font-size: 12px; } .pair { --least: 26rem; }
  body { max-width: none; padding: 0; background: none; font-size: 10pt; }
  section { padding: .6rem 0; border: 0; } section.query { break-before: page; } nav { display: none; }
  figure, table, dl { break-inside: avoid; } h3 { break-after: avoid; }
  .charts { grid-template-columns: repeat(3, 1fr); gap: 1rem; } a { text-decoration: none; }
}
"""
