"""What a user writes: apps, streams, windows, functions and objectives. The result is a Plan.

This room must never know how a plan is run: no Spark, no sockets, no clock. `App.to_spark` imports the runtime only
when it is called.

Read next: `app.py` and `stream.py` for the surface, `plan.py` for what it means, `lowering.py` for how it becomes
actors.
"""
