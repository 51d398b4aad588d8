"""Workloads, traces, peers and reports: how stretto is measured, and how its answers are checked.

The room may import every other room; no other room may import it. A figure counts only with the verdict of the
answer that was produced while it was measured, so `verify` is as much a part of a benchmark as its clock.

Read `nexmark/` for the standard workload and its oracle, then `verify` for the comparison of answers.
"""
