"""A differential fuzzer: random expressions and aggregates over random rows, each answer compared with Spark's.

`vocabulary` finds out by trial which arguments every function takes, `generator` makes random terms of them, `ours` and
`sparks` evaluate them, `judging` compares, `shrinking` makes a disagreement small, `documented` lists the differences
that are known and meant, and `fuzzing` ties these together. Equal seeds give equal expressions and rows.
"""
