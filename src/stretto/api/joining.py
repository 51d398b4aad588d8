"""The parts of a join node: the columns of a pair of rows, and the bounds of an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from stretto.api.windowing import TIMESTAMP
from stretto.errors import PlanError
from stretto.expressions import Scalar, compile_value
from stretto.expressions.zones import UTC, zone_named
from stretto.operators.join_kinds import JoinKind
from stretto.operators.join_nearest import Direction, Nearness
from stretto.operators.windows import Duration, EventTime, positive_duration_us

_PROBES_US = (0, 10_000_000_000_000, 1_700_000_000_000_000)


def joined_schema(left: pa.Schema, right: pa.Schema, suffix: str) -> pa.Schema:
    """Returns the left columns, then the right ones. A right column whose name is taken gets the suffix; case does not
    matter."""
    fields = list(left)
    taken = {name.lower() for name in left.names}
    for field in right:
        name = field.name
        if name.lower() in taken and not suffix:
            raise PlanError("a join has two columns of one name", f"'{name}', and suffix=''", "Give a suffix.")
        while name.lower() in taken:
            name += suffix
        taken.add(name.lower())
        fields.append(field.with_name(name))
    return pa.schema(fields)


def with_bounds(pair: pa.Schema, left: str) -> pa.Schema:
    """Returns the columns of a pair with those of its window."""
    for column in ("window_start", "window_end"):
        if column in pair.names:
            raise PlanError(f"window_join of '{left}': column '{column}' exists already", None, "Rename it.")
        pair = pair.append(pa.field(column, TIMESTAMP))
    return pair


def asof_kind(how: str, left: str) -> JoinKind:
    """Returns the kind of an ASOF join; those that send right rows alone, or no pairs, are refused, as by Spark."""
    kind = JoinKind.named(how, f"asof_join on '{left}'")
    if kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise PlanError(
            f"asof_join on '{left}' cannot be a {kind.value} join",
            f"how={how!r}: it is about each left row and its partner",
            'Write "inner" or "left".',
        )
    return kind


def nearness_of(left: str, direction: str, tolerance: Duration | None, exact: bool) -> Nearness:
    """Returns which right rows an ASOF join takes. One that looks forward must know how long to wait."""
    towards = Direction.named(direction, f"asof_join on '{left}'")
    reach_us = None if tolerance is None else positive_duration_us(tolerance, f"tolerance of asof_join on '{left}'")
    if towards is not Direction.BACKWARD and reach_us is None:
        raise PlanError(
            f"asof_join on '{left}' does not know how long to wait",
            f"direction={direction!r} without a tolerance: a row without a match would wait to the end",
            'Write tolerance="1 minute", or direction="backward".',
        )
    return Nearness(towards, reach_us, exact)


class Side(Enum):
    """One of the inputs of a join."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True)
class Interval:
    """The bounds of an interval join over the left row. An offset is the constant c if its bound is the left time plus
    c, else None."""

    lower: Scalar
    upper: Scalar
    lower_offset_us: int | None
    upper_offset_us: int | None

    def time_of_pairs(self, how: JoinKind) -> tuple[Side | None, int]:
        """Returns which side's time is the event time of the result, and by how much it may be before the watermark.

        A pair is sent when its second row arrives, which is not late: then left >= watermark - upper offset, and right
        >= watermark + lower offset. The same holds for rows without a match, which are sent when the watermark has
        passed the other end of the interval. A side whose columns may be null has no event time."""
        lower, upper = self.lower_offset_us, self.upper_offset_us
        if not how.tracks_left and lower is not None and lower >= 0:
            return Side.RIGHT, 0
        if not how.tracks_right and upper is not None:
            return Side.LEFT, max(upper, 0)
        if not how.tracks_left and lower is not None:
            return Side.RIGHT, -lower
        return None, 0


def interval_between(left: str, lower: str, upper: str, time: EventTime, schema: pa.Schema) -> Interval:
    """Returns both bounds, compiled over the left row's columns; they must be timestamps."""
    bounds = compile_value(lower, schema, "a bound"), compile_value(upper, schema, "a bound")
    for text, bound in zip((lower, upper), bounds, strict=True):
        if not pa.types.is_timestamp(bound.type):
            raise PlanError(
                f"interval_join on '{left}': a bound is not a timestamp",
                f"{text!r} is {bound.type}",
                'Write it over the left time column, such as "dateTime - INTERVAL 5 SECONDS".',
            )
    return Interval(*bounds, *(constant_offset_us(bound, time, schema) for bound in bounds))


def constant_offset_us(bound: Scalar, time: EventTime, schema: pa.Schema) -> int | None:
    """Returns the constant c if a bound is the left time plus c where days have 24 hours, else None.

    It is found by probing: the bound reads only the time column, and has the same offset to it at three times."""
    offsets = _offsets_us(bound.in_zone(UTC.name), _PROBES_US, time, schema)
    return offsets.pop() if len(offsets) == 1 else None


def least_offset_us(bound: Scalar, time: EventTime, schema: pa.Schema) -> int | None:
    """Returns the least c for which a bound can be the left time plus c, in its own zone, or None if c is not known.

    In a zone that changes its offset, a day may have fewer or more than 24 hours."""
    offset_us = constant_offset_us(bound, time, schema)
    zone = zone_named(bound.setting.zone)
    if offset_us is None or _offsets_us(bound, zone.around_changes_us, time, schema) <= {offset_us}:
        return offset_us
    return offset_us - zone.spread_us


def held_back_us(held_us: int, lower: Scalar, upper: Scalar, time: EventTime, schema: pa.Schema) -> int:
    """Returns how long windows wait for pairs, given how long that is where days have 24 hours."""
    changing = any(constant_offset_us(b, time, schema) != least_offset_us(b, time, schema) for b in (lower, upper))
    return held_us + zone_named(lower.setting.zone).spread_us if held_us and changing else held_us


def _offsets_us(bound: Scalar, probes_us: Sequence[int], time: EventTime, schema: pa.Schema) -> set[int | None]:
    """Returns the offsets of a bound to the left time at some times; None among them if it reads other columns."""
    if bound.columns != {time.column}:
        return {None}
    index = schema.get_field_index(time.column)
    kind = schema.field(index).type
    columns = [
        pa.array(probes_us, pa.timestamp("us", tz="UTC")).cast(kind) if i == index else pa.nulls(len(probes_us), f.type)
        for i, f in enumerate(schema)
    ]
    given = bound.evaluate(pa.RecordBatch.from_arrays(columns, schema=schema)).cast(pa.timestamp("us", tz="UTC"))
    found = zip(given.cast(pa.int64()).to_pylist(), probes_us, strict=True)
    return {None if value is None else value - probe + time.offset_us for value, probe in found}
