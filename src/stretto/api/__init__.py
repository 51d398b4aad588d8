"""What a user writes: apps, streams, windows, functions and objectives. It ends in a Plan.

This room must never know how a plan is run: no Spark, no sockets, no clock. `App.to_spark` reaches for the runtime only
when called.

Read next: `app.py` and `stream.py` for the surface, `plan.py` for what it means, `lowering.py` for how it becomes
actors.
"""
