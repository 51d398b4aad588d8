"""A rule that is broken is noticed: its scenario fails when it is played to a machine with the fault.

The faults are those that the simulator must catch. Those that no scenario here could notice are not of the worker
alone: they need a second attempt of a job, or the coordinator.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.worker import test_barrier_rules as barrier
from tests.unit.worker import test_checkpoint_rules as checkpoint
from tests.unit.worker import test_lessee_rules as lessee
from tests.unit.worker import test_registration_rules as registration
from tests.unit.worker.scenario import machine_with

from stretto.errors import InvariantError
from stretto.simulator.checking import fault_mutations, mutations

Rule = Callable[[], None]

BROKEN: dict[str, list[Rule]] = {
    "no-dependency-payload": [
        barrier.test_what_the_lessees_have_told_goes_with_the_critical_message_to_downstream,
        barrier.test_what_was_told_is_kept_until_a_critical_message_is_sent,
        registration.test_critical_messages_go_to_the_lessor_and_say_how_far_was_sent_to_lessees,
        registration.test_a_lessor_that_sends_directly_says_so_beside_what_its_lessees_told,
        checkpoint.test_at_a_mark_lessees_give_their_partial_states_as_at_any_barrier,
    ],
    "unsync-before-ack": [
        barrier.test_the_barrier_ends_with_the_acks_of_all_actors_downstream,
        barrier.test_what_was_held_back_runs_when_the_barrier_is_over,
    ],
    "ack-on-receipt": [
        barrier.test_upstream_gets_its_ack_when_all_lessees_have_acknowledged_and_not_before,
        barrier.test_an_acknowledgement_of_an_earlier_barrier_does_not_count,
        barrier.test_a_lessee_that_acknowledges_twice_does_not_speak_for_another,
    ],
    "ack-never": [
        barrier.test_upstream_gets_its_ack_when_all_lessees_have_acknowledged_and_not_before,
        barrier.test_a_reply_is_an_acknowledgement_too,
        barrier.test_an_actor_without_lessees_runs_the_critical_message_at_once,
        barrier.test_critical_messages_that_wait_together_share_a_barrier,
    ],
    "register-while-blocked": [
        registration.test_a_registration_waits_while_a_barrier_is_under_way,
        registration.test_a_registration_waits_until_the_critical_messages_before_it_have_run,
        registration.test_a_registration_waits_for_a_critical_message_that_needs_no_barrier_too,
        registration.test_a_registration_waits_until_downstream_has_come_to_the_critical_messages_of_the_actor,
    ],
    "stale-registration": [
        registration.test_an_answer_from_before_the_last_critical_message_is_not_used,
        registration.test_an_answer_that_comes_during_a_barrier_of_the_sender_is_not_used,
    ],
    "reply-early": [
        lessee.test_a_lessee_whose_part_is_not_done_acknowledges_first,
        lessee.test_the_dependency_set_of_every_channel_is_awaited,
        lessee.test_what_is_not_in_the_dependency_set_waits_until_the_barrier_is_over,
    ],
    "critical-overtakes-undecided": [
        lessee.test_a_reply_waits_until_it_is_decided_where_all_batches_go,
        registration.test_a_critical_message_waits_until_it_is_decided_where_the_batches_before_it_go,
    ],
    "offers-forgotten": [
        barrier.test_what_precedes_the_critical_message_on_its_channel_runs_first,
        barrier.test_no_barrier_begins_while_it_is_not_known_who_runs_a_forwarded_message,
        barrier.test_a_message_that_was_offered_delays_the_barriers_of_other_channels_too,
    ],
    "refused-lost": [
        barrier.test_a_message_that_the_lessee_refuses_runs_at_the_lessor,
        barrier.test_what_precedes_the_critical_message_on_its_channel_runs_first,
    ],
    "forwards-uncounted": [
        barrier.test_a_request_names_what_was_forwarded_to_the_lessee,
        barrier.test_a_lessee_that_has_lost_its_lease_gets_another_before_the_next_message,
    ],
    "forward-past-critical": [
        barrier.test_nothing_is_forwarded_while_acks_are_outstanding,
        barrier.test_nothing_that_follows_a_critical_message_of_its_sender_is_forwarded_before_that_has_run,
        barrier.test_what_waited_is_forwarded_only_up_to_the_next_critical_message_of_its_sender,
    ],
    "lease-forgotten": [
        barrier.test_a_request_goes_to_every_lessee_that_holds_a_lease,
        barrier.test_the_critical_message_runs_only_with_the_replies_of_all_lessees,
        registration.test_a_lessee_that_was_given_to_a_sender_has_a_part_in_the_barrier,
    ],
    "pending-released": [
        barrier.test_what_follows_the_critical_message_on_its_channel_is_held_back_and_other_channels_are_not,
        barrier.test_what_was_held_back_before_the_barrier_began_runs_after_it_in_its_order,
        barrier.test_a_joint_barrier_holds_back_what_follows_on_each_channel,
        checkpoint.test_an_actor_holds_back_what_follows_a_mark_until_the_marks_of_all_upstream_actors_are_there,
        checkpoint.test_a_checkpoint_that_is_called_off_releases_what_was_held_back_for_it,
    ],
    "run-while-blocked": [
        barrier.test_once_the_barrier_has_begun_nothing_runs_on_any_channel,
        barrier.test_what_was_held_back_runs_when_the_barrier_is_over,
    ],
    "joint-at-first": [
        barrier.test_a_joint_barrier_waits_for_a_critical_message_of_every_upstream_actor,
        barrier.test_a_joint_barrier_holds_back_what_follows_on_each_channel,
        barrier.test_an_upstream_actor_that_ends_while_it_is_waited_for_lets_the_joint_barrier_begin,
        checkpoint.test_an_actor_holds_back_what_follows_a_mark_until_the_marks_of_all_upstream_actors_are_there,
        checkpoint.test_a_mark_that_a_joint_message_of_the_user_crosses_is_declined,
    ],
    "state-lost": [
        barrier.test_the_critical_message_sees_the_states_of_all_instances_merged,
        barrier.test_unsync_brings_the_consolidated_state_to_the_lessees,
        checkpoint.test_at_a_mark_lessees_give_their_partial_states_as_at_any_barrier,
    ],
    "state-kept": [
        lessee.test_the_state_that_was_given_away_is_not_given_again,
    ],
    "nothing-told": [
        lessee.test_a_reply_tells_how_far_the_lessee_has_sent_downstream,
        lessee.test_a_reply_tells_of_every_channel_that_was_used_since_the_last_barrier_and_of_no_other,
        lessee.test_a_reply_tells_of_what_was_sent_directly_to_lessees_of_downstream,
    ],
    "told-forgotten": [
        barrier.test_what_was_told_is_kept_until_a_critical_message_is_sent,
    ],
    "owed-forgotten": [
        barrier.test_what_a_noted_watermark_depends_on_is_owed_to_the_next_barrier,
        barrier.test_what_a_noted_watermark_depends_on_at_the_lessor_delays_the_next_barrier,
        checkpoint.test_what_a_void_mark_depends_on_is_owed_to_the_next_barrier,
    ],
    "state-not-shared": [
        barrier.test_unsync_brings_the_consolidated_state_to_the_lessees,
    ],
    "offset-forgotten": [
        checkpoint.test_a_source_sends_a_mark_between_two_reads_and_notes_its_position,
    ],
    "sealed-forgotten": [
        checkpoint.test_a_sink_seals_at_the_mark_what_it_got_before_it,
        checkpoint.test_a_sink_that_has_finished_still_has_a_part_in_checkpoints,
    ],
    "watermarks-forgotten": [
        checkpoint.test_a_snapshot_has_how_far_event_time_is_on_each_channel,
    ],
    "publish-at-once": [
        checkpoint.test_a_sink_publishes_when_the_checkpoint_is_complete_and_not_before,
    ],
    "failure-ignored": [
        checkpoint.test_a_snapshot_that_could_not_be_stored_is_reported_with_the_reason,
        checkpoint.test_after_a_snapshot_that_could_not_be_stored_the_next_one_has_everything_again,
    ],
}
FAULTS = {
    **mutations.MUTATIONS,
    **{name: parts.worker for name, parts in fault_mutations.MUTATIONS.items() if parts.worker is not None},
}
CASES = [pytest.param(fault, rule, id=f"{fault}-{rule.__name__}") for fault in BROKEN for rule in BROKEN[fault]]


@pytest.mark.parametrize(("fault", "rule"), CASES)
def test_a_rule_that_is_broken_is_noticed(fault: str, rule: Rule) -> None:
    with machine_with(FAULTS[fault]), pytest.raises((AssertionError, InvariantError)):
        rule()


def test_every_fault_of_the_leases_breaks_a_rule() -> None:
    assert mutations.MUTATIONS.keys() <= BROKEN.keys()
