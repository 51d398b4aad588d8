"""What is shown, as plain data for JSON: the overview, one job, decisions, a whole report.

The API answers with these, the page draws them, and a report has them inside. Names end in their unit. Texts of users
(names of jobs and functions, errors) are texts here, and whoever shows them escapes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stretto.actors.metrics import LatencySketch
from stretto.api.slo import SLO
from stretto.dashboard.entity_views import entities_view, transactions_per_s
from stretto.dashboard.function_views import function_view, rounded
from stretto.dashboard.history import History, JobHistory, WorkerHistory
from stretto.dashboard.measures import FUNCTION_FIELDS, LATENCY_EDGES_MS, percentiles_of
from stretto.dashboard.series import plain_number
from stretto.elasticity.records import DecisionRecord
from stretto.observation.model import CheckpointObserved, FunctionObserved, JobObserved

HELD_BACK_SHOWN = 5
RECENT_ROWS = 60
"""How many rows of a job the small plots of the overview have."""
Plain = dict[str, Any]


def overview(history: History, quiet: bool = False, recent: bool = False) -> Plain:
    """Returns all jobs with their objectives and figures, and all workers. With `recent`, also the rows of the small
    plots. When it is `quiet`, rates are zero."""
    jobs = [job_line(history, name, known, quiet) for name, known in sorted(history.jobs.items())]
    if recent:
        for line in jobs:
            line["recent"] = _recent(history.jobs[line["name"]])
    workers = [_worker(history, name, known, quiet) for name, known in sorted(history.workers.items())]
    return {
        "version": history.version,
        "decided": history.decided,
        "time_s": history.seconds(history.observation.time_ns),
        "quiet": quiet,
        "kept_s": history.kept_s,
        "jobs": jobs,
        "workers": workers,
    }


def job_line(history: History, name: str, known: JobHistory, quiet: bool = False) -> Plain:
    """Returns a job in a line: its objective, whether it is held, its figures now and over the hour that is kept."""
    job, idle = known.last, quiet or known.ended
    latest = {field: plain_number(known.series.last(field)) for field in known.series.names}
    results, in_time = known.results
    rates = {field: 0.0 if idle else latest[field] for field in ("rows_in", "results_per_s")}
    if known.ended:  # Of all its results, since there are no latest ones.
        latest |= {f"{name}_ms": plain_number(value) for name, value in percentiles_of(known.latency).items()}
    slo = job.objective
    promised = slo is not None and slo.latency_ms is not None
    return {
        "name": name,
        "status": job.status,
        "attempt": job.attempt,
        "gone": known.gone,
        "error": job.failure,
        "waits_for": job.waits_for or (str(job.deploying) if job.deploying is not None else None),
        "objective": None if slo is None else _objective(slo),
        "held": _held(known, slo),
        "in_time_now": _share(latest["in_time"], latest["results"]) if promised else None,
        "in_time_hour": _share(in_time, results) if promised else None,
        **rates,
        **{field: latest[field] for field in ("p50_ms", "p95_ms", "p99_ms", "queued", "behind_ms", "utility")},
        "transactions_per_s": transactions_per_s(known.entities, idle),
        "rows_total": sum(actor.totals.rows_in for each in _sources(job) for actor in each.actors),
        "priority": slo.priority if slo is not None else None,
        "functions": len(job.functions),
        "workers": list(job.members),
        "causes": [_cause(cause) for cause in known.congestion.causes] if not idle else [],
        "began_s": known.began_s,
        "seen_s": known.seen_s,
    }


def job_view(history: History, name: str, quiet: bool = False) -> Plain:
    """Returns a job with its graph, its functions and its checkpoints."""
    known = history.jobs[name]
    job, congestion, idle = known.last, known.congestion, quiet
    if known.ended:
        job, congestion, idle = known.busiest.job, known.busiest.congestion, False
    functions = [function_view(job, each, congestion, idle) for each in job.functions]
    edges = [
        {
            "from": edge.sender,
            "to": edge.receiver,
            "sent": 0.0 if idle else plain_number(edge.sent_rate),
            "executed": 0.0 if idle else plain_number(edge.executed_rate),
        }
        for edge in job.edges
    ]
    return {
        **job_line(history, name, known, quiet),
        "time_s": history.seconds(history.observation.time_ns),
        "as_of_s": known.busiest.time_s if known.ended else None,
        "causes": [] if idle else [_cause(cause) for cause in congestion.causes],
        "held_back": [
            {"job": owner, "function": function, "share": plain_number(rows / max(1, known.rows))}
            for (owner, function), rows in known.held_back.most_common(HELD_BACK_SHOWN)
        ],
        "warm": list(job.warm),
        "graph": functions,
        "edges": edges,
        "checkpoints": _checkpoints(history, known),
        "entities": None if known.entities is None else entities_view(known.entities, quiet or known.ended),
        "latency_edges_ms": list(LATENCY_EDGES_MS),
    }


def job_rows(known: JobHistory, since_s: float = float("-inf")) -> Plain:
    """Returns the figures of a job over time, after a time: of the job, its latencies, its functions."""
    times, counts = known.latencies.rows(since_s)
    return {
        "job": known.series.plain(since_s),
        "latency": {"t": [round(float(time), 3) for time in times], "counts": [rounded(row) for row in counts]},
        "functions": {name: series.plain(since_s) for name, series in known.functions.items()},
        "entities": None if known.entities is None else known.entities.series.plain(since_s),
    }


def decisions_view(
    history: History, job: str | None = None, controller: str | None = None, outcome: str | None = None
) -> list[Plain]:
    """Returns the records of decisions, the latest first, of a job, a controller or an outcome if one is given."""
    found = [
        record
        for record in history.decisions.values()
        if (job is None or record.job == job)
        and (controller is None or record.controller == controller)
        and (outcome is None or record.outcome.value == outcome)
    ]
    return decision_lines(history, reversed(found))


def decision_lines(history: History, records: Iterable[DecisionRecord]) -> list[Plain]:
    """Returns records as plain data, with their times and what was decided in words."""
    return [
        {
            **record.plain(),
            "time_s": history.seconds(record.at_ns),
            "where": record.where,
            "what": "nothing" if record.decision is None else str(record.decision),
        }
        for record in records
    ]


def report_view(history: History, title: str, clock: str) -> Plain:
    """Returns all that a report has inside: the same views, of a run that has ended. `clock` is `unix`, or `run` for
    times since the beginning of the run."""
    return {
        "title": title,
        "clock": clock,
        "overview": overview(history, quiet=True, recent=True),
        "jobs": {name: job_view(history, name) for name in history.jobs},
        "rows": {name: job_rows(known) for name, known in history.jobs.items()},
        "decisions": decisions_view(history),
        "function_fields": list(FUNCTION_FIELDS),
    }


def _sources(job: JobObserved) -> list[FunctionObserved]:
    return [function for function in job.functions.values() if not function.shape.feeds]


def _recent(known: JobHistory) -> Plain:
    times, rows = known.series.rows()
    names = known.series.names
    found: Plain = {"t": [round(float(time), 1) for time in times[-RECENT_ROWS:]]}
    for field in ("rows_in", "p99_ms"):
        values = rows[-RECENT_ROWS:, names.index(field)]
        found[field] = [plain_number(float(value)) for value in values]
    return found


def _objective(slo: SLO) -> Plain:
    return {
        "text": slo.describe(),
        "latency_ms": slo.latency_ms,
        "percentile": slo.percentile,
        "juice": slo.juice,
        "priority": slo.priority,
        "share": slo.share,
    }


def _held(known: JobHistory, slo: SLO | None) -> bool | None:
    """Whether a job holds its objective in all that was measured; None where nothing is promised or was measured."""
    if slo is None:
        return None
    sketch = LatencySketch()
    if known.latency is not None:
        sketch.merge(known.latency)
    job = known.last
    attained = slo.attained(sketch.quantile(slo.percentile / 100), job.juice, job.is_stuck)
    return None if attained is None else attained >= 1


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else plain_number(min(1.0, part / whole))


def _cause(cause: Any) -> Plain:
    return {"job": cause.job, "function": cause.function, "victims": list(cause.victims), "text": cause.text}


def _worker(history: History, name: str, known: WorkerHistory, quiet: bool) -> Plain:
    worker, idle = known.last, quiet or known.gone
    member = worker.member
    state = "gone" if known.gone else "leaving" if worker.leaving else "parked" if worker.parked else "active"
    jobs = [each for each, job in sorted(history.jobs.items()) if name in job.last.members and not job.gone]
    return {
        "name": name,
        "role": member.role.value,
        "state": state,
        "host": member.host,
        "pid": member.pid,
        "busy": 0.0 if idle else plain_number(worker.busy_share),
        "cores": worker.cores,
        "memory_bytes": worker.memory_bytes or None,
        "queued": worker.queued,
        "refused": worker.refused,
        "jobs": jobs,
        "seen_s": known.seen_s,
    }


def _checkpoints(history: History, known: JobHistory) -> Plain | None:
    observed = known.last.checkpoints
    if observed is None:
        return None
    ended = [_checkpoint(history, each) for each in reversed(known.checkpoints.values())]
    return {
        "interval_s": None if observed.interval_ns is None else observed.interval_ns / 1e9,
        "underway_since_s": None if observed.since_ns is None else history.seconds(observed.since_ns),
        "ended": ended,
    }


def _checkpoint(history: History, ended: CheckpointObserved) -> Plain:
    return {
        "number": ended.number,
        "time_s": history.seconds(ended.ended_ns),
        "bytes": ended.bytes,
        "bytes_written": ended.bytes_written,
        "took_ms": plain_number(ended.took_ns / 1e6),
        "failed_because": ended.failed_because,
    }
