"""Pieces of batches: what bounds them, what is left of a message, and when the limits end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa

from stretto.actors.address import Address
from stretto.actors.channel import Message
from stretto.actors.work import POLL, Outcome
from stretto.worker.events import Ran
from stretto.worker.run_bounds import BOUND_NS_MIN, LONG_RUNS, LONG_RUNS_WITHIN_NS, RunBounds

MS = 1_000_000
BATCH = pa.record_batch({"n": pa.array(range(100))})


class Place(SimpleNamespace):
    """As much of a seat as bounds look at."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def seat(job: str) -> Any:
    limits: list[int | None] = []
    instance = SimpleNamespace(limit_read=limits.append, limits=limits)
    metrics = SimpleNamespace(busy_ns=0)
    return Place(address=Address(job, "f", 0), row_cost=None, rest=None, instance=instance, metrics=metrics)


def job(name: str, latency_ns: int | None) -> Any:
    seats = [seat(name)]
    deployment = SimpleNamespace(latency_ns=latency_ns)
    return SimpleNamespace(job=name, deployment=deployment, seats={0: seats[0]}, all_seats=lambda: seats)


def bounds(**latencies_ns: int | None) -> tuple[RunBounds, Any]:
    """The bounds of a worker with these jobs, and the worker."""
    host = SimpleNamespace(jobs={name: job(name, ns) for name, ns in latencies_ns.items()}, effects=[], now_ns=0)
    made = RunBounds(cast(Any, host))
    made.changed()
    return made, host


def ran(bounds: RunBounds, place: Any, rows: int, cost_ns: int, work: Any = POLL) -> None:
    outcome = Outcome(0)
    outcome.rows_in = rows
    place.metrics.busy_ns += cost_ns
    bounds.ran(Ran(place, work, outcome, cost_ns))


def message() -> Message:
    return Message(cast(Any, None), 7, BATCH, 1, None, 2, 3, 4)


def test_nothing_is_bounded_where_no_other_job_has_an_objective() -> None:
    assert not bounds(alone=10 * MS)[0].bounded
    assert not bounds(one=None, other=None)[0].bounded


def test_a_job_is_bounded_by_the_others_and_not_by_itself() -> None:
    made, host = bounds(urgent=100 * MS, bulk=None)
    assert made.bounded
    whole = message()
    assert made.piece(host.jobs["urgent"].seats[0], whole) is whole
    assert made.piece(host.jobs["bulk"].seats[0], message()).payload.num_rows == 1


def test_the_rest_of_a_message_waits_and_keeps_its_place() -> None:
    made, host = bounds(urgent=100 * MS, bulk=None)
    place, whole = host.jobs["bulk"].seats[0], message()
    piece = made.piece(place, whole)
    assert place.rest is whole
    assert (piece.seq, piece.arrived_ns, piece.progress_us, piece.deadline_ns) == (7, 1, 2, 3)
    assert (piece.ticket, whole.ticket) == (4, 0), "the laxity queue forgets it when its first piece runs"
    assert piece.payload.num_rows + whole.payload.num_rows == BATCH.num_rows
    assert pa.Table.from_batches([piece.payload, whole.payload]).equals(pa.Table.from_batches([BATCH]))


def test_pieces_grow_up_to_a_tenth_of_the_least_objective() -> None:
    made, host = bounds(urgent=100 * MS, lax=900 * MS, bulk=None)
    place = host.jobs["bulk"].seats[0]
    for _ in range(20):
        rows = made.piece(place, message()).payload.num_rows
        place.rest = None
        ran(made, place, rows, rows * MS, message())
    assert rows == 10


def test_a_tight_objective_does_not_cut_below_the_quantum() -> None:
    made, host = bounds(urgent=1, bulk=None)
    place = host.jobs["bulk"].seats[0]
    for _ in range(20):
        rows = made.piece(place, message()).payload.num_rows
        place.rest = None
        ran(made, place, rows, rows * BOUND_NS_MIN // 20, message())
    assert rows == 20


def test_sources_read_less_beside_an_urgent_job_and_as_before_without_it() -> None:
    made, host = bounds(urgent=100 * MS, bulk=None)
    bulk = host.jobs["bulk"]
    place = bulk.seats[0]
    for _ in range(5):
        made.limit_read(place)
        ran(made, place, place.instance.limits[-1], place.instance.limits[-1] * MS)
    assert place.instance.limits == [1, 10, 10, 10, 10]
    made.dropped(host.jobs.pop("urgent"))
    assert place.instance.limits[-1] is None
    assert not made.bounded


def test_runs_longer_than_an_objective_are_reported_once() -> None:
    made, host = bounds(urgent=100 * MS, relaxed=900 * MS, bulk=None)
    place = host.jobs["bulk"].seats[0]
    for number in range(2 * LONG_RUNS):
        ran(made, place, 1, 500 * MS, message())
        assert len(host.effects) == (number + 1 >= LONG_RUNS)
    report = host.effects[0].frame
    assert (report.job, report.function, report.run_ns, report.delayed) == ("bulk", "f", 500 * MS, {"urgent": 100 * MS})


def test_rare_long_runs_are_not_reported() -> None:
    made, host = bounds(urgent=100 * MS, bulk=None)
    for _ in range(2 * LONG_RUNS):
        ran(made, host.jobs["bulk"].seats[0], 1, 500 * MS, message())
        host.now_ns += LONG_RUNS_WITHIN_NS + 1
    assert host.effects == []


def test_long_runs_among_many_short_ones_are_not_reported() -> None:
    made, host = bounds(urgent=100 * MS, bulk=None)
    place = host.jobs["bulk"].seats[0]
    for _ in range(3 * LONG_RUNS):
        for _ in range(100):
            ran(made, place, 1, 10 * MS, message())
        ran(made, place, 1, 500 * MS, message())
    assert host.effects == []
