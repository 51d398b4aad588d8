"""Scheduling: which message runs next, and where. Pure.

A policy says how urgent a message is, and a spreading strategy which instance of an actor gets it. They must never know
what a message means, the network or the clock beyond the times they are told.

Read next: `policies.py`, how urgent; `ready.py`, the queue that asks; `spreading.py`, who gets a message of an actor
that is in several places; `laxity_queue.py`, who would be late.
"""

from stretto.scheduling.policies import Policy
from stretto.scheduling.spreading import DirectSend, Near, RejectSend

__all__ = ["DirectSend", "Near", "Policy", "RejectSend"]
