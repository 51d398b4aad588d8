"""Scheduling: which message runs next, and where. Pure.

A strategy sees every instance that has work and may run, and picks. It must never know what a message means, the
network or the clock beyond the times it is told.

Read next: `fifo.py`, the strategy that every other is measured against; `spreading.py`, who gets a message of an actor
that is in several places.
"""

from stretto.scheduling.spreading import DirectSend, Near, RejectSend

__all__ = ["DirectSend", "Near", "RejectSend"]
