"""A NEXMark stream with a surge: its events come faster for a while, in event time and in the time of the sender."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from stretto.bench.nexmark.events import NexmarkConfig, Surge, event_time_us, event_times_us
from stretto.bench.nexmark.source import NexmarkReader, NexmarkSource
from stretto.errors import UserError

SECOND_NS = 1_000_000_000
BEGINS_NS = 7 * SECOND_NS
RATE = 100
CONFIG = NexmarkConfig(events=700, event_rate=RATE, surge=Surge(first=100, last=600, times=5))
"""A second as usual, a second with five times as many events, and a second as usual."""


def test_events_of_a_surge_follow_each_other_faster() -> None:
    times = event_times_us(CONFIG, np.arange(701)) - CONFIG.base_time_us
    gaps = [after - before for before, after in pairwise(times.tolist())]
    assert set(gaps[:99] + gaps[601:]) == {10_000}
    assert set(gaps[101:599]) == {2_000}
    assert times[[0, 100, 600, 700]].tolist() == [0, 1_000_000, 2_000_000, 3_000_000]
    assert [event_time_us(CONFIG, number) - CONFIG.base_time_us for number in range(701)] == times.tolist()


def readers(begins_ns: int | None = BEGINS_NS) -> list[NexmarkReader]:
    source = NexmarkSource("bid", CONFIG, RATE, ["dateTime"], block=10, begins_ns=begins_ns)
    return [source.reader(partition, 2) for partition in range(2)]


def read_until(reader: NexmarkReader, now_ns: int) -> int:
    """Reads all that has come, and returns how many events that makes so far."""
    while (reading := reader.read(now_ns, 64)).next_ns is None and not reading.done:
        assert reading.arrived_ns <= now_ns
    return reader.position


@pytest.mark.parametrize(
    ("after_s", "expected"), [(0.5, 50), (1.0, 100), (1.5, 350), (2.0, 600), (2.5, 650), (3.0, 700)]
)
def test_the_sender_is_as_fast_as_event_time(after_s: float, expected: int) -> None:
    now_ns = BEGINS_NS + int(after_s * SECOND_NS)
    assert sum(read_until(reader, now_ns) for reader in readers()) == pytest.approx(expected, abs=2)


def test_who_resumes_finds_all_that_has_come_meanwhile() -> None:
    now_ns = BEGINS_NS + 2 * SECOND_NS
    (resumed, _), (again, _) = readers(), readers(begins_ns=None)
    resumed.seek(20)
    assert read_until(resumed, now_ns) == pytest.approx(300, abs=2)
    # Without a beginning, what it resumes at comes only now.
    again.seek(20)
    assert read_until(again, now_ns) == 21


def test_a_surge_has_a_beginning_before_its_end() -> None:
    with pytest.raises(UserError, match="first <= last"):
        Surge(first=3, last=2, times=5)
