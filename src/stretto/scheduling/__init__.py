"""Scheduling: which message runs next, and where. Pure.

A strategy sees every instance that has work and may run, and picks. It must never know what a message means, the
network or the clock beyond the times it is told.

Read next: `fifo.py`, the strategy that every other is measured against.
"""
