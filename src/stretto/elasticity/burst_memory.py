"""What the controller of bursts remembers of a job: what its rows cost, how many arrive, and what has piled up.

The rate of arrivals is that of the sources' events by the times of their arrival, so that it is known also while
sources are held back: one that reads a second's events in five seconds has a fifth of the throughput that it needs.
"""

from __future__ import annotations

from collections.abc import Mapping

from stretto.elasticity.burst_view import FunctionLoad, JobLoad, SourceRead
from stretto.elasticity.offloading import Sample, events_in_queue, rate_per_core

WEIGHT = 0.1
"""Of a new measurement in the averages."""
CALM_S = 0.1
"""Events that waited less than this are no queue ..."""
CALM_TIMES = 3.0
"""... and neither are those that waited less than so many times as long as usual, as they do on a busy machine."""
KEEPS_UP = 0.9
"""A job that processes this share of what arrives keeps up with it."""
ROWS_MIN = 1.0
SECOND_NS = 1_000_000_000
STEADY_NS = 5 * SECOND_NS // 4
"""Rates are those of the last second: they are of one load if it did not change for longer."""
AWAY_SHARE_MIN = 0.25
"""What handling rows costs at home is known while at least this share runs elsewhere: it is what is left when the work
on rows at home is taken away, and of few rows it would be what that is wrong by."""
AWAY_CORES_MIN = 2.0
"""So many transient cores must be busy for a look to count in how fast they are ..."""
AWAY_MIN = 4.0
"""... and from so much work there on, it is known."""
SAMPLES_MAX = 4_800
"""Twenty minutes; the queue of a longer one is that of its last part."""


class Remembered:
    """One job. Call `look` once per observation."""

    def __init__(self) -> None:
        self.arriving = 0.0
        """Events per second that arrive at the sources (r), since the last look."""
        self.usual = 0.0
        """The same over a second, where sources are in time: with few events, looks differ by much."""
        self.processed = 0.0
        """Events per second that are processed (m), by the work that is done."""
        self.rho = 1.0
        """What a transient core does, by what an ordinary one does."""
        self.is_paced = False
        """Whether sources wait for events, or the reverse. Those that read as fast as they may have no burst."""
        self._steady_ns: int | None = None
        """Since when the load is the same."""
        self._away_ns: int | None = None
        """Since when the same transient workers have batches."""
        self._members: tuple[str, ...] = ()
        self._away = self._same_at_home = 0.0
        """What was done on transient workers, and what it would have cost on ordinary ones."""
        self._row_cost: dict[str, float] = {}
        """Core seconds per row of each function that runs at home."""
        self._handling: dict[str, float] = {}
        """Core seconds per row at home of each function whose rows run elsewhere: to read, divide and merge."""
        self._usual_s = 0.0
        """How late sources usually are."""
        self._waiting = 0.0
        self._gain: dict[str, float] = {}
        """Rows of each function per event of the sources."""
        self._measured: set[str] = set()
        """Functions whose gain was measured under an even load; until then it is that of all rows so far."""
        self._sources: dict[tuple[str, int], SourceRead] = {}
        self._rates: dict[tuple[str, int], float] = {}
        self._looked_ns = 0
        self._samples: list[Sample] = []

    def inherit(self, other: Remembered) -> None:
        """Takes what rows cost from the attempt before."""
        self.rho, self.is_paced = other.rho, other.is_paced
        self._row_cost, self._gain = dict(other._row_cost), dict(other._gain)
        self._handling, self._usual_s, self._measured = dict(other._handling), other._usual_s, set(other._measured)

    def look(self, load: JobLoad, now_ns: int) -> None:
        """Takes what is seen now."""
        before, self.arriving = self.arriving, self._arriving(load, now_ns)
        is_late = load.behind_s > self._calm_s
        self.usual = self.arriving if is_late else load.read_per_s
        self._waiting = self.arriving * load.behind_s + self._inside(load)
        is_same = abs(self.arriving - before) <= (1 - KEEPS_UP) * self.arriving
        is_steady = is_same and not is_late and self._waiting <= self.arriving * self._calm_s
        self._steady_ns = (self._steady_ns or now_ns) if is_steady else None
        self._away_ns = self._away_ns if load.away == self._members else now_ns
        self._members = load.away
        self.is_paced = any(each.was_idle or each.behind_s > 0 for each in load.sources.values())
        self._learn(load, now_ns)
        per_event = self.cost_per_event()
        self.processed = self._work(load) * rate_per_core(1.0, per_event) if per_event else self.arriving
        keeps_up = self.processed >= KEEPS_UP * self.arriving
        if keeps_up and not load.redirected:
            self._usual_s += WEIGHT * (min(load.behind_s, 2 * self._calm_s) - self._usual_s)
        if keeps_up and not is_late:
            self._samples = []
        self._samples = self._samples[1 - SAMPLES_MAX :]
        self._samples.append(Sample(now_ns / 1e9, self.arriving, self.processed))

    @property
    def _calm_s(self) -> float:
        return max(CALM_S, CALM_TIMES * self._usual_s)

    def _work(self, load: JobLoad) -> float:
        """Returns the ordinary cores that rows kept busy, or would have, had all of them run at home."""
        return sum(
            each.at_home - self.handling_of_row(each.name) * each.rows_away_per_s + self.rho * each.away
            for each in load.functions.values()
        )

    def _inside(self, load: JobLoad) -> float:
        """Returns how many events wait between functions."""
        return sum(
            each.rows_waiting / gain for each in load.functions.values() if (gain := self._gain.get(each.name, 0.0)) > 0
        )

    @property
    def queued(self) -> float:
        """Events that have arrived and are not processed; not more than are seen to wait, since what the integral is
        wrong by adds up while a burst lasts."""
        return min(events_in_queue(self._samples), self._waiting)

    def cost_per_event(self) -> float:
        """Returns the core seconds that an event costs with all that follows from it; equation (2) has its inverse."""
        return sum(self.cost_of(name) for name in self._row_cost)

    def cost_of(self, function: str) -> float:
        """Returns the core seconds that an event costs in one function."""
        return self._row_cost.get(function, 0.0) * self._gain.get(function, 0.0)

    def handling_of(self, function: str) -> float:
        """Returns the core seconds that an event costs at home if its rows of this function run elsewhere."""
        return self.handling_of_row(function) * self._gain.get(function, 0.0)

    def handling_of_row(self, function: str) -> float:
        return min(self._handling.get(function, 0.0), self._row_cost.get(function, 0.0))

    def _arriving(self, load: JobLoad, now_ns: int) -> float:
        """Returns the events per second that arrive. What a source has read between two looks is all that arrived in
        some time, also if that is long past. One that is late and reads nothing may not read."""
        least_ns = (now_ns - self._looked_ns) // 2  # The arrival of a batch of events may be one moment.
        rates: dict[tuple[str, int], float] = {}
        for place, read in load.sources.items():
            is_late = read.behind_s >= self._calm_s
            before = self._sources.get(place, read)
            rows, elapsed_ns = read.rows - before.rows, read.arrived_ns - before.arrived_ns
            if rows > 0 and elapsed_ns > 0:
                rates[place] = rows * 1e9 / (elapsed_ns if is_late else max(elapsed_ns, least_ns))
            else:
                rates[place] = max(read.per_s, self._rates.get(place, 0.0) if is_late else 0.0)
        self._sources, self._rates, self._looked_ns = dict(load.sources), rates, now_ns
        return sum(rates.values())

    def _learn(self, load: JobLoad, now_ns: int) -> None:
        # While more is read than processed, or the reverse, rows of functions do not follow from those of sources.
        is_even = self._steady_ns is not None and now_ns - self._steady_ns >= STEADY_NS
        for name, function in load.functions.items():
            self._learn_cost(name, function, name in load.redirected)
            if load.read_per_s >= ROWS_MIN and is_even:
                known = self._gain if name in self._measured else {}
                self._average(known, name, function.rows_per_s / load.read_per_s)
                self._gain[name] = known[name]
                self._measured.add(name)
            elif name not in self._measured and load.rows_read:
                self._gain[name] = function.rows_total / load.rows_read
        # New twins report a part of the last second, and those who get their results all of it.
        if self._away_ns is not None and now_ns - self._away_ns >= STEADY_NS:
            self._learn_rho(load.functions)

    def _learn_cost(self, name: str, function: FunctionLoad, is_redirected: bool) -> None:
        """While rows run elsewhere, an instance at home reads, divides and merges for them too: that is no cost of the
        rows that run there. So what those cost is what they cost before."""
        here, away = function.rows_home_per_s, function.rows_away_per_s
        if name not in self._row_cost or not (is_redirected or away):
            if here >= ROWS_MIN and function.home:
                self._average(self._row_cost, name, function.at_home / here)
        elif away >= ROWS_MIN and away >= AWAY_SHARE_MIN * (here + away):
            rest = max(0.0, function.at_home - self._row_cost[name] * here)
            self._average(self._handling, name, rest / away)

    def _learn_rho(self, functions: Mapping[str, FunctionLoad]) -> None:
        """Compares what rows cost on both kinds of workers."""
        away = sum(each.away for each in functions.values())
        if away < AWAY_CORES_MIN:
            return  # Of a few rows it is by chance what they cost.
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
