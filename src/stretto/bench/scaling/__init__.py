"""What coming and going workers do to running queries.

`blows.py` kills processes in the middle of drains and scale-outs; `driven.py` has the driver that is killed.
"""
