"""The only room with IO: Spark hosting, transport, clock, storage, connectors.

It drives the pure machines of `worker.py` and `coordinator.py`: it turns what happens outside into their events and
carries out their effects. It decides nothing that a machine could decide, and never imports the simulator, its sibling.

Read next: `connectors/` for where data comes from and goes to.
"""
