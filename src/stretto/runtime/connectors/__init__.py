"""Connectors: sources and sinks that reach outside the process.

Each is a `Source` or a `Sink` of `actors/`: configuration that is shipped to the workers, with readers and writers that
do the IO there. `check` raises for what is known to be wrong, in the driver, before anything runs.

Read next: `files.py` for replay of files, `dataframe.py` for Spark as a source, `sinks.py` for outputs.
"""
