"""The table of mailbox states: its moves, the moves that it lacks, and its diagram in ARCHITECTURE.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from stretto.actors.mailbox_states import BEGINNING, TRANSITIONS, MailboxState, Role, Trigger, diagram, moved
from stretto.errors import InvariantError

ARCHITECTURE = Path(__file__).parents[3] / "ARCHITECTURE.md"


def test_a_lessor_cycles_through_blocked_and_critical() -> None:
    state = BEGINNING[Role.LESSOR]
    seen = [state]
    for trigger in (Trigger.DEPENDENCIES_DONE, Trigger.CONSOLIDATED, Trigger.COMPLETED):
        state = moved(Role.LESSOR, state, trigger)
        seen.append(state)
    assert seen == [MailboxState.RUNNABLE, MailboxState.BLOCKED, MailboxState.CRITICAL, MailboxState.RUNNABLE]


def test_a_lessee_runs_nothing_before_its_lease_and_is_never_critical() -> None:
    assert BEGINNING[Role.LESSEE] is MailboxState.BLOCKED
    reached = {after for (role, _, _), after in TRANSITIONS.items() if role is Role.LESSEE}
    assert reached == {MailboxState.RUNNABLE, MailboxState.BLOCKED}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("state", MailboxState)
@pytest.mark.parametrize("trigger", Trigger)
def test_every_other_move_is_a_fault(role: Role, state: MailboxState, trigger: Trigger) -> None:
    if (role, state, trigger) in TRANSITIONS:
        assert moved(role, state, trigger) is TRANSITIONS[role, state, trigger]
    else:
        with pytest.raises(InvariantError, match=role.value):
            moved(role, state, trigger)


def test_the_document_shows_this_table() -> None:
    assert diagram() in ARCHITECTURE.read_text(), "put the output of stretto.actors.mailbox_states.diagram() into it"
