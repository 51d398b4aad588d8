"""A Kafka broker on this machine, and what stretto's Kafka connectors are measured with.

Start with `broker.py`; the tests use it too.
"""
