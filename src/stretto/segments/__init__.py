"""Published results: immutable segments, how many copies of each there are, and on which workers.

A segment is a part of a table, by time. A question is answered from the workers that hold a copy of what it asks about,
so popular segments need more copies than others, and no more than they need, since memory is what they cost. The room
decides (thesis chapter 4); it must not know where segments come from, nor how they are loaded.

Read next: `allocation.py` (the least copies that divide the work evenly), `matching.py` (who holds what, with the least
to load), `popularity.py` (what is asked for), `replication.py` (all together, and what it is compared with).
"""
