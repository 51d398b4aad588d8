"""The simple strategies by themselves: when a lessor forwards, and whom a sender picks."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from stretto.actors.address import Address
from stretto.actors.gate import Lessee, LessorGate
from stretto.actors.metrics import FunctionMetrics
from stretto.scheduling.spreading import DirectSend, Near, RejectSend


def lessor(queued: int, cost_ms: float, busy: dict[str, int]) -> Any:
    """As much of a lessor as a strategy looks at; `busy` has the unanswered messages of each lessee."""
    gate = LessorGate(Address("job", "f", 0))
    for member, unsettled in busy.items():
        gate.lessees[member] = Lessee(member)
        gate.lessees[member].channels[Address("job", "up", 0), "in"] = SimpleNamespace(unsettled=unsettled)  # type: ignore[assignment]
    metrics = FunctionMetrics(messages_in=10, busy_ns=int(10 * cost_ms * 1e6))
    return SimpleNamespace(mailbox=deque(range(queued)), metrics=metrics, gate=gate)


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
    assert RejectSend(threshold=4).enqueue(lessor(queued, cost_ms, busy), ["a", "b"]) == chosen
    assert RejectSend(threshold=4).enqueue(lessor(queued, cost_ms, busy), []) is None


def channel(credits: int = 32, local: object | None = None) -> Any:
    return SimpleNamespace(seq=0, credits=credits, local=local)


def dealt(home: Any, direct: list[Any], batches: int) -> list[int]:
    """How many batches each gets: the lessor, then the lessees."""
    for _ in range(batches):
        DirectSend().prepare_send(home, direct).seq += 1
    return [place.seq for place in (home, *direct)]


def test_senders_deal_in_turn_and_pass_over_who_has_no_credits() -> None:
    assert dealt(channel(), [channel(), channel()], 6) == [2, 2, 2]
    assert dealt(channel(), [channel(), channel(credits=0)], 6)[2] == 0
    assert dealt(channel(credits=0), [channel(credits=0)], 3) == [3, 0]  # The lessor is the last resort.


def test_a_near_lessee_is_wanted_only_where_the_lessor_is_not() -> None:
    assert not Near().wants_direct(channel(local=object()))
    assert Near().wants_direct(channel())
    near, home = channel(), channel()
    assert Near().prepare_send(home, [near]) is near
    assert Near().prepare_send(home, [channel(credits=0)]) is home
