"""An observation over a longer time: rates from the difference of two observations.

The interval of one observation is a fraction of a second, in which a few large batches decide. Controllers that look
every ten seconds need what happened in ten seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stretto.actors.metrics import FunctionMetrics
from stretto.observation.model import ActorObserved, JobObserved, Observation


def observed_since(now: Observation, earlier: Observation) -> Observation:
    """Returns an observation whose intervals began at an earlier one. Jobs that have begun another attempt since then
    are as they were observed. All that a new instance of the same attempt has counted is of the interval."""
    if now.time_ns <= earlier.time_ns:
        return now
    jobs = {name: _since(job, earlier.jobs.get(name), now.time_ns - earlier.time_ns) for name, job in now.jobs.items()}
    busy = dict.fromkeys(now.workers, 0.0)
    for job in jobs.values():
        for function in job.functions.values():
            for actor in function.actors:
                busy[actor.member] = busy.get(actor.member, 0.0) + actor.busy_share
    workers = {name: replace(worker, busy_share=busy[name]) for name, worker in now.workers.items()}
    return replace(now, jobs=jobs, workers=workers)


def _since(job: JobObserved, earlier: JobObserved | None, interval_ns: int) -> JobObserved:
    if earlier is None or earlier.attempt != job.attempt:
        return job
    functions = {}
    for name, function in job.functions.items():
        known = {(actor.partition, actor.member): actor for actor in earlier.functions[name].actors}
        actors = tuple(_longer(actor, known, interval_ns) for actor in function.actors)
        functions[name] = replace(function, actors=actors)
    return replace(job, functions=functions)


def _longer(actor: ActorObserved, known: Mapping[tuple[int, str], ActorObserved], interval_ns: int) -> ActorObserved:
    before = known.get((actor.partition, actor.member))
    # One that is not known had nothing to report then.
    return replace(actor, before=FunctionMetrics() if before is None else before.totals, interval_ns=interval_ns)
