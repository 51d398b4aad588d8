"""The simple strategies by themselves: when a lessor forwards, and whom a sender picks."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from stretto.actors.metrics import FunctionMetrics
from stretto.scheduling.spreading import DirectSend, Near, RejectSend


def lessor(queued: int, cost_ms: float) -> Any:
    """As much of a lessor as a strategy looks at."""
    metrics = FunctionMetrics(messages_in=10, busy_ns=int(10 * cost_ms * 1e6))
    return SimpleNamespace(mailbox=deque(range(queued)), metrics=metrics)


@pytest.mark.parametrize(
    ("queued", "cost_ms", "busy", "chosen"),
    [
        (3, 5.0, {}, None),  # Below the threshold.
        (4, 5.0, {}, "a"),
        (8, 0.01, {}, None),  # Done sooner than forwarded.
        (8, 5.0, {"a": 3, "b": 1}, "b"),  # The least busy.
        (4, 5.0, {"a": 4, "b": 9}, None),  # They are no better off.
    ],
)
def test_a_lessor_forwards_what_it_cannot_do_soon(
    queued: int, cost_ms: float, busy: dict[str, int], chosen: str | None
) -> None:
    strategy = RejectSend(threshold=4)
    strategy.desk = SimpleNamespace(busy=lambda lessor, member: busy.get(member, 0))  # type: ignore[assignment]
    message: Any = None
    assert strategy.enqueue(lessor(queued, cost_ms), message, ["a", "b"]) == chosen
    assert strategy.enqueue(lessor(queued, cost_ms), message, []) is None


def channel(credits: int = 32, local: object | None = None) -> Any:
    return SimpleNamespace(seq=0, credits=credits, local=local)


def dealt(home: Any, direct: list[Any], batches: int) -> list[int]:
    """How many batches each gets: the lessor, then the lessees."""
    pending: Any = None
    for _ in range(batches):
        DirectSend().prepare_send(home, direct, pending).seq += 1
    return [place.seq for place in (home, *direct)]


def test_senders_deal_in_turn_and_pass_over_who_has_no_credits() -> None:
    assert dealt(channel(), [channel(), channel()], 6) == [2, 2, 2]
    assert dealt(channel(), [channel(), channel(credits=0)], 6)[2] == 0
    assert dealt(channel(credits=0), [channel(credits=0)], 3) == [3, 0]  # The lessor is the last resort.


def test_a_near_lessee_is_wanted_only_where_the_lessor_is_not() -> None:
    assert not Near().wants_direct(channel(local=object()))
    assert Near().wants_direct(channel())
    near, home, pending = channel(), channel(), channel()
    assert Near().prepare_send(home, [near], pending) is near
    assert Near().prepare_send(home, [channel(credits=0)], pending) is home
