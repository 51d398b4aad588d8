"""One function of a job, as plain data for JSON: its pressure, its figures, where it is, and why there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy.typing as npt

from stretto.dashboard.measures import FUNCTION_FIELDS, function_row
from stretto.dashboard.series import plain_number
from stretto.observation.congestion import Congestion
from stretto.observation.model import FunctionObserved, JobObserved
from stretto.observation.shards import ElasticObserved

INSTANCES_SHOWN = 256
_NOW = ("rows_in", "rows_out", "busy", "waits", "cost_ms")
"""What is zero when nothing happens."""


def function_view(job: JobObserved, name: str, congestion: Congestion, idle: bool) -> dict[str, Any]:
    """Returns a function with its figures and its instances."""
    function = job.functions[name]
    shape = function.shape
    figures = dict(zip(FUNCTION_FIELDS, map(plain_number, function_row(job, function)), strict=True))
    if idle:
        figures |= dict.fromkeys(_NOW, 0.0)
    watermark_us = function.watermark_us
    return {
        "name": name,
        "pressure": "none" if idle else congestion.pressures[name].value,
        "kind": "source" if not shape.feeds else "sink" if shape.is_sink else "function",
        "discipline": _discipline(function),
        "parallelism": shape.parallelism,
        **figures,
        "waits_for": {} if idle else {each: plain_number(share) for each, share in function.waits.items()},
        "wait_ms": None if idle else plain_number(_wait_ms(function)),
        "state_bytes": function.state_bytes,
        "watermark_s": None if watermark_us is None else watermark_us / 1e6,
        "counts": _counts(function),
        "strategies": _strategies(job, name),
        "lessees": function.lessees,
        "away": None
        if function.away is None
        else {"workers": list(function.away.members), "share": function.away.share},
        "elastic": [_elastic(each) for each in function.elastic],
        "instances": _instances(function),
        "placement": list(job.placement.get(name, ())),
    }


def _discipline(function: FunctionObserved) -> str:
    shape = function.shape
    if shape.calls:
        return "calls entities"
    if shape.workers_max:
        return "keyed, elastic"
    if shape.partitioned_by:
        return "keyed"
    return "stateful" if shape.states else "stateless"


def _wait_ms(function: FunctionObserved) -> float | None:
    """Returns how long a message waits now, by Little's law: those that wait, by the rate at which they leave."""
    rate = sum(each.interval.messages_in * 1e9 / each.interval_ns for each in function.actors if each.interval_ns)
    if rate <= 0:
        return None if function.queued else 0.0
    return function.queued / rate * 1e3


def _counts(function: FunctionObserved) -> dict[str, int]:
    total: Counter[str] = Counter()
    for actor in function.actors:
        total.update(actor.totals.counts)
    return dict(sorted(total.items()))


def _strategies(job: JobObserved, name: str) -> list[str]:
    """Returns what the strategies of the function say of their choices: those that send to it know."""
    said = {actor.totals.strategies.get(name) for each in job.functions.values() for actor in each.actors}
    return sorted(why for why in said if why)


def _elastic(elastic: ElasticObserved) -> dict[str, Any]:
    owners = Counter(elastic.shards.owners)
    cost = elastic.shards.cost_of_worker
    return {
        "partition": elastic.partition,
        "home": elastic.home,
        "workers": [
            {"name": worker, "shards": owners.get(worker, 0), "busy": plain_number(cost.get(worker, 0) / 1e9)}
            for worker in sorted({*elastic.workers, *owners})
        ],
        "state_bytes": sum(elastic.shards.state_bytes),
        "waiting": elastic.waiting,
        "changing": elastic.changing,
    }


def _instances(function: FunctionObserved) -> list[dict[str, Any]]:
    actors = sorted(function.actors, key=lambda actor: (actor.partition, actor.member))[:INSTANCES_SHOWN]
    return [
        {
            "partition": actor.partition,
            "worker": actor.member,
            "busy": plain_number(actor.busy_share),
            "queued": actor.totals.queued,
            "rows_in": actor.totals.rows_in,
        }
        for actor in actors
    ]


def rounded(row: npt.NDArray[Any]) -> list[int]:
    """Returns counts as whole numbers."""
    return [round(float(value)) for value in row]
