"""Three jobs that want more of a cluster than there is (thesis 3.2): one is urgent, one is large, one is modest.

Their functions wait for each row, as for a service, and make up for oversleeping, so that a worker processes as many
rows per second as it should however busy the machine is. Each begins with one partition of its function. Of five
workers, the urgent job needs two to meet its objective, the large one three, and the modest one half of one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from stretto.actors.sink import Sink
from stretto.api.app import App
from stretto.api.slo import SLO, objective
from stretto.bench.elastic.costs import Cost, Spending
from stretto.bench.elastic.micro import Microbenchmark
from stretto.bench.elastic.tuples import Tuples
from stretto.bench.gates import Gate

FUNCTION = "calculator"
"""The function of each job that can have more partitions."""
BATCH = 1
"""What was sent to a full function before a mark is processed before it, which is 32 batches."""
KEYS = 500
LONGER = 10
"""The streams are so many times longer than the run: they are ended when it is over."""


@dataclass(frozen=True)
class Intent:
    """A job: what it promises, and its input as a multiple of what one worker can process."""

    name: str
    slo: SLO
    load: float


INTENTS = (
    Intent("urgent", objective(latency="1 s", priority=60), 1.4),
    Intent("large", objective(throughput=0.9, priority=30), 2.4),
    Intent("modest", objective(latency="2 s", priority=10, utility="linear"), 0.4),
)


@dataclass(frozen=True)
class Conflict:
    """What to run. A row takes `row_ms`. The worth of all jobs is noted for each slice of time, and judged in the last
    third of them. The run with the `controller` lasts until it has carried out `decisions_min` decisions, if that is
    longer."""

    intents: tuple[Intent, ...] = INTENTS
    workers: int = 5
    seconds: float = 120.0
    slice_s: float = 5.0
    row_ms: float = 40.0
    controller: str = "henge"
    decisions_min: int = 0

    @property
    def slices(self) -> int:
        return max(1, round(self.seconds / self.slice_s))

    @property
    def judged(self) -> int:
        """The number of slices that are judged."""
        return max(1, self.slices // 3)

    @property
    def most(self) -> float:
        """The greatest utility that all jobs can have together."""
        return sum(intent.slo.priority for intent in self.intents)

    def rate(self, intent: Intent) -> float:
        """Returns the rows per second of a job."""
        return intent.load * 1e3 / self.row_ms

    def workload(self, intent: Intent, gate: Gate | None = None, events: int | None = None) -> Microbenchmark:
        """Returns what a job runs: a stream of so many events, or of many more than the run needs."""
        rate = self.rate(intent)
        tuples = Tuples(
            events=round(rate * self.seconds * LONGER) if events is None else events,
            rate=rate,
            key_count=KEYS,
            skew=0.0,
            shuffles_per_minute=0.0,
            payload_bytes=16,
        )
        cost = Cost(row_us=self.row_ms * 1e3, spending=Spending.METERED)
        return Microbenchmark(tuples, cost, paced=True, batch=BATCH, slo=intent.slo, gate=gate)

    def app(self, intent: Intent, gate: Gate, sink: Sink) -> App:
        """Returns the app of a job, whose stream begins when the gate opens."""
        made: Callable[[], Sink] = partial(_itself, sink)
        return self.workload(intent, gate).app(made, intent.name)


def _itself(sink: Sink) -> Sink:
    return sink
