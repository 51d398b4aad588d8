"""Windows in SQL: window() and session_window() among the keys, and the table functions TUMBLE, HOP, CUMULATE, SESSION.

A table function only says which window is meant. Rows are divided when a query wants rows and not groups: then each is
copied for each of its windows. CUMULATE divides them always, since its windows have different sizes; its groups are
spans, windows that each row brings.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from stretto.errors import PlanError
from stretto.expressions.scalar import quoted
from stretto.operators.windows import (
    Hopping,
    Session,
    Tumbling,
    Window,
    duration_us,
    hopping,
    positive_duration_us,
    session,
    span,
    tumbling,
)
from stretto.sql.relation import (
    END,
    START,
    WINDOW_END,
    WINDOW_START,
    WINDOW_TIME,
    Bounds,
    Column,
    PendingWindow,
    Ref,
    Relation,
)
from stretto.sql.tree import Shape, WindowedTable

CALLS = ("window", "session_window", "span_window")
_WINDOWS_MAX = 1_000
"""A row may be in so many windows, of those that a table function copies it for."""


def called_window(tree: exp.Expr, relation: Relation) -> Window | None:
    """Returns the window of window(ts, '10 seconds'), session_window(ts, '10 seconds') or span_window(start, end); None
    for other calls."""
    if not isinstance(tree, exp.Anonymous) or tree.name.lower() not in CALLS:
        return None
    name, arguments = tree.name.lower(), tree.expressions
    if name == "span_window":
        refs = [relation.ref(argument) for argument in arguments]
        if len(refs) != 2 or not all(isinstance(ref, str) for ref in refs):
            raise PlanError("span_window takes two columns", tree.sql("spark"), "Write span_window(opened, closes).")
        return span(str(refs[0]), str(refs[1]))
    lengths = [_constant(argument, name) for argument in arguments[1:]]
    if not arguments or not 1 <= len(lengths) <= (3 if name == "window" else 1):
        raise PlanError(f"{name} takes a time and a duration", tree.sql("spark"), f"Write {name}(ts, '10 seconds').")
    _check_time(relation, arguments[0], name)
    if name == "session_window":
        return session(lengths[0])
    if len(lengths) == 1 or (len(lengths) == 3 and duration_us(lengths[0]) == duration_us(lengths[1])):
        return tumbling(lengths[0], lengths[2] if len(lengths) == 3 else 0)
    return hopping(lengths[0], lengths[1], lengths[2] if len(lengths) == 3 else 0)


def _constant(tree: exp.Expr, name: str) -> str:
    if isinstance(tree, exp.Literal) and tree.is_string:
        return str(tree.this)
    if isinstance(tree, exp.Interval) and isinstance(tree.this, exp.Literal):
        return f"{tree.this.this} {tree.args['unit'].name.lower() if tree.args.get('unit') else ''}"
    raise PlanError(
        f"{name} needs constant durations", f"there is {tree.sql('spark')}", f"Write {name}(ts, '10 seconds')."
    )


def _check_time(relation: Relation, tree: exp.Expr, name: str) -> None:
    """Raises unless a tree is the stream's event time: its column, or a window before, or window_time of that."""
    if isinstance(tree, exp.Anonymous) and tree.name.lower() == "window_time" and len(tree.expressions) == 1:
        (tree,) = tree.expressions
    check_time(relation, relation.ref(tree), tree.sql("spark"), name)


def check_time(relation: Relation, ref: Ref | None, written: str, name: str) -> None:
    """Raises unless this is the column of the stream's event time."""
    stream = relation.stream
    if stream.time is None:
        raise PlanError(
            f"{name} needs event time, and '{stream.name}' has none",
            f"it is over {written}",
            f"Write FROM STREAM t WATERMARK {written} DELAY OF INTERVAL 5 SECONDS, and keep that column in subqueries.",
        )
    column = ref.end if isinstance(ref, Bounds) else ref
    if column != stream.time.column:
        visible = next((c.name for c in relation.columns if c.ref == stream.time.column), stream.time.column)
        raise PlanError(
            f"{name} is over another column than the event time",
            f"it is over {written}, and the event time is {visible}",
            f"Write {name}({visible}, ...), or WATERMARK {written} DELAY OF INTERVAL 5 SECONDS at the table.",
        )


def windowed(relation: Relation, asked: WindowedTable) -> Relation:
    """Returns rows with the window that a table function asks for, and its three columns."""
    name = asked.shape.value
    if relation.pending is not None or relation.bounds is not None:
        raise PlanError(
            f"{name} over rows that are in windows already",
            None,
            "Write GROUP BY window(window_time(window), '1 minute') for windows of windows.",
        )
    check_time(relation, _ref_of(relation, asked.time), asked.time, name)
    for column in (START, END, "window_time"):
        if any(each.name.lower() == column for each in relation.columns):
            raise PlanError(f"{name} over a table with a column {column}", None, "Rename it in a subquery.")
    marked = (Column(START, WINDOW_START), Column(END, WINDOW_END), Column("window_time", WINDOW_TIME))
    own = (replace(column, qualifier=asked.alias or column.qualifier) for column in relation.columns)
    columns = (*own, *(replace(column, qualifier=asked.alias) for column in marked))
    if asked.shape is Shape.CUMULATE:
        return _cumulated(replace(relation, columns=columns), asked)
    keys = tuple(str(_ref_of(relation, key)) for key in asked.partition_by)
    return replace(relation, columns=columns, pending=PendingWindow(_window(asked), keys))


def _ref_of(relation: Relation, name: str) -> Ref:
    found = relation.find([name])
    if found is None:
        raise relation.unknown([name])
    return found[0].ref


def _window(asked: WindowedTable) -> Window:
    sizes, origin = asked.sizes, asked.sizes.get("OFFSET", 0)
    if asked.shape is Shape.TUMBLE:
        return tumbling(sizes["SIZE"], origin)
    if asked.shape is Shape.HOP:
        return hopping(sizes["SIZE"], sizes["SLIDE"], origin)
    return session(sizes["GAP"])


def divided(relation: Relation) -> Relation:
    """Returns the rows once for each window that they are in, if a table function has asked for windows."""
    if relation.pending is None:
        return relation
    window = relation.pending.window
    if isinstance(window, Session):
        raise PlanError(
            "the bounds of a session are not known before it closes",
            "a row of it is selected, filtered, joined or ranked",
            "Write GROUP BY with window_start and window_end, and the keys.",
        )
    assert isinstance(window, Tumbling | Hopping)
    micros = _micros(relation)
    latest = f"{micros} - pmod({micros} - {window.origin_us}L, {window.slide_us}L)"
    count = -(-window.size_us // window.slide_us)
    _check_count(count)
    starts = f"timestamp_micros({latest})"
    if count > 1:
        # Windows that begin early may have ended before the row, if the slide does not divide the size.
        each = f"transform(sequence(0, {count - 1}), i -> {latest} - i * {window.slide_us}L)"
        starts = f"explode(transform(filter({each}, s -> s + {window.size_us}L > {micros}), s -> timestamp_micros(s)))"
    stream = relation.stream.select("*", f"{starts} AS {START}")
    stream = stream.select("*", f"{START} + INTERVAL {window.size_us} MICROSECONDS AS {END}")
    return _assigned(relation.with_rows(stream))


def _cumulated(relation: Relation, asked: WindowedTable) -> Relation:
    step_us = positive_duration_us(asked.sizes["STEP"], "the step of CUMULATE")
    size_us = positive_duration_us(asked.sizes["SIZE"], "the size of CUMULATE")
    origin_us = duration_us(asked.sizes.get("OFFSET", 0))
    if size_us % step_us:
        raise PlanError(
            "the size of CUMULATE is not a multiple of its step", f"step {step_us:,} us, size {size_us:,} us", None
        )
    _check_count(size_us // step_us)
    micros = _micros(relation)
    start = f"{micros} - pmod({micros} - {origin_us}L, {size_us}L)"
    stream = relation.stream.select("*", f"timestamp_micros({start}) AS {START}")
    passed = f"(unix_micros({_time(relation)}) - unix_micros({START})) div {step_us}L"
    ends = f"transform(sequence({passed} + 1, {size_us // step_us}L), n -> unix_micros({START}) + n * {step_us}L)"
    stream = stream.select("*", f"explode(transform({ends}, e -> timestamp_micros(e))) AS {END}")
    return _assigned(relation.with_rows(stream))


def _assigned(relation: Relation) -> Relation:
    """Returns the relation with the bounds of its rows' windows as columns of the stream."""
    stream = relation.stream.select("*", f"{END} - INTERVAL 1 MICROSECOND AS window_time")
    refs = {WINDOW_START: START, WINDOW_END: END, WINDOW_TIME: "window_time"}
    columns = tuple(
        replace(c, ref=refs.get(c.ref, c.ref) if isinstance(c.ref, str) else c.ref) for c in relation.columns
    )
    return Relation(stream, columns, Bounds(START, END))


def _time(relation: Relation) -> str:
    assert relation.stream.time is not None
    return quoted(relation.stream.time.column)


def _micros(relation: Relation) -> str:
    return f"unix_micros({_time(relation)})"


def _check_count(count: int) -> None:
    if count > _WINDOWS_MAX:
        raise PlanError(
            f"each row would be in {count:,} windows",
            f"the limit is {_WINDOWS_MAX:,}",
            "Make the slide or step longer.",
        )
