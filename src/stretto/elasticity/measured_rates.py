"""The topology of running jobs, from an observation: what each function is sent, processes, and could process.

Storm's queues are not bounded, so a congested operator is sent more than it processes, and that can be counted. Here
senders wait for credits, and what is counted is equal soon. So both are derived. A function could process as much more
as its instances' workers have idle time beside what it takes; the fullest instance decides, since routing divides rows
in fixed shares. And where some function has messages waiting and nothing to spare, the sources above it would send
more: `SURGE` times as much, as for elastic actors (`demand.py`), but not more than they could read. What a function
passes on to each child is in proportion to what it processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stretto.elasticity.topology import CONGESTION_RATE, Operator, Placement, Topology
from stretto.observation.model import FunctionObserved, JobObserved, WorkerObserved

SURGE = 2.0
FULL = 0.95
"""A worker that is busy for this share of its time has nothing to spare."""
SLACK_MAX = 1_000.0
"""What is hardly busy is not taken to be able to do more than so many times as much."""

Workers = Mapping[str, WorkerObserved]


def operator_name(job: str, function: str) -> str:
    """Returns the name of a function in a topology of several jobs."""
    return f"{job}/{function}"


def slack(function: FunctionObserved, workers: Workers) -> float:
    """Returns how many times as much as now a function could process, where its instances are."""
    busy: dict[str, float] = {}
    for actor in function.actors:
        busy[actor.member] = busy.get(actor.member, 0.0) + actor.busy_share
    found = SLACK_MAX
    for member, share in busy.items():
        worker = workers.get(member)
        if share > 0 and worker is not None:
            # Instances on one worker grow together, so they share what is idle there.
            found = min(found, 1 + max(0.0, FULL * worker.cores - worker.busy_share) / share)
    return found


def is_saturated(function: FunctionObserved, workers: Workers) -> bool:
    """Returns whether messages wait at a function because its worker has nothing to spare."""
    return function.queued > len(function.actors) and slack(function, workers) == 1.0


def topology_of(
    jobs: Iterable[JobObserved], workers: Workers, congestion_rate: float = CONGESTION_RATE
) -> tuple[Topology, Placement]:
    """Returns the topology of jobs, and where their functions are. A sink's rows count by the priority of its job."""
    operators: list[Operator] = []
    placement: dict[str, tuple[str, ...]] = {}
    for job in jobs:
        operators += _operators(job, workers)
        for name, function in job.functions.items():
            homes = tuple(actor.member for actor in sorted(function.actors, key=lambda each: each.partition))
            placement[operator_name(job.name, name)] = job.placement.get(name) or homes
    return Topology.of(operators, congestion_rate), placement


def _operators(job: JobObserved, workers: Workers) -> list[Operator]:
    edges = {(edge.sender, edge.receiver): edge for edge in job.edges}
    sent: dict[str, dict[str, float]] = {name: {} for name in job.functions}
    executed = dict.fromkeys(job.functions, 0.0)
    for (sender, receiver), edge in edges.items():
        sent[sender][receiver] = edge.sent_rate
        executed[receiver] += edge.executed_rate
    weight = job.objective.priority if job.objective is not None else 1.0
    held_back = _held_back(job, workers)
    inputs = dict.fromkeys(job.functions, 0.0)
    found = []
    for name, function in job.functions.items():
        is_source = not function.shape.feeds
        now = sum(sent[name].values()) if is_source else executed[name]
        capacity = now * slack(function, workers)
        if is_source:
            inputs[name] = min(capacity, now * (SURGE if name in held_back else 1.0))
        processing = min(inputs[name], capacity)
        times = processing / now if now > 0 else 0.0
        emits = {child: rate * times for child, rate in sent[name].items()}
        for child, rate in emits.items():
            inputs[child] += rate
        found.append(
            Operator(
                operator_name(job.name, name),
                inputs[name],
                processing,
                {operator_name(job.name, child): rate for child, rate in emits.items()},
                max(1, len(function.actors)),
                capacity,
                weight,
                grows=not is_source and not function.shape.on_driver,
                busy=sum(actor.busy_share for actor in function.actors),
            )
        )
    return found


def _held_back(job: JobObserved, workers: Workers) -> set[str]:
    """Returns the functions above a saturated one: they would send more if they had credits."""
    found: set[str] = set()
    for name in reversed(list(job.functions)):
        function = job.functions[name]
        if name in found or is_saturated(function, workers):
            found.update(feed.sender for feed in function.shape.feeds)
    return found
