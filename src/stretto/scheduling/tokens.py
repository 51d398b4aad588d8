"""Rate control by tokens, for objectives of throughput (dirigo.txt figure 12)."""

from __future__ import annotations

from stretto.actors.channel import Message
from stretto.actors.deadlines import LAX_NS
from stretto.actors.seat import Seat
from stretto.scheduling.strategy import Strategy


class TokenRate(Strategy):
    """Each job gets as many tokens on each worker in each interval, and a message takes one. A message without a token
    is less urgent than all that have one, and goes to another worker, to each in turn."""

    def __init__(self, tokens: int = 64, interval_ms: float = 100.0) -> None:
        self._tokens = tokens
        self._interval_ns = int(interval_ms * 1e6)
        self._interval = -1
        self._left: dict[str, int] = {}
        self._turn = 0

    def enqueue(self, lessor: Seat, message: Message, candidates: list[str]) -> str | None:
        interval = self.desk.now_ns // self._interval_ns
        if interval != self._interval:
            self._interval, self._left = interval, {}
        job = lessor.address.job
        left = self._left.get(job, self._tokens)
        if left > 0:
            self._left[job] = left - 1
            return None
        message.deadline_ns = max(message.deadline_ns, self.desk.now_ns + LAX_NS)
        if not candidates:
            return None
        self._turn += 1
        return candidates[self._turn % len(candidates)]
