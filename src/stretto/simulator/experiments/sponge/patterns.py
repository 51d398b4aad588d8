"""When events arrive: a stable load, a burst of some form, and the stable load again (sponge.txt figure 9)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SECOND_NS = 1_000_000_000
GRID_S = 0.01
FORMS = ("sudden", "sine", "gradual")


@dataclass(frozen=True)
class Pattern:
    """A burst: `times` the stable rate at its peak, for `burst_s` seconds after `before_s`. The rate jumps (`sudden`),
    or rises and falls like half a wave (`sine`), or rises evenly until it ends (`gradual`)."""

    form: str = "sudden"
    times: float = 5.0
    before_s: float = 65.0
    burst_s: float = 60.0
    after_s: float = 60.0

    @property
    def seconds(self) -> float:
        return self.before_s + self.burst_s + self.after_s

    def at(self, second: float) -> float:
        """Returns the rate at a moment, by the stable one."""
        part = (second - self.before_s) / self.burst_s
        if not 0 <= part < 1:
            return 1.0
        shape = {"sudden": 1.0, "sine": math.sin(math.pi * part), "gradual": part}[self.form]
        return 1.0 + (self.times - 1.0) * shape

    def phase(self, second: float) -> str:
        """Returns whether a moment is before, during or after the burst."""
        if second < self.before_s:
            return "before"
        return "during" if second < self.before_s + self.burst_s else "after"


class Arrivals:
    """When each row of each source arrives: `rows_per_s` in all while the load is stable, evenly."""

    def __init__(self, pattern: Pattern, rows_per_s: float, sources: int, begins_ns: int) -> None:
        grid = np.arange(0.0, pattern.seconds + GRID_S, GRID_S)
        rates = np.array([pattern.at(second) for second in grid[:-1]]) * rows_per_s
        come = np.concatenate([[0.0], np.cumsum(rates * GRID_S)])
        numbers = np.arange(int(come[-1]))
        self._due_ns = begins_ns + (np.interp(numbers, come, grid) * SECOND_NS).astype(np.int64)
        self.sources = sources

    def __deepcopy__(self, memo: dict[int, object]) -> Arrivals:
        return self

    def of(self, source: int) -> npt.NDArray[np.int64]:
        """Returns the moments of one source, in order."""
        found: npt.NDArray[np.int64] = self._due_ns[source :: self.sources]
        return found
