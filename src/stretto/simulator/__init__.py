"""The simulator drives the very same worker and coordinator machines in virtual time, from one seed.

Messages take seeded delays (in order between any two members, as a connection keeps it, in any order otherwise), runs
take seeded time, and nothing ever sleeps. It must never know `runtime/`: the two are siblings that drive one core.

Read next: `cluster.py`.
"""
