"""One run: nodes that answer parts of questions, as many at a time as they have cores, clients that ask at their rate
whether they have answers or not, and rounds in which a way to replicate decides which copies there are."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from stretto.segments.popularity import Asked, Popularity
from stretto.segments.replication import Cluster, Node, Replication, droppable
from stretto.segments.routing import least_busy
from stretto.simulator.experiments.getafix.workload import Workload, name_of


@dataclass(frozen=True)
class Setting:
    """What is run. Times are in seconds."""

    clients: int
    nodes: int = 20
    segments: int = 24
    cores: int = 4
    """How many parts of questions a node answers at a time."""
    questions: int = 3_000
    """Questions of each client."""
    hours_mean: float = 2.0
    scan_s: float = 0.02
    rate: float = 70.0
    """Questions per second of each client. As they are here, 20 clients use seven tenths of 20 nodes."""
    round_s: float = 1.0
    hour_s: float = 15.0
    """How long an hour of the table takes: then there is a new segment, and the oldest is gone."""
    segment_bytes: int = 256_000_000
    bytes_per_s: float = 1e9
    slow_nodes: int = 0
    """Nodes of half the speed."""
    deaths: int = 0
    """Nodes that die, at even distances of rounds."""
    seed: int = 1


@dataclass
class Measured:
    """What a run has measured, after its first rounds. Bytes are by the size of one segment."""

    makespan_s: float = 0.0
    latency_s: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    """The copies of all nodes, each round."""
    memory_max: int = 0
    """The greatest number of copies that a node had."""
    segments: list[int] = field(default_factory=list)
    """The segments that there were, each round."""
    loaded: int = 0
    from_storage: int = 0
    """Parts of questions that had to wait until a segment was loaded which no node had."""
    asked: dict[int, int] = field(default_factory=dict)
    """Parts of questions by the age of their segment."""

    @property
    def memory_mean(self) -> float:
        return float(np.mean(self.memory))

    @property
    def replication(self) -> float:
        """Copies per segment."""
        return self.memory_mean / float(np.mean(self.segments))

    def latency_ms(self) -> dict[str, float]:
        found = np.array(self.latency_s) * 1_000
        return {"mean": round(float(found.mean()), 2), "p99": round(float(np.percentile(found, 99)), 2)}


@dataclass
class Question:
    """A question of a client, until all its parts are answered."""

    asked_s: float
    left: int


@dataclass(eq=False)
class Part:
    """The part of a question about one segment."""

    question: Question
    segment: str
    cost_s: float


@dataclass
class Holder:
    """A node: what it holds, what it loads, and what waits for it. `waiting_s` is the work of what waits and runs."""

    speed: float
    copies: set[str] = field(default_factory=set)
    wanted: set[str] = field(default_factory=set)
    loads: str | None = None
    queue: deque[Part] = field(default_factory=deque)
    runs: list[Part] = field(default_factory=list)
    waiting_s: float = 0.0


WARM_ROUNDS = 5
STORAGE_S = 0.05
"""Until a node reads from storage what nobody holds."""


class Run:
    """One run of a setting by a way to replicate."""

    def __init__(self, setting: Setting, replication: Replication) -> None:
        self.setting = setting
        self.replication = replication
        self.measured = Measured()
        self.popularity = Popularity()
        self._chance = random.Random(f"{setting.seed}/questions")
        self._workload = Workload(setting.segments, setting.hours_mean, self._chance)
        self._bytes = {each: self._size(each) for each in self._workload.present()}
        slow = setting.slow_nodes
        self.nodes = {f"n{each:02}": Holder(0.5 if each < slow else 1.0) for each in range(setting.nodes)}
        self._now_s = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._left = dict.fromkeys(range(setting.clients), setting.questions)
        self._open = setting.clients * setting.questions
        self._work: dict[str, float] = {}
        self._at_once: dict[str, int] = {}
        self._at_once_max: dict[str, int] = {}
        self._homeless: dict[str, list[Part]] = {}
        self._rounds = 0

    def run(self) -> Measured:
        """Runs until all questions are answered."""
        self._replan()
        for holder in self.nodes.values():
            holder.copies = set(holder.wanted)  # The table was there before.
        for client in self._left:
            self._next(client)
        self._later(self.setting.round_s, self._round)
        self._later(self.setting.hour_s, self._hour)
        while self._open:
            self._now_s, _, act = heapq.heappop(self._events)
            act()
        self.measured.makespan_s = self._now_s
        return self.measured

    def _later(self, delay_s: float, act: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (self._now_s + delay_s, self._number, act))

    def _size(self, segment: str) -> int:
        """Returns the size of a segment, within a fifth of the usual one, the same in all runs."""
        return round(self.setting.segment_bytes * random.Random(f"{self.setting.seed}/{segment}").uniform(0.8, 1.2))

    # Questions.

    def _next(self, client: int) -> None:
        """The next question of a client comes at a random moment, as those of many users do."""
        if self._left[client]:
            self._left[client] -= 1
            self._later(self._chance.expovariate(self.setting.rate), lambda: self._ask(client))

    def _ask(self, client: int) -> None:
        self._next(client)
        segments = self._workload.ask()
        question = Question(self._now_s, len(segments))
        for segment in segments:
            size = self._bytes[segment] / self.setting.segment_bytes
            self._at_once[segment] = self._at_once.get(segment, 0) + 1
            self._at_once_max[segment] = max(self._at_once_max.get(segment, 0), self._at_once[segment])
            age = self._workload.newest - int(segment)
            self.measured.asked[age] = self.measured.asked.get(age, 0) + 1
            self._send(Part(question, segment, self.setting.scan_s * size))

    def _send(self, part: Part) -> None:
        holders = [name for name, node in self.nodes.items() if part.segment in node.copies]
        waiting = {name: self.nodes[name].waiting_s for name in holders}
        name = least_busy(holders, waiting, {each: self.nodes[each].speed for each in holders})
        if name is None:
            self.measured.from_storage += 1
            self._homeless.setdefault(part.segment, []).append(part)
            if len(self._homeless[part.segment]) == 1:
                self._later(STORAGE_S, self._replan)
            return
        node = self.nodes[name]
        node.queue.append(part)
        node.waiting_s += part.cost_s
        self._serve(name)

    def _serve(self, name: str) -> None:
        node = self.nodes.get(name)
        if node is not None and len(node.runs) < self.setting.cores and node.queue:
            part = node.queue.popleft()
            node.runs.append(part)
            self._later(part.cost_s / node.speed, lambda: self._answered(name, part))

    def _answered(self, name: str, part: Part) -> None:
        node = self.nodes.get(name)
        if node is None:
            return  # It has died, and another one was asked.
        node.runs.remove(part)
        node.waiting_s -= part.cost_s
        self._work[part.segment] = self._work.get(part.segment, 0.0) + part.cost_s * 1_000
        self._at_once[part.segment] -= 1
        question = part.question
        question.left -= 1
        if not question.left:
            if self._rounds >= WARM_ROUNDS:
                self.measured.latency_s.append(self._now_s - question.asked_s)
            self._open -= 1
        self._serve(name)

    # Copies.

    def _round(self) -> None:
        self._rounds += 1
        asked = {each: Asked(work, self._at_once_max.get(each, 0)) for each, work in self._work.items()}
        self.popularity.round_over({each: found for each, found in asked.items() if each in self._bytes})
        self._work = {}
        self._at_once_max = {each: count for each, count in self._at_once.items() if count}
        setting = self.setting
        if (
            setting.deaths
            and self._rounds % (2 * WARM_ROUNDS) == 0
            and setting.nodes - len(self.nodes) < setting.deaths
        ):
            self._die(sorted(self.nodes)[len(self.nodes) // 2])
        self._replan()
        if self._rounds >= WARM_ROUNDS:
            held = [len(node.copies | ({node.loads} if node.loads else set())) for node in self.nodes.values()]
            self.measured.memory.append(sum(held))
            self.measured.memory_max = max(self.measured.memory_max, *held)
            self.measured.segments.append(len(self._bytes))
        self._later(setting.round_s, self._round)

    def _hour(self) -> None:
        """A new segment is there, in the memory of the node with the fewest; the oldest is gone. It will be as popular
        as the newest one was."""
        before = name_of(self._workload.newest)
        self._workload.newest += 1
        segment = name_of(self._workload.newest)
        self._bytes[segment] = self._size(segment)
        self.popularity.begin(segment, before)
        name = min(self.nodes, key=lambda each: (len(self.nodes[each].copies), each))
        self.nodes[name].copies.add(segment)
        self.nodes[name].wanted.add(segment)
        gone = name_of(self._workload.newest - self.setting.segments)
        # What waits for it at nodes is still answered.
        self._bytes.pop(gone, None)
        self.popularity.forget(gone)
        self._replan()
        self._later(self.setting.hour_s, self._hour)

    def _die(self, name: str) -> None:
        """What waited for a node is asked of others."""
        node = self.nodes.pop(name)
        for part in [*node.runs, *node.queue]:
            self._send(part)

    def _replan(self) -> None:
        capacity = 1_000 * self.setting.round_s * self.setting.cores
        nodes = {name: Node(frozenset(node.copies), capacity * node.speed) for name, node in self.nodes.items()}
        bytes_of = self._bytes | {each: self._size(each) for each in self._homeless}
        plan = self.replication.plan(Cluster(nodes, bytes_of), self.popularity)
        for name, node in self.nodes.items():
            node.wanted = plan[name]
        for name in self.nodes:
            self._load(name)
        self._drop()

    def _load(self, name: str) -> None:
        """Loads one segment after the other."""
        node = self.nodes.get(name)
        if node is None or node.loads is not None:
            return
        missing = sorted(node.wanted - node.copies)
        if not missing:
            return
        node.loads = missing[0]
        self._later(self._size(missing[0]) / self.setting.bytes_per_s, lambda: self._loaded(name, missing[0]))

    def _loaded(self, name: str, segment: str) -> None:
        node = self.nodes.get(name)
        if node is None:
            return
        node.loads = None
        node.copies.add(segment)
        self.measured.loaded += 1
        for part in self._homeless.pop(segment, []):
            self._send(part)
        self._load(name)
        self._drop()

    def _drop(self) -> None:
        wanted = {name: node.wanted for name, node in self.nodes.items()}
        copies = {name: node.copies for name, node in self.nodes.items()}
        for name, segments in droppable(copies, wanted).items():
            self.nodes[name].copies -= segments
