"""Workloads, traces, peers and reports: measures stretto and checks its answers.

The room may import every other room; no other room may import it. A figure counts only together with the
verdict on the answer of the same run, so `verify` is as much a part of a benchmark as its clock.

Read `nexmark/` for the standard workload and its oracle, then `verify` for the comparison of answers.
"""
