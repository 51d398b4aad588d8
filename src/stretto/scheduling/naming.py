"""Policies, strategies and controllers by their names, and a user's own by `module:Class`."""

from __future__ import annotations

import importlib
from typing import Any, TypeVar

from stretto.errors import UserError

T = TypeVar("T")


def named(name: str, known: dict[str, Any], base: type[T], what: str) -> T:
    """What goes by this name, made with its defaults; or a UserError that says what to write."""
    if name in known:
        made: T = known[name]()
        return made
    module_name, _, class_name = name.partition(":")
    if not class_name:
        raise UserError(f"there is no {what} '{name}'", None, f"Choose {', '.join(known)}, or name a module:Class.")
    try:
        found: Any = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{what} '{name}' cannot be imported", str(error), "Write it as module:Class.") from error
    if not (isinstance(found, type) and issubclass(found, base)):
        room = ".".join(base.__module__.split(".")[:2])
        raise UserError(f"'{name}' is not a {what}", None, f"Subclass {room}.{base.__name__}.")
    try:
        return found()
    except TypeError as error:
        raise UserError(f"{what} '{name}' cannot be made", str(error), "Give its arguments defaults.") from error
