"""The message path bench measures what it claims: the given number of messages waits, and every step is present."""

from __future__ import annotations

from stretto.bench import message_path


def test_so_many_messages_wait_as_are_asked_for() -> None:
    worker, batch = message_path._worker(4, "me~1"), message_path._batch()
    fed = list(worker.jobs["job"].seats.values())[:4]
    run = message_path._preload(worker, fed, batch, 41)
    assert run is not None
    assert sum(len(seat.mailbox) for seat in fed) == 40, "all but the one that runs"
    assert max(len(seat.mailbox) for seat in fed) <= 11


def test_a_round_tells_the_cost_of_each_step() -> None:
    local = message_path._local_round(50)
    assert list(local) == ["receive, enqueue, schedule", "apply a no-op", "number, send, give back credit"]
    assert all(cost > 0 for cost in local.values())


def test_growth_is_measured_with_few_and_with_many() -> None:
    assert message_path._growth(1, pending=3, messages=50) > 0
    assert message_path._growth(20, pending=500, messages=50) > 0
