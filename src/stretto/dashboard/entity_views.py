"""What is kept and shown of the entities of a job: transactions, aborts by their reasons, conflicts, epochs, places."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan
from typing import Any

from stretto.actors.metrics import SketchBins
from stretto.dashboard.measures import latency_between, percentiles_of
from stretto.dashboard.series import Series, plain_number
from stretto.observation.model import JobObserved
from stretto.observation.transactions import EntitiesObserved, PlaceObserved

ENTITY_FIELDS = ("committed", "aborted", "conflicts", "epochs", "waiting", "p50_ms", "p99_ms")
"""Of the entities of a job: transactions per second that committed, that were aborted, and that lost to another one
first; epochs per second, on the place that had most; calls that wait; and how long transactions took."""
Plain = dict[str, Any]


@dataclass
class EntityHistory:
    """The entities of a job as they were last observed, and their figures over time."""

    last: EntitiesObserved
    series: Series = field(default_factory=lambda: Series(ENTITY_FIELDS))
    latency: SketchBins | None = None
    """Of all transactions up to the last row."""

    def keep(self, observed: EntitiesObserved, time_s: float) -> None:
        """Takes an observation."""
        total = observed.totals.latency
        since = percentiles_of(latency_between(total, self.latency))
        self.last, self.latency = observed, total
        rates = _rates(observed)
        latencies = (nan if value is None else value for value in (since["p50"], since["p99"]))
        self.series.add(time_s, (*rates.values(), observed.totals.waiting, *latencies))


def without_streams(name: str, entities: EntitiesObserved) -> JobObserved:
    """Returns the job of an app that has entities and no streams."""
    failure, waits_for, members = entities.failure, entities.waits_for, entities.members
    return JobObserved(name, entities.status, "", members, {}, {}, failure=failure, waits_for=waits_for)


def entities_view(known: EntityHistory, idle: bool) -> Plain:
    """Returns the entities of a job: how their transactions end, and where they are."""
    observed, totals = known.last, known.last.totals
    rates = dict.fromkeys(_rates(observed), 0.0) if idle else _rates(observed)
    return {
        "status": observed.status,
        "attempt": observed.attempt,
        "error": observed.failure,
        **{f"{name}_per_s": plain_number(rate) for name, rate in rates.items()},
        "committed": totals.committed,
        "aborted": sum(totals.aborted.values()),
        "aborted_by": dict(sorted(totals.aborted.items(), key=lambda each: (-each[1], each[0]))),
        "conflicts": totals.conflicts,
        "again": totals.again,
        "epochs": totals.epochs,
        "looks": totals.looks,
        "refused": totals.refused,
        "entities": totals.entities,
        "waiting": totals.waiting,
        "delayed": totals.delayed,
        **{f"{name}_ms": plain_number(value) for name, value in percentiles_of(totals.latency).items()},
        "snapshot": observed.snapshot,
        "moving": None if observed.moving is None else {"place": observed.moving[0], "to": observed.moving[1]},
        "places": [_place(place, idle) for place in observed.places],
    }


def transactions_per_s(known: EntityHistory | None, idle: bool) -> float | None:
    """Returns how many transactions end in a second; None where there are no entities."""
    if known is None:
        return None
    rates = _rates(known.last)
    return 0.0 if idle else plain_number(rates["committed"] + rates["aborted"])


def _rates(observed: EntitiesObserved) -> dict[str, float]:
    """Returns what happens per second. Places take part in the same epochs, so these are not added."""
    found = {"committed": 0.0, "aborted": 0.0, "conflicts": 0.0, "epochs": 0.0}
    for place in observed.places:
        last = place.interval
        found["committed"] += place.per_second(last.committed)
        found["aborted"] += place.per_second(sum(last.aborted.values()))
        found["conflicts"] += place.per_second(last.conflicts)
        found["epochs"] = max(found["epochs"], place.per_second(last.epochs))
    return found


def _place(place: PlaceObserved, idle: bool) -> Plain:
    totals, last = place.totals, place.interval
    ended = last.committed + sum(last.aborted.values())
    return {
        "number": place.number,
        "worker": place.member,
        "transactions_per_s": 0.0 if idle else plain_number(place.per_second(ended)),
        "committed": totals.committed,
        "aborted": sum(totals.aborted.values()),
        "conflicts": totals.conflicts,
        "epochs": totals.epochs,
        "entities": totals.entities,
        "waiting": totals.waiting,
    }
