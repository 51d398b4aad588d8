"""The workloads of elastic executors (elasticutor.txt 5): the micro-benchmark (5.1) and the stock exchange (5.4).

Both are ordinary apps. Rows of one key come from one split of the source, in the order of their event numbers, so that
the answer for each key is defined by the events alone, whatever the number of splits, partitions and workers is. An
independent model computes it from the same events, and `checks.py` compares rows and the order of each key's rows.

Read `micro.py` and `exchange.py` for the two apps, then what they are made of.
"""
