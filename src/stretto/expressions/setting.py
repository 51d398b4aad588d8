"""What an expression is compiled with besides its text and its schema: the app's functions and the session's zone.

A compiled expression keeps its setting, because it is compiled again from its text in the process that it is sent to,
and when a plan is bound to the zone of a session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from stretto.expressions.udf import Udf, knowing, known_udfs
from stretto.expressions.zones import in_zone, session_zone, zone_named


@dataclass(frozen=True, slots=True)
class Setting:
    """The functions that are known by name, and the name of the time zone."""

    udfs: Mapping[str, Udf] = field(default_factory=dict)
    zone: str = "UTC"

    @staticmethod
    def here() -> Setting:
        """Returns the setting of what is compiled at this place."""
        return Setting(known_udfs(), session_zone().name)


def compiled_again(setting: Setting, compiled: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Returns an expression from its text, in its setting."""
    with knowing(setting.udfs), in_zone(zone_named(setting.zone)):
        return compiled(*arguments)


class Compiled:
    """What is made of texts, and made again in another process or another zone."""

    __slots__ = ()
    setting: Setting

    def recipe(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Returns a function and its arguments that make the same again."""
        raise NotImplementedError

    def in_zone(self, zone: str) -> Any:
        """Returns the same in another time zone."""
        if zone == self.setting.zone:
            return self
        return compiled_again(replace(self.setting, zone=zone), *self.recipe())

    def __reduce__(self) -> tuple[Any, ...]:
        return compiled_again, (self.setting, *self.recipe())


def bound_to_zone(thing: Any, zone: str) -> Any:
    """Returns a thing with the expressions in it, and in its parts, bound to a zone; itself if it has none."""
    if isinstance(thing, tuple):
        return tuple(bound_to_zone(part, zone) for part in thing)
    if callable(bind := getattr(thing, "in_zone", None)) and not isinstance(thing, type):
        return bind(zone)
    if not is_dataclass(thing) or isinstance(thing, type):
        return thing
    parts = {part.name: getattr(thing, part.name) for part in fields(thing) if part.init}
    bound = {name: bound_to_zone(part, zone) for name, part in parts.items()}
    changed = {name: part for name, part in bound.items() if part is not parts[name] and part != parts[name]}
    return replace(thing, **changed) if changed else thing
