"""What the cluster does: one observation of jobs, functions, actors, edges and workers in the last interval. Pure.

Workers report totals with the time at which they were read; the coordinator subtracts two reports and builds the
observation. Metrics, the command line and controllers read it and nothing else. It must never know a machine. An
observation is immutable, so readers need no lock.

Read next: `model.py` (what is observed), `shards.py` (of elastic actors), `intervals.py` (from reports to intervals).
"""
