"""Virtual time, the network between simulated members, storage, and the clusters made of them.

It carries out the effects of the machines and returns the events. It must never know what a run is checked for.
Read next: `cluster.py`, then `durable.py` for clusters with failing workers.
"""
