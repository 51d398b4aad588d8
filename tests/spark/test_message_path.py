"""The micro-benchmark of the message path, with its real sockets: figures for every step, and bounded growth."""

from __future__ import annotations

from math import log

from stretto.bench.message_path import _growth, _local_round, _remote_round


def test_every_step_is_measured_locally_and_over_a_socket() -> None:
    local, remote = _local_round(300), _remote_round(300)
    assert set(local) < set(remote)
    assert all(cost > 0 for cost in (local | remote).values())
    assert sum(remote.values()) > sum(local.values())


def test_the_cost_of_a_message_grows_no_faster_than_the_logarithm() -> None:
    """Compares ratios within one run, with a margin for cache misses."""
    few, many = 10, 10_000
    allowed = 3 * log(many) / log(few)
    assert _growth(many, many, 2_000) < allowed * _growth(few, few, 2_000)
    assert _growth(100, many, 2_000) < allowed * _growth(100, few, 2_000)
