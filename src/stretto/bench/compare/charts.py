"""Draws bars and lines as SVG text: scales, ticks and marks, independent of the data.

It uses no plotting library, because the report must be one file that works offline and needs two kinds of chart. The
page sets the colours: a mark has the class `tone0`, `tone1` and so on, and `STYLE` says what the classes
look like in terms of the variables `--tone`, `--ink`, `--muted`, `--grid` and `--paper`.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

WIDTH, HEIGHT = 390.0, 280.0
TONES = 8
LOG_SPAN_MIN = 20.0
"""Values that differ by a greater factor get a logarithmic axis: on a linear one the least would be invisible."""

TICKS_MAX = 6
LABEL_GAP = 15.0
LABEL_CHARACTERS_MAX = 11

STYLE = """
svg.chart { display: block; width: 100%; height: auto; font-size: 12px; overflow: visible; }
svg.chart text { fill: var(--ink); }
svg.chart .axis, svg.chart .small { fill: var(--muted); font-size: 11px; }
svg.chart .small { font-size: 10px; }
svg.chart .grid { stroke: var(--grid); stroke-width: 1; }
svg.chart .value, svg.chart .tone0 .label { font-weight: 650; }
svg.chart .bar { fill: var(--tone); }
svg.chart .whisker { stroke: var(--ink); stroke-width: 1.5; fill: none; }
svg.chart .halo { stroke: var(--paper); stroke-width: 4; fill: none; }
svg.chart .line { stroke: var(--tone); stroke-width: 2; fill: none; stroke-linejoin: round; }
svg.chart .tone0 .line { stroke-width: 3; }
svg.chart .leader { stroke: var(--tone); stroke-width: 1; stroke-dasharray: 1 3; fill: none; }
svg.chart .point { fill: var(--tone); stroke: var(--tone); stroke-width: 2; }
svg.chart .hollow { fill: var(--paper); }
svg.chart .series .label { fill: color-mix(in srgb, var(--tone) 70%, var(--ink)); }
svg.chart .void .bar { fill: var(--paper); stroke: var(--tone); stroke-width: 1.5; stroke-dasharray: 4 3; }
svg.chart .void .line { stroke-dasharray: 5 4; stroke-width: 1.5; }
svg.chart .void .value { text-decoration: line-through; font-weight: 400; }
"""


class Mark(Enum):
    """How a point of a line is shown."""

    NONE = "none"
    SOLID = "solid"
    HOLLOW = "hollow"


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar with its range. Without a value, a dash is shown; a void bar is drawn as not counting."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    tone: int = 0
    note: str = ""
    void: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float
    mark: Mark = Mark.SOLID
    note: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """Points with a stroke through them, or through the points of `path` where it is given."""

    label: str
    points: Sequence[Point]
    tone: int = 0
    void: bool = False
    path: Sequence[Point] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """The title of an axis and the format of its values. Given ticks also set its range."""

    title: str
    shown: Callable[[float], str]
    log: bool = True
    ticks: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values from `low` to `high` to positions from `start` to `end`; values outside are clamped."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(inside / self.low) / math.log(self.high / self.low)
        else:
            share = (inside - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def spans_widely(values: Iterable[float]) -> bool:
    """Whether positive values are so far apart that they need a logarithmic axis."""
    positive = [value for value in values if value > 0]
    return bool(positive) and max(positive) > LOG_SPAN_MIN * min(positive)


def linear_ticks(high: float, most: int = TICKS_MAX) -> list[float]:
    """Returns round numbers from zero to the first that is not below `high`, at most `most`."""
    if high <= 0:
        return [0.0, 1.0]
    rough = high / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * nice for nice in (1, 2, 2.5, 5, 10, 20) if power * nice * (most - 1) >= high)
    return [step * index for index in range(math.ceil(high / step) + 1)]


def log_floor(value: float) -> float:
    """Returns the greatest of ..., 0.5, 1, 2, 5, 10, 20, 50, ... that is not above the value."""
    return max(candidate for candidate in _round_numbers(value) if candidate <= value)


def log_ceiling(value: float) -> float:
    """Returns the least of the same numbers that is not below the value."""
    return min(candidate for candidate in _round_numbers(value) if candidate >= value)


def _round_numbers(value: float) -> list[float]:
    power = math.floor(math.log10(value))
    return [digit * 10.0**exponent for exponent in range(power - 1, power + 3) for digit in (1, 2, 5)]


def log_ticks(low: float, high: float, most: int = TICKS_MAX) -> list[float]:
    """Returns at most `most` round numbers in [low, high]: several per decade if they fit, else every few decades."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    ticks: list[float] = []
    for digits in ((1, 2, 5), (1, 3), (1,)):
        ticks = [digit * 10.0**decade for decade in decades for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= most:
            break
    return ticks[:: math.ceil(len(ticks) / most)]


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Returns positions near the wanted ones, in the same order, `gap` apart, within [low, high] if they fit."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    placed = [0.0] * len(wanted)
    floor = low
    for index in order:
        placed[index] = max(wanted[index], floor)
        floor = placed[index] + gap
    ceiling = high
    for index in reversed(order):
        placed[index] = min(placed[index], ceiling)
        ceiling = placed[index] - gap
    return placed


def escaped(value: object) -> str:
    """Returns the text escaped for HTML and XML, in an element or in a quoted attribute."""
    # Half a surrogate pair cannot be written as UTF-8, and XML forbids most control characters.
    whole = str(value).encode("utf-8", "replace").decode("utf-8")
    return html.escape(re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]", "\ufffd", whole))


def clipped(text: str, most: int = LABEL_CHARACTERS_MAX) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def bars(title: str, rows: Sequence[Bar], axis: Axis) -> str:
    """Draws horizontal bars, each with its range as a whisker; the axis is logarithmic where needed."""
    values = [row.value for row in rows if row.value is not None]
    ends = [end for row in rows for end in (row.value, row.low, row.high) if end is not None and end > 0]
    if not ends:
        return _empty(title)
    left, right, top = 92.0, WIDTH - 62.0, 8.0
    bottom = max(HEIGHT - 44.0, top + 30.0 * len(rows))
    if spans_widely(values):
        # Half of the least value, so that the shortest bar is visible.
        scale = Scale(log_floor(min(ends) / 2), log_ceiling(max(ends)), left, right, log=True)
        ticks = log_ticks(scale.low, scale.high)
    else:
        ticks = linear_ticks(max(ends))
        scale = Scale(0.0, ticks[-1], left, right)
    parts = [_vertical_axis_lines(scale, ticks, axis, top, bottom)]
    pitch = (bottom - top) / len(rows)
    parts += [_bar(row, scale, axis, top + pitch * (index + 0.5), pitch) for index, row in enumerate(rows)]
    parts.append(_axis_title(axis.title + (", log scale" if scale.log else ""), (left + right) / 2, bottom + 36))
    text = (f"{row.label} {'none' if row.value is None else axis.shown(row.value)}" for row in rows)
    return _svg(title, f"{title}: {', '.join(text)}", bottom + 44, parts)


def _bar(row: Bar, scale: Scale, axis: Axis, middle: float, pitch: float) -> str:
    """One row: its name, a note below the name, the bar, the whisker and the value."""
    name_y = middle - 2 if row.note else middle + 4
    parts = [_text(clipped(row.label), scale.start - 8, name_y, "label", "end")]
    if row.note:
        parts.append(_text(clipped(row.note, 17), scale.start - 8, middle + 11, "small", "end"))
    if row.value is None:
        parts.append(_text("–", scale.start + 6, middle + 4, "axis"))
        return _group("row", row.tone, row.void, parts, f"{row.label}: no figure")
    thick = min(26.0, pitch * 0.6)
    end = scale.at(row.value)
    parts.append(
        f'<rect class="bar" x="{_n(scale.start)}" y="{_n(middle - thick / 2)}" '
        f'width="{_n(end - scale.start)}" height="{_n(thick)}" rx="2"/>'
    )
    text = f"{row.label}: {axis.shown(row.value)}"
    if row.low is not None and row.high is not None:
        low, high = scale.at(row.low), scale.at(row.high)
        cap = thick / 4
        ends = "".join(f"M{_n(end)} {_n(middle - cap)}v{_n(2 * cap)}" for end in (low, high))
        path = f'd="M{_n(low)} {_n(middle)}H{_n(high)}{ends}"/>'
        # A halo, because half of a whisker lies on its own bar.
        parts.append(f'<path class="halo" {path}<path class="whisker" {path}')
        end = max(end, high)
        text += f" (from {axis.shown(row.low)} to {axis.shown(row.high)})"
    parts.append(_text(axis.shown(row.value), end + 7, middle + 4, "value"))
    return _group("row", row.tone, row.void, parts, text + (f", {row.note}" if row.note else ""))


def lines(title: str, series: Sequence[Line], x: Axis, y: Axis) -> str:
    """Draws lines with their names at the right ends."""
    drawn = [(line, _drawable(line.points, x, y), _drawable(line.path or line.points, x, y)) for line in series]
    drawn = [(line, points, path) for line, points, path in drawn if points and path]
    if not drawn:
        return _empty(title)
    left, right, top, bottom = 50.0, WIDTH - 78.0, 26.0, HEIGHT - 44.0
    shown = [point for _, points, path in drawn for point in (*points, *path)]
    x_scale, x_ticks = _scale_of([point.x for point in shown], x, left, right)
    y_scale, y_ticks = _scale_of([point.y for point in shown], y, bottom, top)
    parts = [_vertical_axis_lines(x_scale, x_ticks, x, top, bottom)]
    for tick in y_ticks:
        at = y_scale.at(tick)
        parts.append(f'<path class="grid" d="M{_n(left)} {_n(at)}H{_n(right)}"/>')
        parts.append(_text(y.shown(tick), left - 7, at + 4, "axis", "end"))
    parts.append(_text(_with_scale(y), 0, 11, "axis"))
    parts.append(_axis_title(_with_scale(x), (left + right) / 2, bottom + 36))
    ends = [y_scale.at(path[-1].y) for _, _, path in drawn]
    for (line, points, path), label_y in zip(drawn, spread(ends, LABEL_GAP, top + 4, bottom), strict=True):
        parts.append(_line(line, points, path, (x_scale, y_scale), label_y))
    text = ", ".join(f"{line.label} ends at {y.shown(path[-1].y)}" for line, _, path in drawn)
    return _svg(title, f"{title}, {y.title} against {x.title}: {text}", HEIGHT, parts)


def _line(
    line: Line, points: Sequence[Point], path: Sequence[Point], scales: tuple[Scale, Scale], label_y: float
) -> str:
    """One line: its stroke, its marks, and its name at the right with a leader from its end to it."""
    x, y = scales
    stroke = [f"{_n(x.at(point.x))} {_n(y.at(point.y))}" for point in path]
    parts = [f'<path class="leader" d="M{stroke[-1]}L{_n(x.end + 6)} {_n(label_y)}"/>']
    if len(stroke) > 1:
        parts.append(f'<path class="line" d="M{"L".join(stroke)}"/>')
    for point in points:
        if point.mark is not Mark.NONE:
            kind = "point hollow" if point.mark is Mark.HOLLOW else "point"
            note = f"<title>{escaped(point.note)}</title>" if point.note else ""
            parts.append(
                f'<circle class="{kind}" cx="{_n(x.at(point.x))}" cy="{_n(y.at(point.y))}" r="3">{note}</circle>'
            )
    parts.append(_text(clipped(line.label), x.end + 9, label_y + 4, "label"))
    return _group("series", line.tone, line.void, parts, line.label)


def _drawable(points: Sequence[Point], x: Axis, y: Axis) -> list[Point]:
    """Returns the points without zeros on logarithmic axes, which cannot show them."""
    return [point for point in points if (point.x > 0 or not x.log) and (point.y > 0 or not y.log)]


def _scale_of(values: Sequence[float], axis: Axis, start: float, end: float) -> tuple[Scale, Sequence[float]]:
    if axis.ticks:
        return Scale(axis.ticks[0], axis.ticks[-1], start, end, axis.log), axis.ticks
    if not axis.log:
        ticks = linear_ticks(max(values))
        return Scale(0.0, ticks[-1], start, end), ticks
    low, high = log_floor(min(values)), log_ceiling(max(values))
    if low == high:
        low, high = log_floor(low * 0.9), log_ceiling(high * 1.1)
    return Scale(low, high, start, end, log=True), log_ticks(low, high)


def _with_scale(axis: Axis) -> str:
    return axis.title + (", log scale" if axis.log else "")


def _vertical_axis_lines(scale: Scale, ticks: Sequence[float], axis: Axis, top: float, bottom: float) -> str:
    parts = []
    for tick in ticks:
        at = scale.at(tick)
        parts.append(f'<path class="grid" d="M{_n(at)} {_n(top)}V{_n(bottom)}"/>')
        parts.append(_text(axis.shown(tick), at, bottom + 16, "axis", "middle"))
    return "".join(parts)


def _axis_title(title: str, x: float, y: float) -> str:
    return _text(title, x, y, "axis", "middle")


def _empty(title: str) -> str:
    note = _text("no figures", WIDTH / 2, HEIGHT / 2, "axis", "middle")
    return _svg(title, f"{title}: no figures", HEIGHT, [note])


def _svg(title: str, text: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg class="chart" role="img" aria-label="{escaped(text)}" viewBox="0 0 {_n(WIDTH)} {_n(height)}">'
        f"<title>{escaped(title)}</title>{''.join(parts)}</svg>"
    )


def _group(kind: str, tone: int, void: bool, parts: Sequence[str], note: str) -> str:
    classes = f"{kind} tone{tone % TONES}{' void' if void else ''}"
    return f'<g class="{classes}"><title>{escaped(note)}</title>{"".join(parts)}</g>'


def _text(text: str, x: float, y: float, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{escaped(text)}</text>'


def _n(value: float) -> str:
    """A coordinate: a hundredth of a unit is finer than any screen."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
