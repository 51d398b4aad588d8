"""Cold transient workers: how many are asked for, and when they leave."""

from __future__ import annotations

from stretto.elasticity.burst_cold import ASK_AGAIN_NS, COMING_NS, SECOND_NS, SPARE_NS, ColdWorkers
from stretto.elasticity.decisions import AddWorkers, DrainWorker


def test_what_is_short_is_asked_for_once_and_no_more_than_may_be() -> None:
    cold = ColdWorkers(2, 6)
    assert cold.more(3, 2, 0) == AddWorkers(3, transient=True)
    assert cold.more(3, 2, SECOND_NS) is None  # They are on their way.
    assert cold.more(2, 3, SECOND_NS) is None
    assert cold.more(9, 3, SECOND_NS) == AddWorkers(1, transient=True)
    assert cold.more(9, 6, SECOND_NS) is None


def test_those_that_never_come_are_asked_for_again() -> None:
    cold = ColdWorkers(2, 6)
    assert cold.more(3, 2, 0) is not None
    assert cold.more(3, 2, COMING_NS - 1) is None
    assert cold.more(3, 2, COMING_NS) == AddWorkers(3, transient=True)


def test_they_leave_a_while_after_the_burst_and_the_warm_ones_stay() -> None:
    cold, there = ColdWorkers(2, 20), {"t0~1", "t1~3", "t2~1", "t10~1"}
    assert not cold.fewer(there, True, SECOND_NS)
    assert not cold.fewer(there, False, SECOND_NS + SPARE_NS - 1)
    now_ns = SECOND_NS + SPARE_NS
    assert cold.fewer(there, False, now_ns) == [DrainWorker("t2~1"), DrainWorker("t10~1")]
    # One has left; one that comes late leaves too.
    assert not cold.fewer({"t0~1", "t1~3", "t2~1"}, False, now_ns + SECOND_NS)
    assert cold.fewer({"t0~1", "t1~3", "t4~1"}, False, now_ns + ASK_AGAIN_NS) == [DrainWorker("t4~1")]
    assert not cold.fewer({"t0~1", "t1~3"}, False, 10 * now_ns)


def test_without_a_number_of_how_many_there_may_be_nobody_comes_or_leaves() -> None:
    cold = ColdWorkers(0, 0)
    assert cold.more(5, 4, 0) is None
    assert not cold.fewer({"t0~1", "t1~1"}, False, 100 * SECOND_NS)
