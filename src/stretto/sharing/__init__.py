"""Shared objects: data with global names that any function on any worker reads and writes (thesis 6.5.1).

What an object is, how a write changes it, how old what is read may be, and the cache of a worker. This room must never
know where objects are kept, who asks for them, or what time it is.

Read next: `state.py` for what users write, `cache.py` for what each freshness promises, `worker/sharing/` for who asks.
"""
