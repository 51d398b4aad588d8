"""The only room with IO: Spark hosting, transport, clock, storage, connectors.

It drives the pure machines of `worker/` and `coordinator/`: it turns what happens outside into their events and carries
out their effects. It decides nothing that a machine could decide, and never imports the simulator.

Read next: `connectors/` for sources and sinks.
"""
