"""The simulator drives the very same worker and coordinator machines in virtual time, from one seed.

Messages take seeded delays (in order between any two members, as a connection keeps it, in any order otherwise), runs
take seeded time, and nothing ever sleeps. It must never know `runtime/`: the two are siblings that drive one core.

- `engine/`: virtual time, the network, storage that fails, clusters of simulated workers.
- `checking/`: random dataflows and faults, recorded histories, the checkers that read them, planted mutations.
- `experiments/`: the papers' experiments at the papers' scale.

Read next: `engine/cluster.py`.
"""
