"""The formats that SQL names after USING: what sources, sinks and tables they make of their options."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from stretto import sinks, sources
from stretto.actors.sink import Sink
from stretto.actors.source import Source
from stretto.errors import PlanError, StrettoError
from stretto.expressions.udf import Udf
from stretto.rendering import error_text
from stretto.runtime.table_data import table_data

_SOURCES: dict[str, Callable[..., Source]] = {
    "parquet": sources.parquet,
    "jsonl": sources.jsonl,
    "json": sources.jsonl,
    "csv": sources.csv,
    "arrow": sources.arrow,
    "files": sources.files,
    "watch": sources.watch,
}
_SINKS: dict[str, Callable[..., Sink]] = {
    "collect": sinks.collect,
    "memory": sinks.collect,
    "console": sinks.console,
    "print": sinks.console,
    "null": sinks.null,
    "blackhole": sinks.null,
    "parquet": sinks.parquet,
    "jsonl": sinks.jsonl,
    "json": sinks.jsonl,
    "csv": sinks.csv,
}
_FURTHER = {"nexmark": "stretto.bench.nexmark.sql_source:nexmark"}
"""Formats of rooms above this one, which are loaded when they are named."""
_PATHS = {"path": ("path", "directory"), "directory": ("directory", "path")}


class ShippedFormats:
    """The formats that stretto has, and a user's own as 'module:function', called with the options as arguments."""

    def source(
        self, format: str, options: Mapping[str, str], schema: pa.Schema | None, columns: Sequence[str] | None
    ) -> Source:
        make = _SOURCES.get(format.lower()) or _loaded(_FURTHER.get(format.lower(), format), _SOURCES, "source")
        further = {"schema": schema} if schema is not None else {}
        if columns is not None and "columns" in inspect.signature(make).parameters:
            further["columns"] = columns
        made = _called(make, format, options, further)
        if not isinstance(made, Source):
            raise PlanError(f"the format {format} makes no source", f"it made a {type(made).__name__}", None)
        return made

    def sink(self, format: str, options: Mapping[str, str], partition_by: Sequence[str]) -> Sink:
        make = _SINKS.get(format.lower()) or _loaded(format, _SINKS, "sink")
        made = _called(make, format, options, {"partition_by": list(partition_by)} if partition_by else {})
        if not isinstance(made, Sink):
            raise PlanError(f"the format {format} makes no sink", f"it made a {type(made).__name__}", None)
        return made

    def table(self, format: str, options: Mapping[str, str]) -> tuple[Any, pa.Table]:
        if format.lower() != "parquet" or set(options) != {"path"}:
            raise PlanError(
                f"a table beside streams cannot be stored as {format}",
                f"with the options {', '.join(options) or '()'}",
                "Write USING parquet OPTIONS (path = '...'), or FROM STREAM to read it as a stream.",
            )
        return options["path"], table_data("table", options["path"])

    def reads(self, format: str) -> bool:
        return format.lower() in _SOURCES or format.lower() in _FURTHER or ":" in format

    def function(self, target: str) -> Udf:
        found = _loaded(target, {}, "function")
        if not isinstance(found, Udf):
            raise PlanError(
                f"'{target}' is not a function for expressions", None, 'Declare it with @stretto.udf("type").'
            )
        return found


def _loaded(target: str, known: Mapping[str, Any], what: str) -> Any:
    module, _, name = target.partition(":")
    if not name:
        raise PlanError(
            f"there is no format {target} of a {what}",
            f"there are {', '.join([*known, *_FURTHER])}",
            "Or name 'module:function'.",
        )
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise PlanError(
            f"'{target}' cannot be imported", error_text(error), "Write it as 'module:function'."
        ) from error


def _called(make: Callable[..., Any], format: str, options: Mapping[str, str], further: Mapping[str, Any]) -> Any:
    parameters = inspect.signature(make).parameters
    arguments: dict[str, Any] = dict(further)
    for name, value in options.items():
        place = next((each for each in _PATHS.get(name, (name,)) if each in parameters), None)
        if place is None:
            known = ", ".join(each for each in parameters if each not in ("schema", "columns"))
            raise PlanError(f"the format {format} has no option {name}", f"it has {known or 'none'}", "Leave it out.")
        arguments[place] = _value(value)
    unknown = [name for name in further if name not in parameters]
    if unknown:
        raise PlanError(f"the format {format} takes no {unknown[0].replace('_', ' ')}", None, "Leave it out.")
    missing = [n for n, p in parameters.items() if p.default is inspect.Parameter.empty and n not in arguments]
    if missing:
        raise PlanError(f"the format {format} needs {missing[0]}", None, f"Write OPTIONS ({missing[0]} = '...').")
    try:
        return make(**arguments)
    except StrettoError:
        raise
    except Exception as error:
        raise PlanError(f"the format {format} cannot be made", error_text(error), "See its options.") from error


def _value(text: str) -> Any:
    """Returns an option as what it looks like: a number, or a text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


FORMATS = ShippedFormats()
