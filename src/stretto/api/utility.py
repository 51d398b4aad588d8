"""Utility functions: what it is worth that a job attains so much of its objective (thesis 3.3).

They take what is attained: 1 where the objective is met, 0.5 at twice the latency or half the juice. They return the
share of the job's greatest utility, its priority. All are constant once the objective is met, since nobody is worth
more than what was promised.
"""

from __future__ import annotations

from collections.abc import Callable

from stretto.errors import PlanError

Utility = Callable[[float], float]

POINTS = 512
"""At how many steps between 0 and 1 a user's function is checked."""
ROUNDING = 1e-9


def knee(attained: float) -> float:
    """Returns what is attained (equations 3.1 and 3.2): in proportion below the objective, then a plateau."""
    return attained


def linear(attained: float) -> float:
    """Returns a straight line from nothing at half of the objective to everything at the objective."""
    return max(0.0, 2 * attained - 1)


def step(attained: float) -> float:
    """Returns everything where the objective is met, and nothing below."""
    return 1.0 if attained >= 1 else 0.0


UTILITIES: dict[str, Utility] = {"knee": knee, "linear": linear, "step": step}


def checked_utility(chosen: str | Utility) -> tuple[str, Utility]:
    """Returns the name of a utility function and the function itself. Refuses a user's own that is not monotonic, with
    the two points that show it, or that is not a share of the greatest utility."""
    if isinstance(chosen, str):
        if chosen not in UTILITIES:
            known = ", ".join(f'"{name}"' for name in UTILITIES)
            raise PlanError("there is no such utility function", repr(chosen), f"Use one of {known}, or a function.")
        return chosen, UTILITIES[chosen]
    if not callable(chosen):
        raise PlanError("a utility is a name or a function", repr(chosen), 'Use "knee", or a function of one number.')
    name = getattr(chosen, "__name__", type(chosen).__name__)
    _check_shape(name, chosen)
    return name, chosen


def _check_shape(name: str, chosen: Utility) -> None:
    before = (0.0, _value(name, chosen, 0.0))
    for place in range(1, POINTS + 1):
        here = (place / POINTS, _value(name, chosen, place / POINTS))
        if here[1] < before[1] - ROUNDING:
            raise PlanError(
                "a utility function is not monotonic",
                f"{name}({before[0]:.6g}) = {before[1]:.6g}, but {name}({here[0]:.6g}) = {here[1]:.6g}",
                "The more of the objective is attained, the greater the utility must be.",
            )
        before = here
    if abs(before[1] - 1) > ROUNDING:
        raise PlanError(
            "a utility function does not reach 1 where the objective is met",
            f"{name}(1) = {before[1]:.6g}",
            "It returns the share of the job's priority; use the priority to make a job worth more.",
        )


def _value(name: str, chosen: Utility, attained: float) -> float:
    try:
        found = float(chosen(attained))
    except Exception as error:
        raise PlanError(
            "a utility function cannot be computed",
            f"{name}({attained:.6g}) raised {type(error).__name__}: {error}",
            "It gets a number from 0 to 1, and returns one from 0 to 1.",
        ) from error
    if not -ROUNDING <= found <= 1 + ROUNDING:  # Also refuses NaN.
        raise PlanError(
            "a utility function is out of range",
            f"{name}({attained:.6g}) = {found:.6g}",
            "It returns the share of the job's priority: a number from 0 to 1.",
        )
    return found
