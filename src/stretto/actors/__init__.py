"""Actors: addresses, messages, channels, mailboxes, functions and their instances. Pure.

An app is a DAG of functions; a function has static partitions, each a virtual actor with an address and a home
worker. This room says what one actor does with one message and what it sends; it must never know the clock, the
network, Spark, or which message the worker picks next (that is `scheduling/`).

Read next: `function.py` (what a function is), `instance.py` (one actor at work), `channel.py` (numbering and credits).
"""
