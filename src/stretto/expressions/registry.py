"""How a module of functions declares them: by name, with the number of arguments and the builder of each.

A module has its own table `FUNCTIONS`; `functions.py` unites them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stretto.expressions.nodes import Node

Build = Callable[..., Node]
"""Called with the site and the arguments; returns the typed node."""
MANY = 1_000
"""As many arguments as one likes."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function: its builder, and the least and the greatest number of arguments."""

    build: Build
    least: int
    most: int

    @property
    def counts(self) -> str:
        """The number of arguments in words."""
        if self.most == MANY:
            return f"at least {self.least} argument(s)"
        if self.least == self.most:
            return f"{self.least} argument(s)"
        return f"{self.least} to {self.most} arguments"


def fixed(build: Build, count: int) -> Function:
    """Returns a function of exactly so many arguments."""
    return Function(build, count, count)


def with_aliases(functions: dict[str, Function], **aliases: str) -> dict[str, Function]:
    """Returns the functions with other names for some of them."""
    return {**functions, **{alias: functions[name] for alias, name in aliases.items()}}
