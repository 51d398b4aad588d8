"""The social network of thesis 6.7.3 at its size, by strategy, with and without copies of objects at the workers.

Strategies, workers and the caches are the production code. `workload.py` has the network, its requests and what they
read and write, `runs.py` one run, `figures.py` the figures with the thesis' beside them.
"""
