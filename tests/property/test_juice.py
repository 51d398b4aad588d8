"""Juice against a model that traces tuples: on any topology, every tuple of a source is worth the same, and what an
operator has executed is worth as much as all that it sends on, however many tuples that are."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.actors.juice import juice
from stretto.actors.metrics import FunctionMetrics

Worth = dict[str, Fraction]


@st.composite
def runs(draw: Any) -> tuple[dict[str, FunctionMetrics], list[str], Fraction | None]:
    """A random run of a random DAG, tuple by tuple: the counts of each operator, the sources, and the juice."""
    names = [f"o{i}" for i in range(draw(st.integers(2, 7)))]
    spouts = names[: draw(st.integers(1, min(3, len(names) - 1)))]
    waiting: dict[str, list[tuple[str, Worth]]] = {name: [] for name in names}
    counts = {name: FunctionMetrics() for name in names}
    ended: Worth = dict.fromkeys(spouts, Fraction(0))
    with_input = []
    for place, name in enumerate(names):
        metrics, children = counts[name], [other for other in names[place + 1 :] if other not in spouts]
        if name in spouts:
            # Some of the tuples that are due may not have been read yet.
            metrics.rows_in, left = draw(st.integers(0, 4)), draw(st.integers(0, 4))
            metrics.rows_due = metrics.rows_in + left
            worth: Worth = {name: Fraction(metrics.rows_in, max(1, metrics.rows_due))}
            children = children if metrics.rows_in else []
            if left and not metrics.rows_in:
                with_input.append(name)
        else:
            # Any tuples of the queue may have been executed; the others wait.
            executed = [each for each in waiting[name] if draw(st.booleans())]
            metrics.messages_in = len(waiting[name])
            worth = {}
            for parent, carried in executed:
                metrics.executed_from[parent] = metrics.executed_from.get(parent, 0) + 1
                for spout, part in carried.items():
                    worth[spout] = worth.get(spout, Fraction(0)) + part
        # A filter sends fewer tuples, a flat map more, a fork to several children, or the same to all.
        targets = draw(st.lists(st.sampled_from(children), max_size=6)) if children else []
        if not targets:
            if name not in spouts:
                for spout, part in worth.items():
                    ended[spout] += part
            continue
        if name in spouts:
            with_input.append(name)
        for target in targets:
            metrics.sent_to[target] = metrics.sent_to.get(target, 0) + 1
            waiting[target].append((name, {spout: part / len(targets) for spout, part in worth.items()}))
    expected = sum((ended[spout] for spout in with_input), Fraction(0)) / len(with_input) if with_input else None
    return counts, spouts, expected


@given(runs())
def test_juice_is_what_tracing_every_tuple_finds(run: tuple[dict[str, FunctionMetrics], list[str], Any]) -> None:
    counts, spouts, expected = run
    found = juice(counts, spouts)
    assert (found is None) == (expected is None)
    if expected is not None:
        assert found == pytest.approx(float(expected))


@given(runs(), st.integers(2, 1_000))
def test_juice_does_not_depend_on_the_rate(run: tuple[dict[str, FunctionMetrics], list[str], Any], times: int) -> None:
    counts, spouts, _ = run
    faster = {
        name: FunctionMetrics(
            messages_in=metrics.messages_in,
            rows_in=times * metrics.rows_in,
            rows_due=times * metrics.rows_due,
            executed_from={parent: times * rows for parent, rows in metrics.executed_from.items()},
            sent_to={child: times * rows for child, rows in metrics.sent_to.items()},
        )
        for name, metrics in counts.items()
    }
    before, after = juice(counts, spouts), juice(faster, spouts)
    assert before == (None if after is None else pytest.approx(after))
