"""`stretto simulate transactions`: entities under random transactions, delays, repeated messages and crashes, by seed.

What is checked of a run:

- its history is strictly serializable, by a checker that knows nothing of epochs (`serializability/`);
- the replies, and the state in the end, are those of a model that runs one transaction after another, in the order that
  the replies say;
- every call is answered, once, and whatever was sent to a client for a call is the same, before and after crashes.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import msgspec

from stretto.errors import StrettoError
from stretto.protocol.transactions import Call, EntityName, Proceed, Reply, Resumed, Round, SnapshotTaken
from stretto.simulator.checking.cells import Cell, Do, Model, Plans, Seen, Step, appends_of
from stretto.simulator.checking.checkers import Violation
from stretto.simulator.checking.serializability import Append, Outcome, Read, Transaction, check
from stretto.simulator.engine.entities import Climate, EntityParts, SimulatedEntities
from stretto.transactions.activation import MadeCall
from stretto.transactions.attempt import Settings
from stretto.transactions.catalog import Catalog

STEPS_MAX = 60_000
CALLS = (15, 60)
USERS = (2, 10)
CLIMATES = (
    Climate(),
    Climate(delay_ns=(1_000, 10_000_000), slow=0.2, repeated=0.3),
    Climate(delay_ns=(10_000, 100_000), write_ns=(1_000_000, 20_000_000)),
    Climate(delay_ns=(10_000, 1_000_000), write_ns=(10_000, 30_000_000), repeated=0.3),
)
AMBUSHED: tuple[type, ...] = (Reply, Reply, Reply, Round, Round, Call, Resumed, Proceed, SnapshotTaken)
"""Frames at which workers crash."""
STOPPED = "a transaction ran out of time"
_SEEN = msgspec.msgpack.Decoder(list[Seen])


@dataclass
class Trial:
    """The run of one seed: transactions, crashes, and what was wrong."""

    seed: int
    transactions: int = 0
    aborted: int = 0
    crashes: int = 0
    torn: int = 0
    snapshots: int = 0
    fallbacks: int = 0
    evidence: int = 0
    moves: int = 0
    rung: int = 0
    expired: int = 0
    violations: list[Violation] = field(default_factory=list)


@dataclass
class Asked:
    """A call of a client, and its answer."""

    client: str
    number: int
    key: str
    plan: list[Step] | None
    """None: it only looks."""
    began_ns: int
    ended_ns: int | None = None
    reply: Reply | None = None

    @property
    def name(self) -> str:
        return f"{self.client}-{self.number}"

    @property
    def seen(self) -> list[Seen]:
        value = None if self.reply is None else self.reply.value
        return [] if value is None else _SEEN.decode(value)


class EntityCluster(Protocol):
    """A cluster of cells, as its users and the checks see it."""

    replies: list[Reply]
    torn: int
    snapshots: int
    is_calm: bool
    now_ns: int

    @property
    def crashes(self) -> int: ...

    def after(self, delay_ns: int, act: Callable[[], None]) -> None: ...

    def call(self, client: str, made: MadeCall) -> int: ...

    def run_until(self, steps_max: int, until: Callable[[], bool]) -> bool:
        """Run until the condition holds. Returns whether it does, within so many steps."""

    def has_finished(self, epoch: int) -> bool: ...

    def state(self) -> dict[EntityName, bytes]: ...


class Users:
    """Users of the cells, each with one call at a time, on a cluster that `make` makes."""

    CLIENTS = (1, 1, 3)
    cluster: EntityCluster

    def __init__(self, seed: int, workers_max: int) -> None:
        chance = self.chance = random.Random(seed * 31 + 7)
        # Full epochs of transactions that follow lists to other cells: the fallback needs those, and locks them late.
        wanders = chance.random() < 0.3
        self.keys = chance.randint(2, 3 if wanders else 6)
        self._plans = Plans(chance, self.keys, itertools.count(1), 12 if wanders else 1)
        self._left = chance.randint(*CALLS)
        self._users = USERS[1] if wanders else chance.randint(*USERS)
        # What only reads is strict for the calls of one client; of several, each knows its own past only.
        clients = chance.choice(self.CLIENTS)
        self._looks = 0.3 if clients == 1 else 0.0
        self.settings = Settings(
            epoch_ns=chance.choice((100_000, 1_000_000, 5_000_000)[2 * wanders :]),
            calls_max=chance.choice((1, 3, 100)[2 * wanders :]),
            snapshot_ns=chance.choice((3_000_000, 20_000_000, 200_000_000)),
            reordering=chance.random() < 0.8,
            fallback=wanders or chance.random() < 0.8,
        )
        self.asked: dict[tuple[str, int], Asked] = {}
        self.open = 0
        self._sent: Counter[type] = Counter()
        self._ambushes: list[tuple[type, int, str]] = []
        self.twice: list[Violation] = []
        self.cluster = self.make(seed, chance.randint(1, workers_max), clients)
        self.trouble()
        for user in range(self._users):
            client = f"c{user % clients + 1}"
            self.cluster.after(chance.randint(0, 5_000_000), partial(self._ask, client))

    def make(self, seed: int, workers: int, clients: int) -> EntityCluster:
        raise NotImplementedError

    def trouble(self) -> None:
        """Plan what goes wrong."""
        raise NotImplementedError

    def calm(self) -> None:
        """Only the last reads follow, which must be answered with what they have read."""

    def _ask(self, client: str) -> None:
        if self._left > 0:
            self._left -= 1
            looks = self.chance.random() < self._looks
            self.ask(client, self._plans.key(), None if looks else self._plans.plan())

    def ask(self, client: str, key: str, plan: list[Step] | None) -> None:
        cell: Any = Cell(key)
        number = self.cluster.call(client, cell.look() if plan is None else cell.act(plan))
        self.open += 1
        self.asked[client, number] = Asked(client, number, key, plan, self.cluster.now_ns)

    def answered(self, client: str, reply: Reply) -> None:
        asked = self.asked[client, reply.number]
        if asked.reply is not None:
            self.twice.append(Violation("answered-twice", f"{asked.name}: {asked.reply} and {reply}"))
            return
        self.open -= 1
        asked.reply, asked.ended_ns = reply, self.cluster.now_ns
        self.cluster.after(self.chance.randint(0, 3_000_000), lambda: self._ask(client))

    @property
    def done(self) -> bool:
        return self._left == 0 and self.open == 0


class UsersOfMachines(Users):
    """On the machines of transactions alone, whose network repeats messages and changes their order."""

    cluster: SimulatedEntities

    def __init__(self, seed: int, workers_max: int, parts: EntityParts | None) -> None:
        self._parts = parts
        super().__init__(seed, workers_max)

    def make(self, seed: int, workers: int, clients: int) -> SimulatedEntities:
        climate = self.chance.choice(CLIMATES)
        return SimulatedEntities(
            workers, clients, seed, Catalog([Cell]), self.answered, climate, self.settings, self._parts
        )

    def trouble(self) -> None:
        """Crashes at random moments: of workers, of the coordinator, of several at once."""
        cluster, chance = self.cluster, self.chance
        for _ in range(chance.choice((0, 1, 2, 4))):
            at_ns = chance.randint(0, 80_000_000)
            for _ in range(chance.choice((1, 1, 2))):
                name = chance.choice(list(cluster.hosts))
                cluster.after(at_ns, partial(cluster.crash, name))
        for _ in range(chance.choice((0, 0, 1, 2))):
            cluster.after(chance.randint(0, 80_000_000), cluster.crash_coordinator)
        self._ambushes = [
            (chance.choice(AMBUSHED), chance.randrange(40), chance.choice(("sender", "receiver", "any")))
            for _ in range(chance.choice((0, 2, 4)))
        ]
        cluster.watch = self._watch

    def _watch(self, sender: str, to: str, frame: Any) -> None:
        """Crash a worker at the moment in which a certain frame was sent."""
        self._sent[type(frame)] += 1
        for ambush in self._ambushes:
            kind, number, whom = ambush
            if isinstance(frame, kind) and self._sent[kind] == number:
                self._ambushes.remove(ambush)
                names = list(self.cluster.hosts)
                name = {"sender": sender, "receiver": to, "any": self.chance.choice(names)}[whom]
                if name in names:
                    self.cluster.crash(name)
                return


def try_seed(seed: int, workers_max: int, parts: EntityParts | None = None) -> Trial:
    """Run one random cluster, and check it."""
    return tried(seed, lambda: UsersOfMachines(seed, workers_max, parts))


def tried(seed: int, make: Callable[[], Users]) -> Trial:
    """Let the users of a cluster run, and check what they saw."""
    trial = Trial(seed)
    users = make()
    try:
        _run(users, trial)
    except (StrettoError, AssertionError, KeyError, IndexError, ValueError) as error:
        trial.violations.append(Violation("invariant", f"{type(error).__name__}: {error}"))
    trial.violations += users.twice
    trial.violations += _repeated(users)
    if not trial.violations:
        trial.violations += _serial(users, trial)
        trial.violations += _modelled(users)
    asked = [each for each in users.asked.values() if each.plan is not None]
    trial.transactions = len(asked)
    trial.aborted = sum(1 for each in asked if each.reply is not None and each.reply.failure is not None)
    trial.fallbacks = sum(1 for each in asked if each.reply and each.reply.place and each.reply.place.phase == 3)
    trial.crashes, trial.torn = users.cluster.crashes, users.cluster.torn
    trial.snapshots = users.cluster.snapshots
    return trial


def _run(users: Users, trial: Trial) -> None:
    """Let the users finish, and then read every cell."""
    cluster = users.cluster
    if not cluster.run_until(STEPS_MAX, lambda: users.done):
        waiting = [each.name for each in users.asked.values() if each.reply is None]
        trial.violations.append(Violation("liveness", f"without an answer: {', '.join(waiting)}"))
        return
    users.calm()
    for key in range(6):
        users.ask("c1", f"k{key}", [Step(Do.READ)])
    if not cluster.run_until(STEPS_MAX, lambda: users.done):
        trial.violations.append(Violation("liveness", "the last reads have no answer"))
        return
    cluster.is_calm = True
    last = max(reply.epoch for reply in cluster.replies)
    if not cluster.run_until(STEPS_MAX, lambda: cluster.has_finished(last)):
        trial.violations.append(Violation("liveness", f"not all workers come to the end of epoch {last}"))


def _repeated(users: Users) -> Iterator[Violation]:
    """Whatever was sent to a client for a call is the same."""
    first: dict[tuple[str, int], Reply] = {}
    for reply in users.cluster.replies:
        asked = users.asked[reply.client, reply.number]
        other = first.setdefault((reply.client, reply.number), reply)
        if other != reply and asked.plan is not None:
            yield Violation("other-reply", f"{asked.name} was first answered with {other}, and then with {reply}")


# The history.


def _serial(users: Users, trial: Trial) -> list[Violation]:
    """The history that the clients have seen, before the checker."""
    final = {each.key: each.seen[0].items for each in list(users.asked.values())[-6:]}
    verdict = check([_recorded(each, final) for each in users.asked.values()])
    trial.evidence = verdict.evidence
    return list(verdict.anomalies)


def _recorded(asked: Asked, final: dict[str, list[int]]) -> Transaction:
    reply = asked.reply
    assert reply is not None
    planned = [] if asked.plan is None else list(appends_of(asked.key, asked.plan))
    if reply.failure is not None:
        appends = tuple(Append(key, value) for key, value in planned)
        return Transaction(asked.name, appends, Outcome.ABORTED, asked.began_ns, asked.ended_ns)
    steps: dict[str, list[tuple[float, Append | Read]]] = defaultdict(list)
    for seen in asked.seen:
        if seen.do is Do.READ:
            steps[seen.key].append((len(seen.items), Read(seen.key, tuple(seen.items))))
        elif seen.do is Do.APPEND:
            # After what read a list of this length, and before what read a longer one.
            steps[seen.key].append((seen.value + 0.5, Append(seen.key, seen.items[0])))
    known = {(each.key, each.value) for some in steps.values() for _, each in some if isinstance(each, Append)}
    for key, value in planned:
        if (key, value) not in known:
            items = final[key]
            steps[key].append(((items.index(value) if value in items else len(items)) + 0.5, Append(key, value)))
    ordered = tuple(step for some in steps.values() for _, step in sorted(some, key=lambda each: each[0]))
    return Transaction(asked.name, ordered, Outcome.COMMITTED, asked.began_ns, asked.ended_ns)


# The model.


def _modelled(users: Users) -> Iterator[Violation]:
    """The replies and the state, against one transaction after another."""
    model = Model()
    asked = [each for each in users.asked.values() if each.plan is not None]
    unplaced = [each.name for each in asked if each.reply is None or each.reply.place is None]
    if unplaced:
        yield Violation("unplaced", f"transactions have no place in the order: {', '.join(unplaced)}")
        return
    for each in sorted(asked, key=_place):
        assert each.reply is not None
        assert each.plan is not None
        if each.reply.failure is not None and each.reply.failure.text.startswith(STOPPED):
            continue  # It was aborted from outside, and leaves no trace.
        drawn = iter([seen.value for seen in each.seen if seen.do is Do.DRAW])
        right = model.run(each.key, each.plan, drawn)
        got = each.seen if each.reply.failure is None else each.reply.failure.text
        if right != got:
            yield Violation("reply", f"{each.name} at {_place(each)} was answered with {got}; the model has {right}")
            return
    yield from _in_the_end(users, model)


def _place(asked: Asked) -> Any:
    return asked.reply.place if asked.reply is not None else None


def _in_the_end(users: Users, model: Model) -> Iterator[Violation]:
    state = users.cluster.state()
    for key, cell in sorted(model.cells.items()):
        encoded = state.get(EntityName("Cell", key))
        found = {"items": [], "money": 20, "drawn": 0} if encoded is None else msgspec.msgpack.decode(encoded)
        right = {"items": cell.items, "money": cell.money, "drawn": cell.drawn}
        if found != right:
            yield Violation("state", f"{key} is {found} in the end; the model has {right}")
