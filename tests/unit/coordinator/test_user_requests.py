"""What users ask for, with stand-ins for those who decide and those who carry it out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stretto.coordinator.events import ScaleInRequested
from stretto.coordinator.user_requests import UserRequests
from stretto.elasticity.decisions import DrainWorker
from stretto.elasticity.records import DecisionRecord


class Host:
    now_ns = 0


class Drains:
    """Has workers leave, but for one that is refused when its turn comes."""

    def __init__(self, refused: str) -> None:
        self.refused = refused
        self.drained: list[tuple[str, frozenset[str]]] = []
        """Each worker that was drained, with those that were announced then."""
        self.announced: frozenset[str] = frozenset()

    def leavers(self, count: int) -> tuple[list[str], str | None]:
        return [f"w{index}~1" for index in range(count)], None

    def announce(self, members: Iterable[str]) -> None:
        self.announced = frozenset(members)

    def leaves(self, member: str) -> bool:
        return member in [name for name, _ in self.drained]

    def enact(self, record: DecisionRecord, token: str = "") -> None:
        assert isinstance(record.decision, DrainWorker)
        if record.decision.member != self.refused:
            self.drained.append((record.decision.member, self.announced))

    def refuse(self, record: DecisionRecord, reason: str, token: str = "") -> None:
        raise AssertionError(reason)


def test_who_is_refused_when_its_turn_comes_is_not_announced_any_more() -> None:
    drains = Drains(refused="w1~1")
    host: Any = Host()
    requests: Any = UserRequests(host, drains, drains, host)
    requests.events()[ScaleInRequested](ScaleInRequested(3))
    assert drains.drained == [
        ("w0~1", frozenset({"w0~1", "w1~1", "w2~1"})),
        ("w2~1", frozenset({"w0~1", "w2~1"})),
    ]
    assert not drains.announced
