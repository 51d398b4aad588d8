"""What the verbs take. A verb declares the kind of each parameter, and an argument of another kind is refused by name.

    @takes(expression=EXPRESSION)
    def filter(self, expression: str, ...)

`filter(lambda row: ...)` would otherwise fail somewhere in the parser, with a Python error that names neither the verb
nor what it takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import pyarrow as pa

from stretto.errors import PlanError
from stretto.expressions.udf import Udf, knowing
from stretto.expressions.zones import UTC, Zone, in_zone
from stretto.operators.user_aggregate import UserAggregate
from stretto.operators.windows import Hopping, Session, Span, Tumbling
from stretto.rendering import shown

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Kind:
    """A kind of argument: its name in an error message, a test, and what to do with some that do not fit."""

    what: str
    fits: Callable[[Any], bool]
    instead: Callable[[Any], str | None] = lambda value: None

    def optional(self) -> Kind:
        """Returns the same kind, or None."""
        return Kind(f"{self.what}, or None", lambda value: value is None or self.fits(value), self.instead)


def takes(**kinds: Kind) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Checks the arguments of a verb when it is called. The kinds of `name` and `parallelism` need not be declared.

    The functions that the app has registered, and its time zone, are known in the expressions that the verb
    compiles."""
    known = _EVERYWHERE | kinds

    def decorate(verb: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(verb)

        @wraps(verb)
        def checked(*arguments: P.args, **named: P.kwargs) -> R:
            subject = _subject(verb, arguments)
            try:
                bound = signature.bind(*arguments, **named)
            except TypeError as error:
                raise PlanError(f"{subject} takes {_shape(signature)}", str(error)) from None
            for parameter, value in bound.arguments.items():
                if parameter in known:
                    _check(subject, parameter, signature.parameters[parameter].kind, value, known[parameter])
            app = _app_of(arguments[0] if arguments else None)
            with knowing(_udfs_of(app)), in_zone(_zone_of(app)):
                return verb(*arguments, **named)

        return checked

    return decorate


def _app_of(owner: Any) -> Any:
    """Returns the app that a verb is called on, or what is no app if there is none."""
    step = getattr(owner, "_step", None)
    return owner if step is None else step.app


def _udfs_of(app: Any) -> Mapping[str, Udf]:
    udfs: Mapping[str, Udf] = getattr(app, "udfs", {})
    return udfs


def _zone_of(app: Any) -> Zone:
    """Returns the zone that an app names. One that names none gets its session's later (`Plan.in_zone`)."""
    return getattr(app, "zone", None) or UTC


def _check(subject: str, parameter: str, place: Any, value: Any, kind: Kind) -> None:
    values = [(parameter, value)]
    if place is inspect.Parameter.VAR_POSITIONAL:
        values = [(parameter, each) for each in value]
    elif place is inspect.Parameter.VAR_KEYWORD:
        values = list(value.items())
    for name, given in values:
        if not kind.fits(given):
            raise PlanError(f"{subject} takes {kind.what} for '{name}'", f"got {_given(given)}", kind.instead(given))


def _subject(verb: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """Returns the name of the verb, and of the stream or the app that it is called on."""
    if verb.__name__ == "__init__":
        return type(arguments[0]).__name__
    owner = arguments[0] if arguments and "." in verb.__qualname__ else None
    name = getattr(getattr(owner, "_step", owner), "name", None)
    return verb.__name__ if name is None else f"{verb.__name__} on '{name}'"


def _shape(signature: inspect.Signature) -> str:
    """Returns the parameters without their types."""
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(inspect.Signature([p for p in parameters if p.name != "self"]))


def _given(value: Any) -> str:
    if value is None:
        return "None"
    if inspect.isroutine(value):
        return "a Python function"
    name = type(value).__name__
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    return f"{article} {name}" + (f", {shown(value)}" if isinstance(value, str | int | float) else "")


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_count(value: Any) -> bool:
    """Whether a value is a whole number; True is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_duration(value: Any) -> bool:
    return isinstance(value, str | int | float | timedelta) and not isinstance(value, bool)


def _is_schema(value: Any) -> bool:
    return isinstance(value, pa.Schema | str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list | tuple) and all(map(is_text, value)))


def _is_sets(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_texts, value))


def _is_join_key(value: Any) -> bool:
    if not isinstance(value, list | tuple):
        return isinstance(value, str)
    return all(isinstance(item, str) or (_is_texts(item) and len(item) == 2) for item in value)


def mapping_of(kind: Kind) -> Callable[[Any], bool]:
    """Returns a test for a mapping from names to values of a kind."""

    def fits(value: Any) -> bool:
        return isinstance(value, Mapping) and all(map(is_text, value)) and all(map(kind.fits, value.values()))

    return fits


def _as_text(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        return "Pass each one as an argument of its own: put * before the list."
    if callable(value) and not isinstance(value, type):
        return "For a Python function use map or flat_map."
    if type(value).__name__ == "Column":
        return "Write the expression of a Spark Column as text."
    return None


def _as_order(value: Any) -> str | None:
    is_list = isinstance(value, list | tuple)
    return 'Write each as text: by=["price DESC", "auction ASC"].' if is_list else _as_text(value)


def _unpacked(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        return "Pass each aggregate as an argument of its own: put * before the list."
    return "For an aggregate of your own in Python use stretto.UserAggregate." if callable(value) else None


def _as_map(value: Any) -> str | None:
    return "Write a function from a pyarrow RecordBatch to a RecordBatch." if isinstance(value, str) else None


EXPRESSION = Kind('a Spark SQL expression as text, such as "price > 10"', is_text, _as_text)
EXPRESSIONS = Kind(
    'a dict of expressions by the names of columns, such as {"twice": "2 * price"}', mapping_of(EXPRESSION)
)
AGGREGATES = Kind(
    'aggregates as text, such as "max(price)", or a stretto.UserAggregate',
    lambda value: isinstance(value, str | UserAggregate),
    _unpacked,
)
ORDERS = Kind('expressions to order by, such as "price DESC", or a list of them', _is_texts, _as_order)
COLUMNS = Kind('names of columns, such as "auction", or a list of them', _is_texts)
SETS = Kind('a list of lists of columns, such as [["auction", "bidder"], ["auction"], []]', _is_sets)
COLUMN = Kind('the name of a column, such as "price"', is_text)
TEXT = Kind("text", is_text)
NAMES = Kind('a dict from old to new names of columns, such as {"price": "amount"}', mapping_of(COLUMN))
COUNT = Kind("a whole number of at least 1", is_count)
NUMBER_OR_ZERO = Kind("a whole number of at least 0", is_count)
FLAG = Kind("True or False", lambda value: isinstance(value, bool))
DURATION = Kind('a duration, such as "10 seconds", a timedelta or a number of seconds', _is_duration)
SIZE = Kind('a size, such as "256 MB", or a number of bytes', lambda value: is_text(value) or is_count(value))
SCHEMA = Kind('a schema, such as "id bigint, name string", or a pyarrow Schema', _is_schema)
SCHEMAS = Kind("a dict of schemas by the names of outputs", mapping_of(SCHEMA))
WINDOW = Kind(
    "a window: tumbling(...), hopping(...), session(...) or span(...)",
    lambda value: isinstance(value, Tumbling | Hopping | Session | Span),
    lambda value: f"Write tumbling({shown(value)})." if _is_duration(value) else None,
)
JOIN_KEY = Kind('a column, a list of columns or of pairs, or text such as "id = auction"', _is_join_key)
JOIN_KIND = Kind('"inner", "left", "right", "full", "semi" or "anti"', is_text)


def _takes_nothing(value: Any) -> bool:
    """Whether it is a function that can be called without arguments."""
    try:
        inspect.signature(value).bind()
    except (TypeError, ValueError):
        return False
    return True


TABLE_DATA = Kind(
    "a DataFrame of Spark or pandas, a pyarrow Table, the path of Parquet files, or a function that returns a table",
    lambda value: (
        is_text(value)
        or _takes_nothing(value)
        or any(hasattr(value, name) for name in ("toArrow", "iloc", "to_batches", "__fspath__"))
    ),
    lambda value: "Write pyarrow.Table.from_pylist(rows)." if isinstance(value, list) else None,
)
FUNCTION = Kind("a Python function of a pyarrow RecordBatch", callable, _as_map)
PATH = Kind("a path as text or a pathlib.Path", lambda value: is_text(value) or hasattr(value, "__fspath__"))
OPTIONS = Kind("a dict of settings by their names", lambda value: isinstance(value, Mapping))
SESSION = Kind("a SparkSession", lambda value: hasattr(value, "sparkContext"))

_EVERYWHERE = {"name": Kind("a name as text", is_text).optional(), "parallelism": COUNT.optional()}
