"""Figures over time in bounded memory: fine for the last minutes, coarse for an hour."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FINE_S = 1.0
FINE_KEPT = 300
COARSE_S = 10.0
COARSE_KEPT = 360
"""Five minutes by the second, and an hour by ten seconds."""
FIRST_ROWS = 32
_PER_VALUE = 4
_PER_TIME = 8

Values = npt.NDArray[np.float32]
Times = npt.NDArray[np.float64]


class Ring:
    """The last rows of so many columns, each with its time. It takes memory as it fills, up to its bound."""

    __slots__ = ("_added", "_kept", "_times", "_values")

    def __init__(self, kept: int, columns: int) -> None:
        self._kept = kept
        rows = min(kept, FIRST_ROWS)
        self._times: Times = np.zeros(rows, np.float64)
        self._values: Values = np.zeros((rows, columns), np.float32)
        self._added = 0

    def add(self, time_s: float, row: npt.ArrayLike) -> None:
        if self._added == len(self._times) < self._kept:
            more = min(self._kept, 2 * len(self._times)) - len(self._times)
            self._times = np.concatenate([self._times, np.zeros(more, np.float64)])
            self._values = np.concatenate([self._values, np.zeros((more, self._values.shape[1]), np.float32)])
        place = self._added % self._kept
        self._times[place] = time_s
        self._values[place] = row
        self._added += 1

    def rows(self) -> tuple[Times, Values]:
        """Returns the times and the rows, the oldest first."""
        if self._added <= len(self._times):
            return self._times[: self._added], self._values[: self._added]
        first = self._added % self._kept
        order = np.r_[first : self._kept, 0:first]
        return self._times[order], self._values[order]

    def __len__(self) -> int:
        return min(self._added, self._kept)


class Series:
    """Columns over time by their names. Coarse rows are the means of the fine ones, and of columns that count
    something in `sums` their sums; what is not a number is left out."""

    __slots__ = ("_coarse", "_coarse_from_s", "_fine", "_gathered", "_is_sum", "_last_s", "names")

    def __init__(self, names: Sequence[str], sums: Sequence[str] = ()) -> None:
        self.names = tuple(names)
        self._is_sum = np.array([name in sums for name in names])
        self._fine = Ring(FINE_KEPT, len(self.names))
        self._coarse = Ring(COARSE_KEPT, len(self.names))
        self._gathered: list[npt.NDArray[np.float32]] = []
        self._coarse_from_s = 0.0
        self._last_s = -np.inf

    @staticmethod
    def bytes_max(columns: int) -> int:
        """Returns how much memory the figures of one series take at most."""
        return (FINE_KEPT + COARSE_KEPT) * (columns * _PER_VALUE + _PER_TIME)

    def add(self, time_s: float, row: Sequence[float]) -> None:
        """Adds a row; one that is not later than the last is left out."""
        if time_s <= self._last_s:
            return
        self._last_s = time_s
        if self._gathered and time_s - self._coarse_from_s >= COARSE_S:
            self._gather()
        if not self._gathered:
            self._coarse_from_s = time_s
        values = np.array(row, np.float32)
        self._gathered.append(values)
        self._fine.add(time_s, values)

    def _gather(self) -> None:
        rows = np.stack(self._gathered)
        known = ~np.isnan(rows)
        sums = np.where(known, rows, 0).sum(axis=0)
        counts = known.sum(axis=0)
        means = sums / np.maximum(1, counts)
        row = np.where(counts == 0, np.nan, np.where(self._is_sum, sums, means))
        self._coarse.add(self._coarse_from_s, row)
        self._gathered = []

    def rows(self, since_s: float = -np.inf) -> tuple[Times, Values]:
        """Returns the rows after a time: coarse ones, and fine ones from where these begin."""
        fine_times, fine = self._fine.rows()
        coarse_times, coarse = self._coarse.rows()
        if len(fine_times):
            older = coarse_times + COARSE_S <= fine_times[0]
            fine_times = np.concatenate([coarse_times[older], fine_times])
            fine = np.concatenate([coarse[older], fine])
        later = fine_times > since_s
        return fine_times[later], fine[later]

    def over_all(self) -> Values:
        """Returns the coarse rows of the hour, and the fine ones that are in none of them yet, as one table of which
        sums can be taken."""
        _, coarse = self._coarse.rows()
        return np.concatenate([coarse, *(row[None] for row in self._gathered)]) if self._gathered else coarse

    def last(self, name: str) -> float:
        """Returns the last value of a column; not a number before the first."""
        _, rows = self._fine.rows()
        return float(rows[-1, self.names.index(name)]) if len(rows) else float("nan")

    def plain(self, since_s: float = -np.inf) -> dict[str, list[float | None]]:
        """Returns plain data for JSON: the times in seconds, and each column; null where it is not a number."""
        times, rows = self.rows(since_s)
        found: dict[str, list[float | None]] = {"t": [round(float(time), 3) for time in times]}
        for place, name in enumerate(self.names):
            found[name] = [plain_number(float(value)) for value in rows[:, place]]
        return found


def plain_number(value: float | None) -> float | None:
    """Returns a number for JSON with six digits at most, since more say nothing; null for what JSON does not have."""
    if value is None or not np.isfinite(value):
        return None
    return float(f"{value:.6g}")
