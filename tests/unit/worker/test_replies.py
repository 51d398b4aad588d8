"""Reply contexts: what the way below an seat costs, as its receivers tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from stretto.worker.channels import learn_reply


def sender(*costs_ns: float) -> Any:
    """An seat with a channel for each receiver, none of which has told anything yet."""
    seat = SimpleNamespace(path_ns=0.0, outs=[])
    for _ in costs_ns:
        channel = SimpleNamespace(seat=seat, extra=False, latency_ns=100, cost_ns=0.0, path_ns=0.0, budget_ns=100)
        seat.outs.append(channel)
    return seat


def test_the_longest_way_counts_also_when_it_becomes_shorter() -> None:
    seat = sender(1, 2)
    one, two = seat.outs
    learn_reply(one, 10, 5)
    learn_reply(two, 20, 10)
    assert seat.path_ns == 30
    assert two.budget_ns == 70
    learn_reply(two, 1, 1)
    assert seat.path_ns == 15


def test_a_lessee_is_not_on_the_way_below_its_lessor() -> None:
    seat = sender(1)
    learn_reply(seat.outs[0], 10, 5)
    forwards = SimpleNamespace(seat=seat, extra=True, latency_ns=100, cost_ns=0.0, path_ns=0.0, budget_ns=100)
    learn_reply(forwards, 50, 15)  # type: ignore[arg-type]
    assert seat.path_ns == 15
