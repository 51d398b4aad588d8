"""What the controller of bursts remembers of a job: what its rows cost, how many arrive, and what has piled up.

The rate of arrivals is that of the sources' events by the times of their arrival, so that it is known also while
sources are held back: one that reads a second's events in five seconds has a fifth of the throughput that it needs.
"""

from __future__ import annotations

from collections.abc import Mapping

from stretto.elasticity.burst_view import FunctionLoad, JobLoad, SourceRead
from stretto.elasticity.offloading import Sample, events_in_queue, rate_per_core

WEIGHT = 0.2
"""Of a new measurement in the averages."""
CALM_S = 0.1
"""Events that waited less than this are no queue."""
KEEPS_UP = 0.9
"""A job that processes this share of what arrives keeps up with it."""
ROWS_MIN = 1.0
STEADY_LOOKS = 3
"""Rates are those of the last second: they are of one load if it did not change for longer."""
AWAY_MIN = 2.0
"""From so much work on transient workers on, it is known how fast they are."""
SAMPLES_MAX = 2_400
"""Twenty minutes; the queue of a longer one is that of its last part."""


class Remembered:
    """One job. Call `look` once per observation."""

    def __init__(self) -> None:
        self.arriving = 0.0
        """Events per second that arrive at the sources (r)."""
        self.processed = 0.0
        """Events per second that are processed (m), by the work that is done."""
        self.rho = 1.0
        """What a transient core does, by what an ordinary one does."""
        self.is_paced = False
        """Whether sources wait for events, or the reverse. Those that read as fast as they may have no burst."""
        self._steady_looks = 0
        self._away = self._same_at_home = 0.0
        """What was done on transient workers, and what it would have cost on ordinary ones."""
        self._row_cost: dict[str, float] = {}
        """Core seconds per row of each function, at home."""
        self._gain: dict[str, float] = {}
        """Rows of each function per event of the sources."""
        self._sources: dict[tuple[str, int], SourceRead] = {}
        self._rates: dict[tuple[str, int], float] = {}
        self._samples: list[Sample] = []

    def inherit(self, other: Remembered) -> None:
        """Takes what rows cost from the attempt before."""
        self.rho, self.is_paced = other.rho, other.is_paced
        self._row_cost, self._gain = dict(other._row_cost), dict(other._gain)

    def look(self, load: JobLoad, now_ns: int) -> None:
        """Takes what is seen now."""
        before, self.arriving = self.arriving, self._arriving(load)
        is_steady = abs(self.arriving - before) <= (1 - KEEPS_UP) * self.arriving and load.behind_s < CALM_S
        self._steady_looks = self._steady_looks + 1 if is_steady else 0
        self.is_paced = any(each.was_idle or each.behind_s > 0 for each in load.sources.values())
        self._learn(load)
        per_event = self.cost_per_event()
        work = sum(each.at_home + self.rho * each.away for each in load.functions.values())
        self.processed = work * rate_per_core(1.0, per_event) if per_event else self.arriving
        keeps_up = self.processed >= KEEPS_UP * self.arriving
        if load.behind_s < CALM_S and keeps_up:
            self._samples = []
        self._samples = self._samples[1 - SAMPLES_MAX :]
        self._samples.append(Sample(now_ns / 1e9, self.arriving, self.processed))

    @property
    def queued(self) -> float:
        """Events that have arrived and are not processed."""
        return events_in_queue(self._samples)

    def cost_per_event(self) -> float:
        """Returns the core seconds that an event costs with all that follows from it; equation (2) has its inverse."""
        return sum(self.cost_of(name) for name in self._row_cost)

    def cost_of(self, function: str) -> float:
        """Returns the core seconds that an event costs in one function."""
        return self._row_cost.get(function, 0.0) * self._gain.get(function, 0.0)

    def _arriving(self, load: JobLoad) -> float:
        rates: dict[tuple[str, int], float] = {}
        for place, read in load.sources.items():
            before = self._sources.get(place)
            last = self._rates.get(place, 0.0)
            if before is None or read.rows < before.rows:
                rates[place] = last
            elif read.rows == before.rows:
                # It has nothing to read, or it may not read.
                rates[place] = last if read.behind_s >= CALM_S else 0.0
            else:
                elapsed_s = (read.arrived_ns - before.arrived_ns) / 1e9
                rates[place] = (read.rows - before.rows) / elapsed_s if elapsed_s > 0 else last
        self._sources, self._rates = dict(load.sources), rates
        return sum(rates.values())

    def _learn(self, load: JobLoad) -> None:
        # While more is read than processed, or the reverse, rows of functions do not follow from those of sources.
        is_even = self._steady_looks >= STEADY_LOOKS
        for name, function in load.functions.items():
            if function.rows_home_per_s >= ROWS_MIN and function.home:
                self._average(self._row_cost, name, function.at_home / function.rows_home_per_s)
            if load.read_per_s >= ROWS_MIN and (is_even or name not in self._gain):
                self._average(self._gain, name, function.rows_per_s / load.read_per_s)
        self._learn_rho(load.functions)

    def _learn_rho(self, functions: Mapping[str, FunctionLoad]) -> None:
        """Compares what rows cost on both kinds of workers."""
        away = sum(each.away for each in functions.values())
        same_at_home = sum(
            self._row_cost.get(name, 0.0) * each.rows_away_per_s for name, each in functions.items() if each.away
        )
        # The sums of many looks: results of batches are counted later than the work on them.
        kept = 1 - WEIGHT / 4
        self._away, self._same_at_home = kept * self._away + away, kept * self._same_at_home + same_at_home
        if self._away > AWAY_MIN and self._same_at_home > 0:
            self.rho = self._same_at_home / self._away

    @staticmethod
    def _average(known: dict[str, float], name: str, value: float) -> None:
        known[name] = known[name] + WEIGHT * (value - known[name]) if name in known else value
