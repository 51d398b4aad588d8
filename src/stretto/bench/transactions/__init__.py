"""Workloads of transactions (styx.txt 9): YCSB-T, movie review, travel reservation, TPC-C, each with its verification.

A workload has entities, calls from a seed, and a check of what came out (`workload.py`). It knows nothing of where its
entities run: `service.py` says what it needs, `in_process.py` has it without Spark, to test and to profile.
"""
