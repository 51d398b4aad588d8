"""How much memory a function's state may take before it spills, and which functions can spill."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stretto.actors.function import Function
from stretto.errors import PlanError
from stretto.expressions import AggregateCall
from stretto.operators.user_aggregate import UserAggregate
from stretto.state import states_of

Size = str | int

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_TERM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)


def spill_of_function(function: Function, spill: Size | None) -> int | None:
    """Returns the memory of a user's function, set by its class or by the verb; None if it does not spill."""
    wanted = function.spill if spill is None else spill
    if wanted is None:
        return None
    name = type(function).__name__
    if not any(state.spills for state in states_of(function).values()):
        raise PlanError(f"'{name}' has no state that can spill", None, "Keep the state that grows in a MapState.")
    if function.reads_consolidated:
        raise PlanError(
            f"'{name}' cannot spill",
            "it sets reads_consolidated, so all its instances have the whole state in memory",
            "Remove spill or reads_consolidated.",
        )
    return size_bytes(wanted, f"the memory of '{name}'")


def spill_of_groups(calls: Sequence[AggregateCall | UserAggregate], spill: Size | None) -> int | None:
    """Returns the memory of a running aggregate; None if it does not spill."""
    if spill is None:
        return None
    for call in calls:
        if isinstance(call, UserAggregate) or call.is_distinct:
            raise PlanError(
                f"the aggregate '{call.name}' cannot spill",
                "its state of a group is not a row of columns",
                "Remove spill, or compute this aggregate in a step of its own.",
            )
    return size_bytes(spill, "the memory of a running aggregate")


def size_bytes(value: Size, what: str) -> int:
    """Returns the bytes of '256 MB', '1.5 GiB', '64k' or a number; a kilobyte has 1,024, as in Spark's settings."""
    amount = value
    if isinstance(amount, str):
        term = _TERM.fullmatch(amount)
        if term is None:
            raise PlanError(f"{what} cannot be read", repr(value), "Write it as '256 MB', or as a number of bytes.")
        amount = int(float(term.group(1)) * _UNITS[term.group(2).lower()])
    if amount <= 0:
        raise PlanError(f"{what} must be greater than zero", repr(value), "Write a size such as '256 MB'.")
    return amount
