"""Operators: the functions that implement the stream verbs, vectorised over the batch.

Each operator is an ordinary `Function` (see `actors/function.py`) with a columnar state. This room must never know
about workers, Spark or the plan; it gets compiled expressions and window shapes, and works on numpy and pyarrow.

Read next: `windowed.py` for aggregates over panes, `joins.py` for the three joins.
"""
