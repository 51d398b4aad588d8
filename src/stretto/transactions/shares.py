"""Acknowledgement shares (styx.txt 6.2): exact fractions by which a root knows that its whole transaction has ended.

The shares of all invocations that run, of all that are under way and of all that have ended add up to 1 at any moment:
a share is only ever divided or given back whole. So the root has 1 exactly if nothing runs and nothing is under way.
"""

from __future__ import annotations

from fractions import Fraction

WHOLE = Fraction(1)
NOTHING = Fraction(0)


def divided(share: Fraction, calls: int, goes_on: bool) -> tuple[list[Fraction], Fraction]:
    """Returns the shares of so many calls, and what is left for the caller: a part like theirs if it goes on; nothing
    if it has ended, unless it made no call."""
    if calls == 0:
        return [], share
    part = share / (calls + goes_on)
    return [part] * calls, part if goes_on else NOTHING


def written(share: Fraction) -> str:
    """Returns the share as it is sent. It may have more digits than a machine integer."""
    return f"{share.numerator}/{share.denominator}"
