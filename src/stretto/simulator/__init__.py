"""The simulator drives the production worker and coordinator machines in virtual time, from one seed.

Delays of messages and durations of runs are random (seeded), and nothing ever sleeps. Messages between two members stay
in order, as on a connection; others may overtake each other. The room must never know `runtime/`: the two are siblings
that drive one core.

- `engine/`: virtual time, the network, storage with faults, clusters of simulated workers.
- `checking/`: random dataflows and faults, recorded histories, the checkers that read them, planted mutations.
- `experiments/`: the papers' experiments at their scale.

Read next: `engine/cluster.py`.
"""
