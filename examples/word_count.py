"""Counts how often each word occurs: a Python function on record batches, then a running count.

stretto run examples.word_count:app
"""

import pyarrow as pa
import pyarrow.compute as pc

from stretto import App, sinks, sources

LINES = ["to be or not to be", "that is the question", "whether it is nobler in the mind to suffer"]


def words(lines: pa.RecordBatch) -> pa.RecordBatch:
    """Splits each line into one row per word."""
    split = pc.split_pattern(lines.column("line"), " ")
    return pa.RecordBatch.from_arrays([pc.list_flatten(split)], names=["word"])


app = App("word-count")
lines = app.source("lines", sources.memory([{"line": line} for line in LINES]))
lines.flat_map(words).key_by("word").aggregate(times="count(*)").sink(sinks.collect(), name="counts")
