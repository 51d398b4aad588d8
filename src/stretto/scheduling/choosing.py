"""Which strategy suits a function: the rules of thesis 6.7, applied to what is measured, with the reason in words.

Dynamic binding asks before every batch, which balances best and costs a round trip or two, and the locality of state.
Offloading asks nobody while all is well. So large tasks without state are bound dynamically; others only when some
actor gets more than its home can do, since its messages must go elsewhere anyway. What is small, or whose state is best
kept together, is offloaded when it would be late.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from stretto.actors.address import Address
from stretto.actors.channel import Message, OutChannel
from stretto.actors.seat import Seat
from stretto.scheduling.binding import LaxityBasedDirect
from stretto.scheduling.offloading import RejectLate
from stretto.scheduling.strategy import Desk, Pending, Strategy

LARGE_TASK_NS = 4_000_000
"""A task that is always worth the questions and answers before it is sent: many times their cost, and a worker that is
busy with another one answers late."""
ASKED_TASK_NS = 1_500_000
"""A task that is worth them when its actor's home cannot do all of them: some ten times their cost."""
OVERLOAD = 0.9
"""The load, in workers, at which an actor's home cannot do everything."""
REMEMBERED = 4_096
"""Messages to a function after which those before count half: what was popular may be no more."""
OFFLOADING, BINDING = "1rtt-reject-send", "laxity-direct"


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of a function's work: what a task takes (0 before the first is heard of), and how many workers the
    most popular of its actors would keep busy."""

    task_ns: float
    stateless: bool
    load: float = 0.0


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy, and why."""

    strategy: str
    why: str


def choose(profile: Profile) -> Choice:
    """The rules, in the order in which they are asked."""
    if not profile.task_ns:
        return Choice(OFFLOADING, "nothing is measured yet, and offloading costs nothing until it is needed")
    task = f"a task takes {profile.task_ns / 1e6:.3g} ms"
    if profile.task_ns >= LARGE_TASK_NS and profile.stateless:
        return Choice(BINDING, f"{task} and has no state, so that asking first costs little and balances best")
    if profile.task_ns >= ASKED_TASK_NS and profile.load >= OVERLOAD:
        popular = f"its most popular actor keeps {profile.load:.2g} workers busy"
        return Choice(BINDING, f"{task} and {popular}, so that most must go elsewhere anyway")
    if profile.task_ns < LARGE_TASK_NS:
        return Choice(OFFLOADING, f"{task}, too little to ask other workers before each of them")
    return Choice(OFFLOADING, f"{task} on state that is best kept at home, and home can do it")


class Popularity:
    """How many messages each actor of a function was sent from here, and since when."""

    def __init__(self, now_ns: int) -> None:
        self._sent: Counter[int] = Counter()
        self._since_ns = now_ns
        self._total = 0
        self._most = 0

    def add(self, partition: int, now_ns: int) -> None:
        """One more for this actor."""
        self._sent[partition] += 1
        self._total += 1
        self._most = max(self._most, self._sent[partition])
        if self._total >= REMEMBERED:
            self._sent = Counter({place: count // 2 for place, count in self._sent.items()})
            self._total, self._most = self._sent.total(), max(self._sent.values())
            self._since_ns += (now_ns - self._since_ns) // 2

    def per_ns(self, now_ns: int) -> float:
        """How often the most popular one is sent a message, less what chance alone may give it."""
        beyond_chance = self._most - 2 * math.sqrt(self._most)
        return max(0.0, beyond_chance) / max(1, now_ns - self._since_ns)


class Auto(Strategy):
    """Goes by the rules, function by function, and can be asked why. Each sender goes by what it sees itself."""

    tracks = True

    def __init__(self) -> None:
        self._direct = LaxityBasedDirect()
        self._offload = RejectLate()
        self._task_ns: dict[str, float] = {}
        self._popularity: dict[str, Popularity] = {}
        self.choices: dict[str, Choice] = {}

    def bind(self, desk: Desk) -> None:
        super().bind(desk)
        self._direct.bind(desk)
        self._offload.bind(desk)

    def why(self, function: str) -> str | None:
        choice = self.choices.get(function)
        return None if choice is None else f"{choice.strategy}: {choice.why}"

    def wants_direct(self, channel: OutChannel) -> bool:
        return self._choice(channel).strategy == BINDING

    def prepare_send(self, channel: OutChannel, direct: list[OutChannel], pending: Pending) -> OutChannel | None:
        if self._choice(channel).strategy != BINDING:
            return channel
        return self._direct.prepare_send(channel, direct, pending)

    def _choice(self, channel: OutChannel) -> Choice:
        function, now_ns = channel.receiver.function, self.desk.now_ns
        popularity = self._popularity.get(function)
        if popularity is None:
            popularity = self._popularity[function] = Popularity(now_ns)
        popularity.add(channel.receiver.partition, now_ns)
        task_ns = self._task_ns[function] = channel.cost_ns or self._task_ns.get(function, 0.0)
        # The other senders are taken to send as much as this one.
        load = popularity.per_ns(now_ns) * task_ns * channel.seat.spec.parallelism
        choice = self.choices[function] = choose(Profile(task_ns, channel.stateless, load))
        return choice

    def enqueue(self, lessor: Seat, message: Message, candidates: list[str]) -> str | None:
        return self._offload.enqueue(lessor, message, candidates)

    def accept(self, lessee: Seat, message: Message) -> bool:
        return self._offload.accept(lessee, message)

    def on_request(self, sender: str, address: Address, content: Any) -> Any:
        return self._direct.on_request(sender, address, content)

    def on_reply(self, sender: str, number: int, content: Any) -> None:
        self._direct.on_reply(sender, number, content)
