"""What statements say of the whole app: its objective, its engine, its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stretto.api.app import App
from stretto.api.engines import Engine
from stretto.api.slo import SLO, objective
from stretto.errors import PlanError
from stretto.expressions.zones import zone_named
from stretto.sql.script import Script

_NUMBERS = ("percentile", "throughput", "priority", "share")
_KNOWN = ("latency", *_NUMBERS)


class Objectives:
    """The objective that is collected from the options of statements; they must agree, since an app has one."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._found: dict[str, tuple[str, int]] = {}

    def add(self, options: Mapping[str, str], start: int) -> None:
        for name, value in options.items():
            if name not in _KNOWN:
                raise self._script.error(start, f"a query has no option {name}", f"It has {', '.join(_KNOWN)}.")
            if self._found.setdefault(name, (value, start))[0] != value:
                raise self._script.error(
                    start,
                    f"two objectives for the {name}: {self._found[name][0]} and {value}",
                    "An app has one objective: write two apps.",
                )

    def set(self, app: App) -> None:
        """Gives the app its objective, if there is one in the text."""
        if not self._found:
            return
        start = min(start for _, start in self._found.values())
        with self._script.at(start):
            if app.slo != SLO():
                raise PlanError("the app has an objective already", app.slo.describe(), "Leave out slo=.")
            given: dict[str, Any] = {
                name: _number(name, value) if name in _NUMBERS else value for name, (value, _) in self._found.items()
            }
            app.slo = objective(**given)


def apply_setting(app: App, name: str, value: str) -> None:
    """Sets an option of the app, as App(...) takes it."""
    match name:
        case "name" | "app" | "app.name":
            app.name = value
        case "engine":
            app.engine = Engine.named(value)
        case "timezone" | "spark.sql.session.timezone":
            app.zone = zone_named(value)
        case "parallelism":
            app.parallelism = _whole(name, value)
        case "batch_rows":
            app.batch_rows = _whole(name, value)
        case _:
            raise PlanError(
                f"there is no setting {name}",
                None,
                f"There are name, engine, timezone, parallelism, batch_rows, {', '.join(_KNOWN)}.",
            )


def _whole(name: str, value: str) -> int:
    if not value.isdigit() or int(value) < 1:
        raise PlanError(f"{name} must be a whole number from 1 on", f"it is {value!r}", None)
    return int(value)


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise PlanError(f"{name} must be a number", f"it is {value!r}", None) from None
