"""What becomes of a user's strategy that raises: the default decides for that function, and the worker runs on.

The worker reports it once. What the strategy had left open is resolved: no message is lost, no barrier waits for ever.
"""

from __future__ import annotations

import pytest
from tests.unit.worker.scenario import (
    Scenario,
    batch,
    critical,
    lease,
    misbehaved,
    offered,
    register,
    registered,
    schedule_reply,
    schedule_request,
    sync_reply,
    sync_request,
    watermark,
)


def direct() -> Scenario:
    """A sender that has sent batch 1 to the lessor and may send to `lessee~1`."""
    s = Scenario.sender()
    s.arrives(batch(1))
    s.arrives(registered(0, lessees=["lessee~1"]), by="down~1")
    s.sent_to("down~1")
    return s


def test_a_message_whose_strategy_raises_runs_at_home() -> None:
    s = Scenario.lessor()
    s.fails_in("enqueue")
    s.forwards(batch(1), to="lessee~1")
    assert s.seen == [batch(1)]
    assert s.sent_to("coordinator") == [misbehaved("actor", hook="enqueue")]


def test_it_is_not_asked_again_and_reported_once() -> None:
    s = Scenario.lessor()
    s.fails_in("enqueue")
    s.arrives(batch(1))
    s.fails_in("nothing")
    s.forwards(batch(2), to="lessee~1")
    assert s.sent_to("lessee~1") == []
    assert s.seen == [batch(1), batch(2)]
    assert s.sent_to("coordinator") == [misbehaved("actor")]


def test_lessees_that_it_has_given_messages_to_keep_their_part_in_the_barrier() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.fails_in("enqueue")
    s.arrives(batch(2), critical("flush"))
    assert s.sent_to("lessee~1") == [sync_request(1)]
    s.arrives(sync_reply(1, states=[1]), by="lessee~1")
    assert s.state == [2, 1]


def test_a_lessee_whose_strategy_raises_takes_what_is_forwarded_to_it_and_says_so() -> None:
    s = Scenario.lessee(may_refuse=True)
    s.arrives(lease(), by="lessor~1")
    s.refuses()
    s.fails_in("accept")
    s.arrives(batch(1), batch(2), by="lessor~1")
    assert s.sent_to("lessor~1") == [offered(1, taken=True), offered(2, taken=True)]
    assert s.seen == [batch(1), batch(2)]


def test_a_lessor_that_has_given_its_strategy_up_still_waits_for_what_lessees_say_of_its_offers() -> None:
    s = Scenario.lessor(may_refuse=True)
    s.forwards(batch(1), to="lessee~1")
    s.fails_in("enqueue")
    s.arrives(batch(2), critical("flush"))
    assert s.seen == [batch(2)]
    s.arrives(offered(1, taken=False), by="lessee~1")
    assert s.seen[1] == batch(1)


def test_a_sender_whose_strategy_raises_sends_to_the_lessor() -> None:
    s = direct()
    s.fails_in("prepare_send")
    s.arrives(batch(2))
    assert s.sent_to("down~1") == [batch(2)]
    assert s.sent_to("coordinator") == [misbehaved("down", hook="prepare_send")]


def test_a_sender_whose_strategy_raises_asks_for_no_lessees() -> None:
    s = Scenario.sender()
    s.fails_in("wants_direct")
    s.arrives(batch(1), batch(2))
    assert s.sent_to("down~1") == [batch(1), batch(2)]


@pytest.mark.parametrize("hook", ["prepare_send", "on_reply"])
def test_batches_without_a_place_go_to_the_lessor_and_the_critical_message_after_them(hook: str) -> None:
    s = direct()
    s.asks_before_it_sends()
    s.arrives(batch(2), batch(3))
    assert s.sent_to("lessee~1") == [schedule_request(1), schedule_request(2)]
    s.fails_in(hook)
    if hook == "prepare_send":
        s.arrives(batch(4), watermark(10))
        assert s.sent_to("down~1") == [batch(4), batch(2), batch(3), watermark(10)]
    else:
        s.arrives(watermark(10))
        assert s.sent_to("down~1") == []
        s.arrives(schedule_reply(1), by="lessee~1")
        assert s.sent_to("down~1") == [batch(2), batch(3), watermark(10)]
    assert s.sent_to("lessee~1") == []


def test_replies_that_come_after_it_was_given_up_are_ignored() -> None:
    s = direct()
    s.asks_before_it_sends()
    s.arrives(batch(2))
    s.fails_in("prepare_send")
    s.arrives(batch(3))
    s.sent_to("down~1")
    s.fails_in("nothing")
    s.arrives(schedule_reply(1), by="lessee~1")
    assert s.sent_to("down~1") == []
    assert s.refused == []


def test_a_sender_that_has_asked_for_lessees_hears_the_answer_and_runs_on() -> None:
    s = Scenario.sender(waits=True)
    s.arrives(batch(1))
    assert s.sent_to("down~1") == [register(0), batch(1)]
    s.fails_in("prepare_send")
    s.arrives(registered(0, lessees=["lessee~1"]), by="down~1")
    s.arrives(batch(2), batch(3))
    assert s.sent_to("down~1") == [batch(2), batch(3)]
