"""The values by which decisions are judged: the same ones before a decision, in its record, and some seconds later."""

from __future__ import annotations

from stretto.elasticity.balancing import imbalance
from stretto.elasticity.records import DecisionRecord
from stretto.elasticity.view import ActorView, ElasticView


def values_of(actor: ActorView) -> dict[str, float]:
    """Returns what is seen of an actor: its workers and their load, the imbalance, messages that wait, rows a
    second."""
    return {
        "workers": float(len(actor.workers)),
        "load": actor.load,
        "imbalance": actual_imbalance(actor),
        "waiting": float(actor.waiting),
        "rows_per_s": actor.rows_per_s,
    }


def measured_effect(view: ElasticView, record: DecisionRecord) -> dict[str, float] | None:
    """Returns the present values of what a record is about: of its actor, or the sum or greatest over a function that
    was repartitioned. None if it is not there any more."""
    actors = [
        actor
        for actor in view.actors
        if (actor.address.job, actor.address.function) == (record.job, record.function)
        and record.partition in (None, actor.address.partition)
    ]
    if not actors:
        return None
    each = [values_of(actor) for actor in actors]
    greatest = {"imbalance"}
    return {name: (max if name in greatest else sum)(values[name] for values in each) for name in each[0]}


def actual_imbalance(actor: ActorView) -> float:
    """Returns the greatest load of its tasks by the average, as the paper has it: all workers count the same. Infinite
    if a worker that it may not use any more has load."""
    owners = sorted({*actor.workers, *actor.shards.cost_of_worker})
    allotted = set(actor.workers)
    return imbalance([actor.load_on(name) for name in owners], [float(name in allotted) for name in owners])
