"""Juice: the share of the sources' input that is processed to the end, whatever its rate (thesis 3.3 and 3.4).

J of a function, for each source, is the sum over its parents of J of the parent, times the rows that it executed of
theirs, by the rows that the parent sent to all its children (equation 3.3). So a fork splits the juice, a join adds it
up, and a filter does not lower it. The juice of the job is the sum over its ends by the number of sources (3.4).

Source input are the rows that arrive at a source in the interval. Storm's spouts take all of it, so J of a source is 1
there. Here a source that has no credits reads late, and what waits in front of it is input too: J of a source is what
it has read by what was due (`due_rows.py`). Otherwise juice would be near 1 however much a job is overloaded.

Three more things are ours. An end is a function that has sent nothing: what a filter dropped, or a window has not
emitted yet, was processed. Of the rows from a parent, at most as many count as it has sent in the interval: a function
that works off a backlog would otherwise hide that another one falls behind. And a source that has sent nothing has no
input, so it is not counted, unless rows were due and it has read none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stretto.actors.metrics import FunctionMetrics


def juice(functions: Mapping[str, FunctionMetrics], sources: Collection[str] | None = None) -> float | None:
    """Returns the juice of a job's functions, which come in topological order, or None without input. Without
    `sources`, those that have received nothing are taken for the sources."""
    sent = {name: sum(metrics.sent_to.values()) for name, metrics in functions.items()}
    if sources is None:
        sources = [name for name, metrics in functions.items() if not metrics.messages_in]
    spouts = [name for name in functions if name in sources and (sent[name] or _is_shut(functions[name]))]
    if not spouts:
        return None
    total = sum(_reached(spout, functions, sent) for spout in spouts)
    return min(1.0, total / len(spouts))


def _is_shut(source: FunctionMetrics) -> bool:
    return not source.rows_in and source.rows_due > 0


def _taken(source: FunctionMetrics) -> float:
    """Returns J of a source. One that works off a backlog reads more than was due, which counts as all."""
    return min(1.0, source.rows_in / source.rows_due) if source.rows_due > 0 else 1.0


def _reached(spout: str, functions: Mapping[str, FunctionMetrics], sent: Mapping[str, int]) -> float:
    """Returns the sum of J over all ends, for one source."""
    found = dict.fromkeys(functions, 0.0)
    found[spout] = _taken(functions[spout])
    for name, metrics in functions.items():
        for parent, executed in metrics.executed_from.items():
            if sent.get(parent):
                of_it = min(executed, functions[parent].sent_to.get(name, 0))
                found[name] += found[parent] * of_it / sent[parent]
    return sum(found[name] for name in functions if not sent[name])
