"""Computes the answer of a deployment sequentially: one function after the other, without workers, messages or time.

It shares only the functions with the machines, so it is an independent reference for them.
"""

from __future__ import annotations

from collections import deque

from stretto.actors.channel import InChannel, Message, Payload
from stretto.actors.critical import Granularity, granularity
from stretto.actors.deployment import Deployment
from stretto.actors.instance import Instance
from stretto.actors.wiring import wire
from stretto.actors.work import OPEN, POLL, Barrier, Outcome
from stretto.simulator.checking.checkers import CRITICAL

Queues = dict[InChannel, deque[Payload]]


def run_sequentially(deployment: Deployment) -> None:
    """Run all functions to their end, in topological order, in this thread."""
    placement = {name: ["here"] * spec.parallelism for name, spec in deployment.functions.items()}
    seats = wire("here", deployment, placement, 0).seats
    instances = {address: seat.instance for address, seat in seats.items()}
    queues: Queues = {channel: deque() for instance in instances.values() for channel in instance.inputs}
    for name in deployment.functions:
        for address, instance in instances.items():
            if address.function == name:
                _run(instance, queues)


def _run(instance: Instance, queues: Queues) -> None:
    _collect(instance.apply(OPEN, 0), queues)
    while instance.is_source:
        outcome = instance.apply(POLL, 0)
        _collect(outcome, queues)
        if outcome.finished:
            return
    while any(queues[channel] for channel in instance.inputs):
        _run_to_the_next_joint_barrier(instance, queues)


def _run_to_the_next_joint_barrier(instance: Instance, queues: Queues) -> None:
    """Run all messages before a critical message that needs one from every upstream actor, then these together."""
    together = []
    for channel in instance.inputs:
        queue = queues[channel]
        while queue and not _is_joint(queue[0]):
            _collect(instance.apply(Message(channel, 0, queue.popleft(), 0), 0), queues)
        if queue:
            together.append(Message(channel, 0, queue[0], 0))
    live = [channel for channel in instance.inputs if not channel.ended]
    if together and len(together) == len(live):
        for message in together:
            queues[message.channel].popleft()
        _collect(instance.apply(Barrier(together, []), 0), queues)


def _is_joint(payload: Payload) -> bool:
    return isinstance(payload, CRITICAL) and granularity(payload) is Granularity.ONE


def _collect(outcome: Outcome, queues: Queues) -> None:
    for out, payload in outcome.sends:
        assert out.local is not None
        queues[out.local].append(payload)
