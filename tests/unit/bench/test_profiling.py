"""Sampled stacks are summed to shares by function and by room."""

from __future__ import annotations

import pytest

from stretto.bench.profiling import summed
from stretto.errors import UserError

LOOP = "main (worker.py:1);run (stretto/runtime/worker_loop.py:50)"


def test_shares_are_of_the_worker_loop_alone() -> None:
    stacks = "\n".join(
        [
            f"{LOOP};apply (stretto/actors/instance.py:9);process (stretto/operators/panes.py:3) 6",
            f"{LOOP};poll (stretto/runtime/transport.py:7);poll (zmq/poll.py:1) 3",
            f"{LOOP} 1",
            "Thread (stretto-pulse);wait (threading.py:5) 100",
            "",
        ]
    )
    found = summed("q5", 10.0, 5.0, stacks)
    assert found.samples == 10
    assert found.rooms_percent == {"operators": 60.0, "runtime": 40.0}
    assert found.functions[0].function == "process (stretto/operators/panes.py:3)"
    assert found.functions[0].self_percent == 60.0
    run = next(share for share in found.functions if share.function.startswith("run"))
    assert (run.self_percent, run.total_percent) == (10.0, 100.0)


def test_an_empty_profile_says_what_to_do() -> None:
    with pytest.raises(UserError, match="--seconds"):
        summed("q5", 1.0, 0.0, "Thread (other);wait (threading.py:5) 100\n")
