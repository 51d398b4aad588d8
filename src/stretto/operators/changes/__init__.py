"""Streams whose rows change: each row carries how many of it are added or removed (a Z-set, as in DBSP).

The rows of such a stream have one more column, `CHANGE`: 1 adds a row, -1 removes an equal one that was added. The sum
over all rows is the content of the stream, whatever the order in which they arrive. So functions here keep rows with
their weights, and tolerate a weight that is negative for a while, because a removal can overtake its addition.

Read next: `weights.py` (the column), `multiset.py` (the state that all of them use).
"""
