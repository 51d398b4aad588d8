"""What the cluster does: one observation of jobs, functions, actors, edges and workers in the last interval. Pure.

Workers report totals with the time at which they were read; the coordinator subtracts two reports and puts the
observation together. Metrics, the command line and controllers read it and nothing else. It must never know a machine:
whoever reads an observation needs no lock, because it never changes.

Read next: `model.py` (what is observed), `intervals.py` (from reports to intervals).
"""
