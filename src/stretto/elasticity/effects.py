"""The values by which decisions are judged: the same ones before a decision, in its record, and some seconds later."""

from __future__ import annotations

from stretto.elasticity.balancing import imbalance
from stretto.elasticity.decisions import EndBurst, GiveCapacity, MoveHomes, RedirectBurst, TakeCapacity
from stretto.elasticity.disturbance import disturbance_of
from stretto.elasticity.records import DecisionRecord
from stretto.elasticity.standings import standings_since
from stretto.elasticity.view import ActorView, ElasticView
from stretto.observation.longer import observed_since
from stretto.observation.model import Observation


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


def burst_values(view: ElasticView, name: str) -> dict[str, float]:
    """Returns what is seen of a job that may have a burst: rows per second that its sources read and how late they
    are, how busy the workers of its functions are, how many transient ones are used, messages that wait."""
    job = view.observed.jobs.get(name)
    if job is None:
        return {}
    functions, transient = job.functions.values(), view.observed.transient
    sources = [actor for function in functions if not function.shape.feeds for actor in function.actors]
    actors = [actor for function in functions for actor in function.actors]
    homes = [
        view.workers[member].busy_share for member in sorted({actor.member for actor in actors} & view.workers.keys())
    ]
    used = {member for function in functions if function.away is not None for member in function.away.members}
    return {
        "rows_per_s": sum(function.input_rate for function in functions if not function.shape.feeds),
        "behind_ms": max((actor.totals.behind_ns / 1e6 for actor in sources), default=0.0),
        "load": sum(homes) / len(homes) if homes else 0.0,
        "transient_workers": float(len(used)),
        "transient_load": sum(actor.busy_share for actor in actors if actor.member in transient),
        "waiting": float(sum(function.queued for function in functions)),
    }


def measured_effect(
    view: ElasticView, record: DecisionRecord, since: Observation | None = None
) -> dict[str, float] | None:
    """Returns the present values of what a record is about; None if it is not there any more.

    Those are of its elastic actor, or the sum or greatest over a function that was repartitioned. What a job was given
    or had to give up is judged by how all jobs stand since an earlier observation, a job that was moved by the long
    runs beside it, a burst by how late its job's sources are, and other functions by what they did since then."""
    if isinstance(record.decision, MoveHomes):
        return disturbance_of(view, record.job)
    if isinstance(record.decision, RedirectBurst | EndBurst):
        return burst_values(view, record.job) or None
    if isinstance(record.decision, GiveCapacity | TakeCapacity):
        return _standing_since(view, record, since)
    actors = [
        actor
        for actor in view.actors
        if (actor.address.job, actor.address.function) == (record.job, record.function)
        and record.partition in (None, actor.address.partition)
    ]
    if not actors:
        return _values_since(view, record, since)
    each = [values_of(actor) for actor in actors]
    greatest = {"imbalance"}
    return {name: (max if name in greatest else sum)(values[name] for values in each) for name in each[0]}


def _standing_since(view: ElasticView, record: DecisionRecord, since: Observation | None) -> dict[str, float] | None:
    if since is None:
        return None
    standings = standings_since(view.observed, since)
    job = standings.jobs.get(record.job)
    return standings.values_of(record.job, record.function) if job and record.function in job.functions else None


def _values_since(view: ElasticView, record: DecisionRecord, since: Observation | None) -> dict[str, float] | None:
    """Returns the values of a function that is not elastic: its instances, the workers that it keeps busy, messages
    that wait, rows a second."""
    observed = view.observed if since is None else observed_since(view.observed, since)
    job = observed.jobs.get(record.job)
    function = job.functions.get(record.function) if job is not None else None
    if function is None or not function.actors or function.shape.workers_max:
        return None
    return {
        "instances": float(len(function.actors)),
        "load": function.busy_share,
        "waiting": float(function.queued),
        "rows_per_s": function.input_rate,
    }


def actual_imbalance(actor: ActorView) -> float:
    """Returns the greatest load of its tasks by the average, as the paper has it: all workers count the same. Infinite
    if a worker that it may not use any more has load."""
    owners = sorted({*actor.workers, *actor.shards.cost_of_worker})
    allotted = set(actor.workers)
    return imbalance([actor.load_on(name) for name in owners], [float(name in allotted) for name in owners])
