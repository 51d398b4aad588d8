"""From a deployment and a placement to the instances of one worker, with their channels bound.

Every worker wires the same graph from its own side: the instances that are placed on it, a receiving end for each
channel that leads to them, and a sending end for each channel that they feed, local ones joined to their receivers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from stretto.actors.address import Address
from stretto.actors.channel import GRANT_EXTRA_AT, InChannel, OutChannel
from stretto.actors.deadlines import LAX_NS
from stretto.actors.deployment import Deployment, Edge, Forward, Stage, edges_of
from stretto.actors.gate import LesseeGate, LessorGate
from stretto.actors.instance import Instance
from stretto.actors.routing import BoundEdge, BoundStage
from stretto.actors.seat import Seat

Placement = dict[str, list[str]]
"""The member that hosts each partition, by function."""


@dataclass
class Wiring:
    """The seats of the local instances by address, and the sending ends by number."""

    seats: dict[Address, Seat] = field(default_factory=dict)
    outs: dict[int, OutChannel] = field(default_factory=dict)


def wire(member: str, deployment: Deployment, placement: Placement, numbered: int) -> Wiring:
    """Returns the wiring of what `member` hosts of a deployment; its channels are numbered from `numbered` + 1."""
    return _Wirer(member, deployment, placement, numbered).wired()


class _Wirer:
    def __init__(self, member: str, deployment: Deployment, placement: Placement, numbered: int) -> None:
        self._member = member
        self._deployment = deployment
        self._placement = placement
        self._numbered = numbered
        self._wiring = Wiring()
        # Receiving ends that wait for a local sender, by sender, receiver and input.
        self._receivers: dict[tuple[Address, Address, str], list[InChannel]] = {}

    def wired(self) -> Wiring:
        self._make_instances()
        for name, spec in self._deployment.functions.items():
            for stage in spec.outputs.values():
                for edge in edges_of(stage):
                    self._make_inputs(name, spec.parallelism, edge)
        for seat in self._wiring.seats.values():
            for output, stage in seat.spec.outputs.items():
                seat.instance.outputs[output] = self._bind(seat, stage)
        return self._wiring

    def _make_instances(self) -> None:
        functions = self._deployment.functions
        stages = [stage for spec in functions.values() for stage in spec.outputs.values()]
        fed = {edge.target for stage in stages for edge in edges_of(stage)}
        for name, spec in functions.items():
            is_sink = not any(edges_of(stage) for stage in spec.outputs.values())
            for partition, member in enumerate(self._placement[name]):
                if member == self._member:
                    address = Address(self._deployment.job, name, partition)
                    instance = Instance(address, spec, name not in fed, is_sink)
                    seat = self._wiring.seats[address] = self._seat(instance)
                    if spec.lessees_max:
                        seat.gate = LessorGate(address)

    def _seat(self, instance: Instance) -> Seat:
        objective_ns = self._deployment.latency_ns
        latency_ns = LAX_NS if objective_ns is None else objective_ns
        if instance.sharing is not None:
            instance.sharing.member, instance.sharing.writer = self._member, str(instance.address)
        return Seat(instance, latency_ns, self._deployment.share, self._deployment.credit_bytes)

    def _make_inputs(self, sender: str, senders: int, edge: Edge) -> None:
        for partition, member in enumerate(self._placement[edge.target]):
            if member != self._member:
                continue
            receiver = Address(self._deployment.job, edge.target, partition)
            seat = self._wiring.seats[receiver]
            for index in [partition] if isinstance(edge.routing, Forward) else range(senders):
                channel = InChannel(Address(self._deployment.job, sender, index), seat, edge.input)
                seat.inputs.append(channel)
                self._receivers.setdefault((channel.sender, receiver, edge.input), []).append(channel)

    def _bind(self, seat: Seat, stage: Stage) -> BoundStage:
        edges = []
        for edge in stage.edges:
            targets = range(len(self._placement[edge.target]))
            if isinstance(edge.routing, Forward):
                targets = range(seat.address.partition, seat.address.partition + 1)
            channels = [self._make_out(seat, edge, target, stage.schema) for target in targets]
            target = self._deployment.functions[edge.target]
            edges.append(BoundEdge(edge, channels, seat.address.partition, target))
        return BoundStage(stage, edges, [self._bind(seat, child) for child in stage.stages])

    def _make_out(self, seat: Seat, edge: Edge, target: int, schema: pa.Schema) -> OutChannel:
        receiver = Address(self._deployment.job, edge.target, target)
        member = self._placement[edge.target][target]
        self._numbered += 1
        channel = OutChannel(seat, receiver, edge.input, member, self._numbered, schema)
        target_spec = self._deployment.functions[edge.target]
        channel.stateless = not target_spec.function.states()
        channel.index = len(seat.outs)
        channel.latency_ns = seat.latency_ns
        channel.yields = self._deployment.latency_ns is None
        channel.slide_us, channel.slide_above_us = target_spec.slide_us, seat.spec.slide_us
        channel.budget_ns = channel.latency_ns
        if channel.slide_us is not None:
            seat.feed_windows(channel.slide_us)
        if member == self._member:
            join_local(channel, self._receiver(seat, receiver, edge.input))
        self._wiring.outs[channel.number] = channel
        seat.outs.append(channel)
        return channel

    def _receiver(self, seat: Seat, receiver: Address, input_name: str) -> InChannel:
        return self._receivers[seat.address, receiver, input_name].pop(0)


class _LesseeWirer(_Wirer):
    """Wires one lessee: its channels lead to the lessors of the receivers, and each is an extra channel there."""

    def __init__(
        self, member: str, deployment: Deployment, placement: Placement, numbered: int, local: dict[Address, Seat]
    ) -> None:
        super().__init__(member, deployment, placement, numbered)
        self._local = local

    def lessee(self, address: Address) -> Seat:
        spec = self._deployment.functions[address.function]
        seat = self._seat(Instance(address, spec, is_source=False, is_sink=False))
        seat.gate = LesseeGate(address, self._placement[address.function][address.partition])
        for output, stage in spec.outputs.items():
            seat.instance.outputs[output] = self._bind(seat, stage)
        return seat

    def _receiver(self, seat: Seat, receiver: Address, input_name: str) -> InChannel:
        return extra_input(seat.address, self._local[receiver], input_name)


def wire_lessee(
    address: Address,
    member: str,
    deployment: Deployment,
    placement: Placement,
    numbered: int,
    local: dict[Address, Seat],
) -> tuple[Seat, dict[int, OutChannel]]:
    """Returns a lessee of the actor on `member`, with its sending ends; `local` has the lessors on the same worker."""
    wirer = _LesseeWirer(member, deployment, placement, numbered, local)
    return wirer.lessee(address), wirer._wiring.outs


def extra_input(sender: Address, seat: Seat, input_name: str) -> InChannel:
    """Returns an extra receiving end, which gets no critical messages."""
    seat.shared = True
    channel = InChannel(sender, seat, input_name)
    channel.grant_at_most = GRANT_EXTRA_AT
    return channel


def join_local(channel: OutChannel, receiving: InChannel) -> None:
    """Joins the two ends of a channel within one worker."""
    channel.peer = None
    channel.local = receiving
    receiving.out = channel
