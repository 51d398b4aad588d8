"""The states of a dual-mode actor's mailbox, and the one table of moves between them (dirigo.txt 4.1).

Outside of barriers an actor runs in parallel: its lessor and its lessees are RUNNABLE. At a barrier each instance is
BLOCKED once it has run what came before. Only the lessor turns CRITICAL, when it has all partial states.
"""

from __future__ import annotations

from enum import Enum

from stretto.errors import InvariantError


class Role(Enum):
    """Which instance of an actor it is: the one at the actor's home, or one elsewhere that holds a lease."""

    LESSOR = "lessor"
    LESSEE = "lessee"


class MailboxState(Enum):
    """What an instance may run: anything, nothing, or the critical messages alone."""

    RUNNABLE = "runnable"
    BLOCKED = "blocked"
    CRITICAL = "critical"


class Trigger(Enum):
    """Why a mailbox changes its state."""

    DEPENDENCIES_DONE = "the dependency set is done"
    CONSOLIDATED = "all partial states are here"
    COMPLETED = "critical messages ran, and all ACKs are here"
    LEASED = "LEASE"
    UNSYNC = "UNSYNC"
    RELEASED = "UNSYNC that ends the lease"


TRANSITIONS: dict[tuple[Role, MailboxState, Trigger], MailboxState] = {
    (Role.LESSOR, MailboxState.RUNNABLE, Trigger.DEPENDENCIES_DONE): MailboxState.BLOCKED,
    (Role.LESSOR, MailboxState.BLOCKED, Trigger.CONSOLIDATED): MailboxState.CRITICAL,
    (Role.LESSOR, MailboxState.CRITICAL, Trigger.COMPLETED): MailboxState.RUNNABLE,
    (Role.LESSEE, MailboxState.BLOCKED, Trigger.LEASED): MailboxState.RUNNABLE,
    (Role.LESSEE, MailboxState.RUNNABLE, Trigger.DEPENDENCIES_DONE): MailboxState.BLOCKED,
    (Role.LESSEE, MailboxState.BLOCKED, Trigger.UNSYNC): MailboxState.RUNNABLE,
    (Role.LESSEE, MailboxState.BLOCKED, Trigger.RELEASED): MailboxState.BLOCKED,
}
"""All moves. A lessee begins BLOCKED: it runs nothing before its lease arrives."""

BEGINNING = {Role.LESSOR: MailboxState.RUNNABLE, Role.LESSEE: MailboxState.BLOCKED}


def moved(role: Role, state: MailboxState, trigger: Trigger) -> MailboxState:
    """Returns the state after a trigger; a move that is not in the table is a fault of the protocol."""
    try:
        return TRANSITIONS[role, state, trigger]
    except KeyError:
        raise InvariantError(f"a {role.value} that is {state.value} met: {trigger.value}") from None


def diagram() -> str:
    """Returns the table as a Mermaid state diagram. ARCHITECTURE.md contains it, and a test compares the two."""
    lines = ["stateDiagram-v2"]
    for role in Role:
        lines.append(f"  state {role.value} {{")
        lines.append(f"    [*] --> {role.value}_{BEGINNING[role].value}")
        for (of, state, trigger), after in TRANSITIONS.items():
            if of is role:
                lines.append(f"    {role.value}_{state.value} --> {role.value}_{after.value}: {trigger.value}")
        lines.append("  }")
    return "\n".join(lines)
