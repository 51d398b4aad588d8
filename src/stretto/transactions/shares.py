"""Acknowledgement shares (styx.txt 6.2): by them a root knows that its whole transaction has ended. Exact, and cheap.

The shares of all workers on which a transaction runs, and of all calls that are under way between them, add up to 1 at
any moment: a share is only ever halved or given back. So the root's worker has 1 exactly if nothing runs elsewhere and
nothing is under way. What differs from the paper:

- A share is 2^-n, and n is what is sent. A fraction like 1/3 has a sum that must be reduced each time; a sum of powers
  of two is a set of different n, and adding one to it is a carry.
- A share belongs to a worker, not to a call. What a transaction calls on its own worker is counted there (`Part.live`),
  and a worker gives its shares back when nothing of the transaction runs on it any more.
"""

from __future__ import annotations

from collections.abc import Iterable

WHOLE = 0
"""The share 2^-0."""


class Shares:
    """A sum of shares: the different n of its terms 2^-n, which are the digits 1 of the sum in binary."""

    __slots__ = ("_digits",)

    def __init__(self, shares: Iterable[int] = ()) -> None:
        self._digits: set[int] = set()
        for share in shares:
            self.add(share)

    def add(self, share: int) -> None:
        digits = self._digits
        while share in digits:
            digits.remove(share)
            share -= 1
        digits.add(share)

    def halve(self) -> int:
        """Returns a share that is given away: half of the largest one, the other half of which stays."""
        digits = self._digits
        half = min(digits) + 1
        digits.remove(half - 1)
        self.add(half)
        return half

    def take(self) -> list[int]:
        """Returns all of it. Nothing is left."""
        taken = sorted(self._digits)
        self._digits.clear()
        return taken

    @property
    def is_whole(self) -> bool:
        return WHOLE in self._digits

    @property
    def is_too_much(self) -> bool:
        """Whether it is more than 1, which no share of one transaction can be."""
        return min(self._digits, default=WHOLE) < WHOLE or (len(self._digits) > 1 and WHOLE in self._digits)
