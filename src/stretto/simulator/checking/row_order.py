"""Checks from the history of a run that the rows of each key ran once, in the order in which they were sent, and on the
right side of every critical message. It knows rows and keys, and nothing of shards, tasks or moves.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa

from stretto.simulator.checking.checkers import CRITICAL, Violation, dividing
from stretto.simulator.checking.history import Edge, Ended, History, Sent
from stretto.simulator.checking.scenarios import rows_of

Row = tuple[int, int, int]
Lines = dict[tuple[Edge, int], list[tuple[int, Row]]]
"""The rows of each edge and key in their order, each with the number of critical messages before it."""


def rows_in_order(history: History, functions: Collection[str], any_order: Collection[str] = ()) -> Iterator[Violation]:
    """Compares what was sent with what ran, on all edges between these functions. Those in `any_order` are spread by
    strategies: between two critical messages they may run rows in any order."""
    sent, ran = _sent(history), _ran(history)
    for edge, key in sorted(sent.keys() | ran.keys(), key=str):
        if edge[0].function in functions and edge[1].function in functions:
            before, after = sent.get((edge, key), []), ran.get((edge, key), [])
            if edge[1].function in any_order:
                before, after = sorted(before), sorted(after)
            if before != after:
                yield Violation(_kind(before, after), f"key {key} on {edge}: {_difference(before, after)}")


def _sent(history: History) -> Lines:
    divides = dividing(history)
    part: Counter[Edge] = Counter()
    lines: Lines = defaultdict(list)
    for event in history.happenings:
        if isinstance(event, Sent):
            if isinstance(event.payload, CRITICAL):
                part[event.edge] += next(divides[event.edge], True)
            else:
                _add(lines, event.edge, part[event.edge], event.payload)
    return lines


def _ran(history: History) -> Lines:
    part: Counter[Edge] = Counter()
    lines: Lines = defaultdict(list)
    for event in history.happenings:
        if isinstance(event, Ended):
            for edge, payload in zip(event.edges, event.payloads, strict=True):
                if isinstance(payload, CRITICAL):
                    part[edge] += 1
                else:
                    _add(lines, edge, part[edge], payload)
    return lines


def _add(lines: Lines, edge: Edge, part: int, batch: pa.RecordBatch) -> None:
    for row in rows_of(batch):
        lines[edge, row[1]].append((part, row))


def _kind(sent: list[Any], ran: list[Any]) -> str:
    missing, extra = Counter(sent) - Counter(ran), Counter(ran) - Counter(sent)
    if not missing and not extra:
        return "order"
    rows_sent, rows_ran = Counter(row for _, row in sent), Counter(row for _, row in ran)
    if rows_sent == rows_ran:
        return "barrier"
    return "lost" if rows_sent - rows_ran else "twice"


def _difference(sent: list[Any], ran: list[Any]) -> str:
    pairs = zip(sent, ran, strict=False)
    place = next((n for n, (one, other) in enumerate(pairs) if one != other), min(len(sent), len(ran)))
    return f"from row {place} on, sent {sent[place : place + 3]}, ran {ran[place : place + 3]}"
