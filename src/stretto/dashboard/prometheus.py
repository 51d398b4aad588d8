"""Figures for Prometheus, from the last observation: totals as counters, in base units, named by its conventions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from stretto.actors.metrics import FunctionMetrics, SketchBins
from stretto.dashboard.history import History, JobHistory
from stretto.dashboard.measures import LATENCY_EDGES_MS, latency_row
from stretto.dashboard.views import job_line
from stretto.observation.congestion import Pressure

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_OF_FUNCTION = ("job", "function")


class _Figures:
    """A collector of one history."""

    def __init__(self, history: History) -> None:
        self._history = history

    def collect(self) -> Iterator[Metric]:
        jobs = {name: known for name, known in self._history.jobs.items() if not known.gone}
        yield from _jobs(self._history, jobs)
        yield from _functions(jobs)
        yield from _entities(jobs)
        yield from _checkpoints(self._history, jobs)
        yield from _workers(self._history)
        decided = CounterMetricFamily("stretto_decisions", "Decisions by controller.", labels=["controller"])
        for controller, count in sorted(self._history.decided_by.items()):
            decided.add_metric([controller], count)
        yield decided


def exposition(history: History) -> bytes:
    """Returns all figures in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(history))
    return generate_latest(registry)


def _gauge(name: str, text: str, labels: Iterable[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"stretto_{name}", text, labels=list(labels))


def _counter(name: str, text: str, labels: Iterable[str]) -> CounterMetricFamily:
    return CounterMetricFamily(f"stretto_{name}", text, labels=list(labels))


def _jobs(history: History, jobs: dict[str, JobHistory]) -> Iterator[Metric]:
    info = InfoMetricFamily("stretto_job", "A job, its status and its objective.", labels=["job"])
    held = _gauge("job_objective_held", "Whether a job holds its objective (1), or misses it (0).", ["job"])
    utility = _gauge("job_utility", "The utility of a job, of its priority at most.", ["job"])
    congested = _gauge("job_congestion_causes", "How many functions hold a job back.", ["job"])
    latency = HistogramMetricFamily(
        "stretto_job_latency_seconds", "From the arrival of the last event of a result to the result.", labels=["job"]
    )
    for name, known in jobs.items():
        line = job_line(history, name, known)
        objective = line["objective"]["text"] if line["objective"] is not None else ""
        info.add_metric([name], {"status": line["status"], "objective": objective})
        if line["held"] is not None:
            held.add_metric([name], float(line["held"]))
        if line["utility"] is not None:
            utility.add_metric([name], line["utility"])
        congested.add_metric([name], len(known.congestion.causes))
        if known.latency is not None:
            latency.add_metric([name], *_histogram(known.latency))
    yield from (info, held, utility, congested, latency)


def _functions(jobs: dict[str, JobHistory]) -> Iterator[Metric]:
    read = _counter("function_input_rows", "Rows that a function has processed, or a source has read.", _OF_FUNCTION)
    sent = _counter("function_output_rows", "Rows that a function has sent.", _OF_FUNCTION)
    messages = _counter("function_messages", "Messages that a function has processed.", _OF_FUNCTION)
    busy = _counter("function_busy_seconds", "How long the instances of a function have run.", _OF_FUNCTION)
    waited = _counter(
        "function_credit_wait_seconds", "How long instances waited for credits.", (*_OF_FUNCTION, "waits_for")
    )
    late = _counter("function_late_rows", "Rows that came after their window was closed.", _OF_FUNCTION)
    queued = _gauge("function_queued_messages", "Messages that wait for a function.", _OF_FUNCTION)
    instances = _gauge("function_instances", "Instances of a function.", _OF_FUNCTION)
    state = _gauge("function_state_bytes", "State of a function in the last checkpoint.", _OF_FUNCTION)
    event_time = _gauge("function_watermark_timestamp_seconds", "How far event time has come.", _OF_FUNCTION)
    cause = _gauge("function_is_cause", "Whether a function holds its job back.", _OF_FUNCTION)
    for name, known in jobs.items():
        for each, function in known.last.functions.items():
            labels = [name, each]
            total = _summed([actor.totals for actor in function.actors])
            read.add_metric(labels, total.rows_in)
            sent.add_metric(labels, total.rows_out)
            messages.add_metric(labels, total.messages_in)
            busy.add_metric(labels, total.busy_ns / 1e9)
            late.add_metric(labels, total.counts.get("late_rows", 0))
            for end, waited_ns in sorted(total.waited_ns.items()):
                waited.add_metric([*labels, end], waited_ns / 1e9)
            queued.add_metric(labels, function.queued)
            instances.add_metric(labels, len(function.actors))
            if function.state_bytes is not None:
                state.add_metric(labels, function.state_bytes)
            if function.watermark_us is not None:
                event_time.add_metric(labels, function.watermark_us / 1e6)
            cause.add_metric(labels, float(known.congestion.pressures[each] is Pressure.CAUSE))
    yield from (read, sent, messages, busy, waited, late, queued, instances, state, event_time, cause)


def _entities(jobs: dict[str, JobHistory]) -> Iterator[Metric]:
    committed = _counter("entity_committed_transactions", "Transactions of entities that committed.", ["job"])
    aborted = _counter("entity_aborted_transactions", "Transactions that were aborted.", ["job", "reason"])
    conflicts = _counter("entity_conflicting_transactions", "Transactions that lost to another one.", ["job"])
    epochs = _counter("entity_epochs", "Epochs, on the place that had most.", ["job"])
    refused = _counter("entity_refused_calls", "Calls of entities that had too many under way.", ["job"])
    entities = _gauge("entities", "Entities with fields that are not as in the beginning.", ["job"])
    waiting = _gauge("entity_waiting_calls", "Calls that no epoch has taken.", ["job"])
    latency = HistogramMetricFamily(
        "stretto_entity_transaction_seconds", "From the arrival of a call to its reply.", labels=["job"]
    )
    for name, known in jobs.items():
        if known.entities is None:
            continue
        totals = known.entities.last.totals
        committed.add_metric([name], totals.committed)
        for reason, count in sorted(totals.aborted.items()):
            aborted.add_metric([name, reason], count)
        conflicts.add_metric([name], totals.conflicts)
        epochs.add_metric([name], max(place.totals.epochs for place in known.entities.last.places))
        refused.add_metric([name], totals.refused)
        entities.add_metric([name], totals.entities)
        waiting.add_metric([name], totals.waiting)
        if totals.latency is not None:
            latency.add_metric([name], *_histogram(totals.latency))
    yield from (committed, aborted, conflicts, epochs, refused, entities, waiting, latency)


def _histogram(latency: SketchBins) -> tuple[list[tuple[str, float]], float]:
    """Returns how many were not longer than each edge, and the sum of all in seconds."""
    counts = list(accumulate(latency_row(latency)))
    edges = [*(f"{edge / 1e3:g}" for edge in LATENCY_EDGES_MS), "+Inf"]
    return list(zip(edges, counts, strict=True)), latency.sum_ms / 1e3


def _summed(parts: list[FunctionMetrics]) -> FunctionMetrics:
    """Returns the totals without the sketches, whose merging is slow."""
    total = FunctionMetrics()
    for part in parts:
        total.rows_in += part.rows_in
        total.rows_out += part.rows_out
        total.messages_in += part.messages_in
        total.busy_ns += part.busy_ns
        for mine, theirs in ((total.counts, part.counts), (total.waited_ns, part.waited_ns)):
            for name, amount in theirs.items():
                mine[name] = mine.get(name, 0) + amount
    return total


def _checkpoints(history: History, jobs: dict[str, JobHistory]) -> Iterator[Metric]:
    size = _gauge("checkpoint_last_bytes", "The size of the last complete checkpoint.", ["job"])
    took = _gauge("checkpoint_last_duration_seconds", "How long the last complete checkpoint took.", ["job"])
    ended = _gauge("checkpoint_last_timestamp_seconds", "When the last checkpoint was complete.", ["job"])
    for name, known in jobs.items():
        complete = [each for each in known.checkpoints.values() if each.failed_because is None]
        if complete:
            size.add_metric([name], complete[-1].bytes)
            took.add_metric([name], complete[-1].took_ns / 1e9)
            ended.add_metric([name], history.seconds(complete[-1].ended_ns))
    yield from (size, took, ended)


def _workers(history: History) -> Iterator[Metric]:
    labels = ("worker", "role", "host")
    busy = _gauge("worker_busy_cores", "How many cores a worker keeps busy.", labels)
    queued = _gauge("worker_queued_messages", "Messages that wait on a worker.", labels)
    memory = _gauge("worker_memory_bytes", "What the process of a worker holds in memory.", labels)
    refused = _counter("worker_refused_frames", "Connections and frames that a worker has refused.", labels)
    for name, known in history.workers.items():
        if not known.gone:
            values = [name, known.last.member.role.value, known.last.member.host]
            busy.add_metric(values, known.last.busy_share)
            queued.add_metric(values, known.last.queued)
            if known.last.memory_bytes:
                memory.add_metric(values, known.last.memory_bytes)
            refused.add_metric(values, known.last.refused)
    observed = GaugeMetricFamily("stretto_observation_timestamp_seconds", "When the cluster was observed last.")
    observed.add_metric([], history.seconds(history.observation.time_ns))
    yield from (busy, queued, memory, refused, observed)
