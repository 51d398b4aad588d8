"""What a worker concludes from its driver's answers and from the connection to it."""

from __future__ import annotations

import pytest

from stretto.errors import PlanError
from stretto.runtime.cluster import Cluster
from stretto.runtime.driver_link import DriverState, DriverWatch


def connected() -> DriverWatch:
    """Returns the watch of a driver that may be silent for ten seconds, has answered at 0 s, and is connected."""
    watch = DriverWatch(10.0, 0.0)
    watch.connected()
    return watch


def test_a_driver_that_answers_is_heard() -> None:
    watch = connected()
    watch.heard(95.0)
    assert watch.state(100.0) is DriverState.HEARD
    assert watch.silent_s(100.0) == 5.0


def test_a_silent_driver_whose_connection_stands_is_paused_however_long() -> None:
    watch = connected()
    assert watch.state(10.0) is DriverState.HEARD
    assert watch.state(10.1) is DriverState.PAUSED
    assert watch.state(100_000.0) is DriverState.PAUSED
    watch.heard(100_000.5)
    assert watch.state(100_001.0) is DriverState.HEARD


def test_a_silent_driver_without_a_connection_is_gone() -> None:
    watch = connected()
    watch.disconnected()
    assert watch.state(9.0) is DriverState.HEARD, "it may come back"
    assert watch.state(10.1) is DriverState.GONE
    assert DriverWatch(10.0, 0.0).state(10.1) is DriverState.GONE, "it was never connected"


def test_a_connection_that_comes_back_in_time_is_no_loss() -> None:
    watch = connected()
    watch.disconnected()
    watch.connected()
    assert watch.state(30.0) is DriverState.PAUSED


def test_a_driver_that_has_dismissed_the_worker_is_gone_after_the_same_time() -> None:
    watch = connected()
    watch.dismissed()
    assert watch.state(9.0) is DriverState.HEARD, "the loop may be about to leave"
    assert watch.state(10.1) is DriverState.GONE


def test_only_one_heartbeat_is_unanswered_on_a_connection() -> None:
    watch = DriverWatch(10.0, 0.0)
    assert watch.beat_is_due()
    assert not watch.beat_is_due()
    watch.connected()
    assert watch.beat_is_due(), "what was sent before the connection may be lost"
    assert not watch.beat_is_due()
    watch.heard(1.0)
    assert watch.beat_is_due()


@pytest.mark.parametrize("option", ["driver_silence", "lost_after"])
@pytest.mark.parametrize("value", ["0 s", "-1 s", 0])
def test_a_silence_must_be_longer_than_zero(option: str, value: object) -> None:
    with pytest.raises(PlanError, match=f"{option} must be longer than zero"):
        Cluster.on_spark(None, **{option: value})  # type: ignore[arg-type]
