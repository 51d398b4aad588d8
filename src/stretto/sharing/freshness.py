"""How old what is read of a shared object may be."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from stretto.errors import PlanError

_UNITS_MS = {"ms": 1.0, "s": 1_000.0, "second": 1_000.0, "seconds": 1_000.0, "minute": 60_000.0, "minutes": 60_000.0}
_UNITS_MS |= {"millisecond": 1.0, "milliseconds": 1.0, "hour": 3_600_000.0, "hours": 3_600_000.0}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")


class Mode(Enum):
    """The rules by which a cached object may be used."""

    ALWAYS = "always"
    WITHIN = "within"
    UNTIL_WRITTEN = "until written"


@dataclass(frozen=True, slots=True)
class Freshness:
    """What a read promises: see `docs/shared-objects.md`."""

    mode: Mode
    age_ns: int = 0

    def allows(self, asked_ns: int, taken_ns: int) -> bool:
        """Whether a batch that was taken up at `taken_ns` may see what was asked for at `asked_ns`."""
        return self.mode is Mode.UNTIL_WRITTEN or asked_ns >= taken_ns - self.age_ns

    @property
    def drops_written(self) -> bool:
        """Whether a write on this worker makes it forget its copy."""
        return self.mode is Mode.UNTIL_WRITTEN


def freshness(text: str) -> Freshness:
    """Returns the freshness that a text says: "always", "until written", or an age such as "200 ms"."""
    if text == Mode.ALWAYS.value:
        return Freshness(Mode.ALWAYS)
    if text == Mode.UNTIL_WRITTEN.value:
        return Freshness(Mode.UNTIL_WRITTEN)
    return Freshness(Mode.WITHIN, duration_ns(text, "the freshness of shared objects"))


def duration_ns(text: str, what: str) -> int:
    """Returns a duration in nanoseconds."""
    found = _DURATION.fullmatch(text)
    if found is None or found[2] not in _UNITS_MS:
        raise PlanError(
            f"{what} is not known", repr(text), 'Write "always", "until written", or a duration such as "200 ms".'
        )
    return int(float(found[1]) * _UNITS_MS[found[2]] * 1e6)
