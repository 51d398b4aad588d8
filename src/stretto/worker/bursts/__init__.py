"""Bursts go to transient workers: redirect and merge (sponge.txt 4).

- `redirecting.py`: the instances here whose batches go elsewhere, what comes back, and what runs again when a transient
  worker has vanished.
- `by_key.py`: keyed instances here whose state does not combine: keys go, and keep their state there.
- `twins.py`: on a transient worker, the twins of instances.

It is below the leases: whoever holds an instance, lessor or lessee, knows nothing of it. A batch that is elsewhere is
one that is still running. What is not a batch waits until everything is back.
"""
