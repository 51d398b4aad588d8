"""The rules of a barrier at a lessee (step 2), and of what a lessee runs between barriers.

`here~1` has a lessee of an actor whose home is `lessor~1`. Messages come forwarded by the lessor, or directly from the
upstream worker `up~1`.
"""

from __future__ import annotations

from tests.unit.worker.scenario import (
    Scenario,
    Sharing,
    batch,
    lease,
    offered,
    register,
    registered,
    schedule_reply,
    schedule_request,
    sync_ack,
    sync_reply,
    sync_request,
    unsync,
    upto,
)


def leased(**more: object) -> Scenario:
    s = Scenario.lessee(**more)
    s.arrives(lease(watermark=10, criticals=1), by="lessor~1")
    return s


# Between barriers.


def test_a_lessee_runs_nothing_before_its_lease() -> None:
    s = Scenario.lessee()
    s.arrives(batch(1), by="up~1")
    assert s.seen == []
    s.arrives(lease(), by="lessor~1")
    assert s.seen == [batch(1)]


def test_a_lease_of_a_worker_that_is_not_the_lessor_is_ignored() -> None:
    s = Scenario.lessee()
    s.arrives(lease(), by="lessee~2")
    s.arrives(batch(1), by="up~1")
    assert s.seen == []


def test_a_lessee_runs_what_is_forwarded_and_what_is_sent_to_it_directly() -> None:
    s = leased()
    s.arrives(batch(1), by="lessor~1")
    s.arrives(batch(2), by="up~1")
    assert s.seen == [batch(1), batch(2)]
    assert s.sent_to("down~1") == [batch(1), batch(2)]


def test_a_lessee_returns_all_credits_when_nothing_waits_any_more() -> None:
    """A lessor counts what its lessees have not returned: one that kept some back while it is idle would look busy, and
    would get nothing more because of that."""
    s = leased()
    with s.busy():
        for number in range(1, 8):
            s.arrives(batch(number), by="lessor~1")
        s.arrives(batch(8), by="up~1")
        s.arrives(batch(9), by="up~1")
    assert len(s.seen) == 9
    assert sum(s.credits_to("lessor~1")) == 7
    assert len(s.credits_to("up~1")) >= 1
    s.arrives(batch(10), by="lessor~1")
    assert s.credits_to("lessor~1") == [1]


def test_a_lessee_with_more_to_do_returns_credits_together() -> None:
    s = leased()
    with s.busy():
        for number in range(1, 12):
            s.arrives(batch(number), by="lessor~1")
    assert s.credits_to("lessor~1") == [1, 2, 4, 4]


def test_a_lessee_starts_at_the_event_time_of_its_lease() -> None:
    s = leased()
    s.arrives(batch(1), by="lessor~1")
    assert s.log.event_time == 10


def test_a_lessee_that_may_refuse_says_whether_it_takes_a_forwarded_message() -> None:
    s = leased(may_refuse=True)
    s.arrives(batch(1), by="lessor~1")
    s.refuses()
    s.arrives(batch(2), by="lessor~1")
    assert s.sent_to("lessor~1") == [offered(1, taken=True), offered(2, taken=False)]
    assert s.seen == [batch(1)]


def test_a_lessee_may_not_refuse_what_upstream_sends_to_it_directly() -> None:
    s = leased(may_refuse=True)
    s.refuses()
    s.arrives(batch(1), by="up~1")
    assert s.seen == [batch(1)]
    assert s.sent_to("lessor~1") == []


# Step 2: its part in a barrier.


def test_a_lessee_whose_part_is_done_replies_at_once() -> None:
    s = leased()
    s.arrives(batch(1), by="lessor~1")
    s.arrives(sync_request(1, last=[upto("lessor~1", "here~1", 1)]), by="lessor~1")
    assert s.sent_to("lessor~1") == [sync_reply(1, states=[1])]


def test_a_lessee_whose_part_is_not_done_acknowledges_first() -> None:
    s = leased()
    s.arrives(sync_request(1, last=[upto("up~1", "here~1", 1)]), by="lessor~1")
    assert s.sent_to("lessor~1") == [sync_ack(1)]
    s.arrives(batch(1), by="up~1")
    assert s.sent_to("lessor~1") == [sync_reply(1, states=[1])]


def test_the_dependency_set_of_every_channel_is_awaited() -> None:
    s = leased()
    s.arrives(batch(1), by="lessor~1")
    s.arrives(sync_request(1, last=[upto("lessor~1", "here~1", 1), upto("up~1", "here~1", 2)]), by="lessor~1")
    s.arrives(batch(2), by="up~1")
    assert s.sent_to("lessor~1") == [sync_ack(1)]
    s.arrives(batch(3), by="up~1")
    assert s.sent_to("lessor~1") == [sync_reply(1, states=[1, 2, 3])]


def test_what_is_not_in_the_dependency_set_waits_until_the_barrier_is_over() -> None:
    s = leased()
    s.arrives(sync_request(1, last=[upto("up~1", "here~1", 1)]), by="lessor~1")
    s.arrives(batch(5), by="elsewhere~1")
    s.arrives(batch(1), batch(2), by="up~1")
    assert s.seen == [batch(1)]
    assert s.sent_to("lessor~1") == [sync_ack(1), sync_reply(1, states=[1])]
    s.arrives(unsync(1), by="lessor~1")
    assert s.seen == [batch(1), batch(5), batch(2)]


def test_what_waits_already_and_is_not_in_the_dependency_set_does_not_run() -> None:
    s = leased()
    with s.busy():
        s.arrives(batch(5), by="elsewhere~1")
        s.arrives(batch(1), by="up~1")
        s.arrives(sync_request(1, last=[upto("up~1", "here~1", 1)]), by="lessor~1")
    assert s.seen == [batch(1)]


def test_a_request_whose_part_is_empty_is_answered_although_messages_wait() -> None:
    s = leased()
    with s.busy():
        s.arrives(batch(1), by="up~1")
        s.arrives(sync_request(1, last=[]), by="lessor~1")
    assert s.seen == []
    assert s.sent_to("lessor~1") == [sync_reply(1, states=[])]


def test_a_message_that_the_lessee_has_refused_is_not_awaited() -> None:
    s = leased(may_refuse=True)
    s.refuses()
    s.arrives(batch(1), by="lessor~1")
    s.arrives(sync_request(1, last=[upto("lessor~1", "here~1", 1)]), by="lessor~1")
    assert s.sent_to("lessor~1") == [offered(1, taken=False), sync_reply(1)]


def test_a_repeated_request_is_ignored() -> None:
    s = leased()
    request = sync_request(1, last=[upto("lessor~1", "here~1", 1)])
    s.arrives(request, request, batch(1), request, unsync(1), request, batch(2), by="lessor~1")
    assert s.sent_to("lessor~1") == [sync_ack(1), sync_reply(1)]
    assert s.seen == [batch(1), batch(2)]


def test_an_old_request_is_ignored() -> None:
    s = leased()
    s.arrives(sync_request(2, last=[]), unsync(2), by="lessor~1")
    s.arrives(sync_request(1, last=[]), by="lessor~1")
    assert s.sent_to("lessor~1") == [sync_reply(2)]
    s.arrives(batch(1), by="lessor~1")
    assert s.seen == [batch(1)]


def test_a_request_of_a_worker_that_is_not_the_lessor_is_ignored() -> None:
    s = leased()
    s.arrives(sync_request(1, last=[]), by="lessee~2")
    s.arrives(batch(1), by="lessor~1")
    assert s.seen == [batch(1)]
    assert s.sent_to("lessee~2") == []


def test_a_reply_tells_how_far_the_lessee_has_sent_downstream() -> None:
    s = leased()
    s.arrives(batch(1), batch(2), by="lessor~1")
    s.arrives(sync_request(1, last=[]), by="lessor~1")
    assert s.sent_to("lessor~1") == [sync_reply(1, told=[upto("here~1", "down~1", 2)])]


def test_a_reply_tells_of_every_channel_that_was_used_since_the_last_barrier_and_of_no_other() -> None:
    s = leased(downs=2)
    s.arrives(batch(1), batch(2), by="lessor~1")
    s.arrives(sync_request(1, last=[]), by="lessor~1")
    used = [upto("here~1", "down~1", 1), upto("here~1", "down~2", 1)]
    assert s.sent_to("lessor~1") == [sync_reply(1, told=used)]
    s.arrives(unsync(1), batch(3), sync_request(2, last=[]), by="lessor~1")
    (reply,) = s.sent_to("lessor~1")
    assert reply in (
        sync_reply(2, told=[upto("here~1", "down~1", 2)]),
        sync_reply(2, told=[upto("here~1", "down~2", 2)]),
    )


def test_a_reply_tells_of_what_was_sent_directly_to_lessees_of_downstream() -> None:
    s = leased(down_lessees=2)
    s.arrives(batch(1), by="lessor~1")
    assert s.sent_to("down~1") == [register(1), batch(1)]
    s.arrives(registered(1, lessees=["lessee~2"]), by="down~1")
    s.arrives(batch(2), by="lessor~1")
    assert s.sent_to("lessee~2") == [batch(2)]
    s.arrives(sync_request(1, last=[]), by="lessor~1")
    told = [upto("here~1", "down~1", 1), upto("here~1", "lessee~2", 1)]
    assert s.sent_to("lessor~1") == [sync_reply(1, told=told)]


def test_a_reply_waits_until_it_is_decided_where_all_batches_go() -> None:
    s = leased(down_lessees=2)
    s.arrives(batch(1), by="lessor~1")
    s.arrives(registered(1, lessees=["lessee~2"]), by="down~1")
    s.asks_before_it_sends()
    s.arrives(batch(2), by="lessor~1")
    s.arrives(sync_request(1, last=[]), by="lessor~1")
    assert s.sent_to("lessee~2") == [schedule_request(1)]
    assert s.sent_to("lessor~1") == []
    s.arrives(schedule_reply(1), by="lessee~2")
    assert s.sent_to("lessor~1") == [sync_reply(1, told=[upto("here~1", "down~1", 2)])]


def test_the_state_that_was_given_away_is_not_given_again() -> None:
    s = leased()
    s.arrives(batch(1), sync_request(1, last=[]), unsync(1), batch(2), sync_request(2, last=[]), by="lessor~1")
    assert s.sent_to("lessor~1") == [sync_reply(1, states=[1]), sync_reply(2, states=[2])]


# The end of the barrier.


def test_a_lessee_runs_nothing_until_the_barrier_is_over() -> None:
    s = leased()
    s.arrives(sync_request(1, last=[]), batch(1), by="lessor~1")
    assert s.seen == []
    s.arrives(unsync(1, keep=True), by="lessor~1")
    assert s.seen == [batch(1)]


def test_a_lessee_resumes_at_the_event_time_of_the_barrier() -> None:
    s = leased()
    s.arrives(sync_request(1, last=[]), unsync(1, watermark=30), batch(1), by="lessor~1")
    assert s.log.event_time == 30


def test_the_end_of_another_barrier_is_ignored() -> None:
    s = leased()
    s.arrives(sync_request(2, last=[]), unsync(1), batch(1), by="lessor~1")
    assert s.seen == []


def test_the_end_of_a_barrier_said_by_a_worker_that_is_not_the_lessor_is_ignored() -> None:
    s = leased()
    s.arrives(sync_request(1, last=[]), batch(1), by="lessor~1")
    s.arrives(unsync(1), by="lessee~2")
    assert s.seen == []


def test_the_end_of_a_barrier_that_is_over_is_ignored() -> None:
    s = leased()
    s.arrives(sync_request(1, last=[]), unsync(1, watermark=30), unsync(1, watermark=99), batch(1), by="lessor~1")
    assert s.log.event_time == 30


def test_a_lessee_that_has_lost_its_lease_runs_nothing_until_another_one() -> None:
    s = leased()
    s.arrives(sync_request(1, last=[]), unsync(1, keep=False), by="lessor~1")
    s.arrives(batch(1), by="up~1")
    assert s.seen == []
    s.arrives(lease(), by="lessor~1")
    assert s.seen == [batch(1)]


def test_after_a_barrier_a_lessee_asks_again_for_lessees_with_its_actors_count_of_critical_messages() -> None:
    s = leased(down_lessees=2)
    s.arrives(batch(1), by="lessor~1")
    s.arrives(registered(1, lessees=["lessee~2"]), by="down~1")
    s.arrives(sync_request(1, last=[]), unsync(1, criticals=2), by="lessor~1")
    s.sent_to("down~1")
    s.arrives(batch(2), by="lessor~1")
    assert s.sent_to("down~1") == [register(2), batch(2)]
    assert s.sent_to("lessee~2") == []


# State that is shared.


def test_a_lease_brings_the_state_that_the_function_reads() -> None:
    s = Scenario.lessee(function=Sharing)
    s.arrives(batch(1), by="up~1")
    s.arrives(lease(states=[7]), by="lessor~1")
    assert s.seen == [batch(1)]
    assert s.log.consolidated == [7]


def test_unsync_brings_the_state_that_the_function_reads() -> None:
    s = leased(function=Sharing)
    s.arrives(sync_request(1, last=[]), batch(1), unsync(1, states=[7, 8]), by="lessor~1")
    assert s.seen == [batch(1)]
    assert s.log.consolidated == [7, 8]


def test_the_state_that_is_read_is_not_a_part_of_the_partial_state() -> None:
    s = Scenario.lessee(function=Sharing)
    s.arrives(lease(states=[7]), batch(1), sync_request(1, last=[]), by="lessor~1")
    assert s.sent_to("lessor~1") == [sync_reply(1, states=[1])]
