"""What an instance does at a barrier: a lessee surrenders its partial state, the lessor merges and runs on.

The function's discipline defines what a partial state is. The worker decides when a barrier begins and ends
(`worker/leasing/`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stretto.actors import marking
from stretto.actors.channel import Message
from stretto.actors.critical import Mark, UserCritical
from stretto.actors.discipline import exported
from stretto.actors.work import Adoption, Barrier, Errand, Outcome, Surrender
from stretto.errors import FunctionError
from stretto.state.packing import unpacked

if TYPE_CHECKING:
    from stretto.actors.instance import Instance


def run_barrier(instance: Instance, barrier: Barrier, now_ns: int) -> Outcome:
    """Merges the partial states and runs the critical messages, in one run."""
    outcome = Outcome(max(message.arrived_ns for message in barrier.messages))
    outcome.progress_us = max((m.progress_us for m in barrier.messages if m.progress_us is not None), default=None)
    for part in barrier.parts:
        instance.discipline.consolidate(instance.function, part)
    first = barrier.messages[0]
    if isinstance(first.payload, Mark):
        # Answers must not depend on when checkpoints are taken, so the state is not shared again.
        marking.pass_mark(instance, first.payload, outcome)
        return outcome
    if isinstance(first.payload, UserCritical) and first.payload.one:
        _run_together(instance, barrier.messages, outcome)
    else:
        for message in barrier.messages:
            instance.apply_critical(message.channel, message.payload, outcome)
    share(instance, outcome)
    return outcome


def _run_together(instance: Instance, messages: list[Message], outcome: Outcome) -> None:
    """Runs a barrier over all upstream actors: one call with the payloads of all their critical messages, in the order
    of the actors."""
    messages = sorted(messages, key=lambda message: (message.channel.sender, message.channel.input))
    names = sorted({message.payload.name for message in messages})
    if len(names) > 1:
        raise FunctionError(
            f"function '{instance.address.function}' waits for one barrier and was sent several",
            f"critical messages {', '.join(names)}",
            "Send a critical message with every_upstream=True from all functions that feed it, in the same order.",
        )
    instance.ctx.input = messages[0].channel.input
    instance.function.on_critical(names[0], [message.payload.payload for message in messages], instance.ctx)
    instance.collect(outcome)


def surrender(instance: Instance, errand: Surrender, now_ns: int) -> Outcome:
    """Takes the partial state from a lessee."""
    outcome = Outcome(now_ns)
    outcome.states = instance.discipline.surrender(instance.function)
    return outcome


def run_adoption(instance: Instance, adoption: Adoption, now_ns: int) -> Outcome:
    """Gives the consolidated state to a lessee."""
    adopt(instance, adoption.states)
    return Outcome(now_ns)


APPLIES: dict[type[Errand], Callable[[Any, Any, int], Outcome]] = {
    Barrier: run_barrier,
    Surrender: surrender,
    Adoption: run_adoption,
}


def share(instance: Instance, outcome: Outcome) -> None:
    """Exports the consolidated state after a barrier, for all instances of a function that reads it."""
    if instance.function.reads_consolidated:
        outcome.states = exported(instance.function)
        adopt(instance, outcome.states)


def adopt(instance: Instance, states: bytes) -> None:
    """Makes this the consolidated state that the function reads."""
    instance.consolidated = states
    consolidated = {}
    for name, content in unpacked(states).items():
        consolidated[name] = instance.function.states()[name].fresh()
        consolidated[name].restore(content)
    instance.ctx.adopt(consolidated)
