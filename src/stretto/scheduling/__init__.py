"""Scheduling: which message runs next, and where. Pure.

A policy says how urgent a message is, and a strategy which instance of an actor gets it. They must never know what a
message means, the network or the clock beyond the times they are told.

Read next: `policies.py`, how urgent; `ready.py`, the queue that asks; `strategy.py`, the scheduling API;
`spreading.py`, `binding.py`, `offloading.py` and `tokens.py`, the strategies; `choosing.py`, which of them suits;
`laxity_queue.py`, who would be late.
"""

from stretto.actors.address import Address
from stretto.actors.channel import Message, OutChannel
from stretto.actors.seat import Seat
from stretto.actors.work import Work
from stretto.scheduling.policies import POLICIES, Policy
from stretto.scheduling.spreading import DirectSend, Near, RejectSend
from stretto.scheduling.strategies import STRATEGIES
from stretto.scheduling.strategy import Desk, Pending, Strategy, seeded_random

__all__ = [
    "POLICIES",
    "STRATEGIES",
    "Address",
    "Desk",
    "DirectSend",
    "Message",
    "Near",
    "OutChannel",
    "Pending",
    "Policy",
    "RejectSend",
    "Seat",
    "Strategy",
    "Work",
    "seeded_random",
]
