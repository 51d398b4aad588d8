"""`stretto simulate transactions --kept`: what entities keep between calls, under the same trouble, by seed.

Idempotency keys: clients repeat calls under the same key, also those of others, and use a key for another call. Of all
calls under a key one runs, and all that are the same get its reply.

Delayed calls: handlers and clients schedule them, and they schedule others. Slips and cards expire.
Boxes are created and deleted. A gate has a limit on calls that are under way.

What is checked: every call is answered, once; replies, and the state in the end, are those of a model that runs one
call after another, in the order that the replies say. Each delayed call was made once, not too soon, and only if what
scheduled it committed. What expires was there for as long as it lasts, and no longer. A limit was kept, and nobody was
refused without a reason.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from stretto.errors import StrettoError
from stretto.protocol.transactions import EntityName, Reply
from stretto.simulator.checking.books import (
    AGAIN_US,
    GATE_MAX,
    Book,
    BookModel,
    Box,
    Card,
    Do,
    Gate,
    Slip,
    Wish,
    is_unheard,
    slip_of,
)
from stretto.simulator.checking.checkers import Violation
from stretto.simulator.checking.transactions import CLIMATES, STEPS_MAX, Trial, UsersOfMachines
from stretto.simulator.engine.entities import EntityParts, SimulatedEntities
from stretto.transactions.catalog import Catalog

HOW = ("create", "delete", "delete", "fill", "fill", "empty", "look")
SLIPS = (Do.MARK, Do.COUNT)
REFUSED = "another call has the idempotency key"


class Outcome(NamedTuple):
    """What a call under a key was answered with, whoever made it."""

    value: bytes | None
    failure: Any
    place: Any


@dataclass
class Made:
    """A call of a client, and its answer."""

    wish: Wish
    began_ns: int
    ended_ns: int = 0
    reply: Reply | None = None

    @property
    def is_refused(self) -> bool:
        failure = None if self.reply is None else self.reply.failure
        return failure is not None and failure.text.startswith(REFUSED)

    @property
    def outcome(self) -> Outcome:
        assert self.reply is not None
        return Outcome(self.reply.value, self.reply.failure, self.reply.place)


class Writers(UsersOfMachines):
    """Clients that write books."""

    CLIENTS = (1, 2, 3)
    cluster: SimulatedEntities

    def __init__(self, seed: int, workers_max: int, parts: EntityParts | None) -> None:
        self.made: dict[tuple[str, int], Made] = {}
        self._values = itertools.count(1)
        self._keyed: list[Wish] = []
        super().__init__(seed, workers_max, parts)

    def make(self, seed: int, workers: int, clients: int) -> SimulatedEntities:
        climate = self.chance.choice(CLIMATES)
        catalog = Catalog([Book, Slip, Card, Box, Gate])
        settings = replace(self.settings, sweep_ns=1_000_000)
        return SimulatedEntities(workers, clients, seed, catalog, self.answered, climate, settings, self._parts)

    def _ask(self, client: str) -> None:
        if self._left > 0:
            self._left -= 1
            wish = self._wish()
            number = self.cluster.call(client, _call(wish).under(wish.key))
            self.open += 1
            self.made[client, number] = Made(wish, self.cluster.now_ns)

    def _wish(self) -> Wish:
        chance = self.chance
        if self._keyed and chance.random() < 0.4:
            earlier = chance.choice(self._keyed[-5:])
            if chance.random() < 0.8:
                return earlier
            return replace(earlier, value=next(self._values))
        names = chance.sample([f"b{number}" for number in range(4)], chance.randint(1, 3))
        key = f"key-{len(self._keyed)}" if chance.random() < 0.5 else None
        do = chance.choices(list(Do), (4, 2, 1, 2, 2, 2, 2))[0]
        if do is Do.PASS:
            return Wish("gate", 0, (), None, do)
        if do is Do.USE:
            return Wish(names[0], 0, (), None, do, how=chance.choice(HOW))
        if do in SLIPS:
            return Wish(names[0], 0, (), None, do)
        delay_us = 0 if do is Do.WRITE else chance.choice((1, 1_000, chance.randint(1, 60_000)))
        wish = Wish(names[0], next(self._values), tuple(names[1:]), key, do, delay_us)
        if key is not None:
            self._keyed.append(wish)
        return wish

    def answered(self, client: str, reply: Reply) -> None:
        made = self.made[client, reply.number]
        if made.reply is not None:
            self.twice.append(Violation("answered-twice", f"{made.wish}: {made.reply} and {reply}"))
            return
        self.open -= 1
        made.reply, made.ended_ns = reply, self.cluster.now_ns
        thinks_ns = self.chance.randint(0, self.chance.choice((3_000_000, 3_000_000, 60_000_000)))
        self.cluster.after(thinks_ns, lambda: self._ask(client))


def _call(wish: Wish) -> Any:
    book: Any = Book(wish.book)
    match wish.do:
        case Do.WRITE:
            return book.write(wish.value, list(wish.others))
        case Do.ANNOUNCE:
            return book.announce(wish.value, list(wish.others), wish.delay_us)
        case Do.RING:
            return book.ring(wish.value, 1, after=timedelta(microseconds=wish.delay_us))
        case Do.MARK:
            return slip_of(wish.book)(wish.book).mark()
        case Do.COUNT:
            return slip_of(wish.book)(wish.book).count()
        case Do.USE:
            return Box(wish.book).use(wish.how)
        case Do.PASS:
            return Gate("gate").pass_()


def try_kept_seed(seed: int, workers_max: int, parts: EntityParts | None = None) -> Trial:
    """Run one random cluster, and check it."""
    trial = Trial(seed)
    users = Writers(seed, workers_max, parts)
    try:
        trial.violations += _run(users)
        trial.violations += users.twice
        if not trial.violations:
            trial.violations += _checked(users, trial)
    except (StrettoError, AssertionError, KeyError, IndexError, ValueError) as error:
        trial.violations.append(Violation("invariant", f"{type(error).__name__}: {error}"))
    trial.transactions = len(users.made)
    trial.aborted = sum(1 for each in users.made.values() if each.reply is not None and each.reply.failure is not None)
    trial.fallbacks = sum(
        1 for each in users.made.values() if each.reply and each.reply.place and each.reply.place[1] == 3
    )
    trial.crashes, trial.torn = users.cluster.crashes, users.cluster.torn
    trial.snapshots = users.cluster.snapshots
    return trial


def _run(users: Writers) -> Iterator[Violation]:
    """Let the clients finish."""
    cluster = users.cluster
    if not cluster.run_until(STEPS_MAX, lambda: users.done):
        waiting = [each.wish for each in users.made.values() if each.reply is None]
        yield Violation("liveness", f"without an answer: {waiting}")
        return
    cluster.is_calm = True
    last = max(reply.epoch for reply in cluster.replies)
    if not cluster.run_until(STEPS_MAX, lambda: cluster.has_finished(last)):
        yield Violation("liveness", f"not all workers come to the end of epoch {last}")
    # Nothing has a deadline any more when all delayed calls are made, and what expires has expired.
    if not cluster.run_until(STEPS_MAX, lambda: cluster.is_idle):
        yield Violation("liveness", "delayed calls are not made, or slips do not expire")


def _checked(users: Writers, trial: Trial) -> Iterator[Violation]:
    yield from _passed([each for each in users.made.values() if each.wish.do is Do.PASS])
    runs = [each for each in users.made.values() if each.wish.key is None and each.wish.do is not Do.PASS]
    by_key: dict[str, list[Made]] = defaultdict(list)
    for each in users.made.values():
        if each.wish.key is not None:
            by_key[each.wish.key].append(each)
    for key, calls in by_key.items():
        told = [each for each in calls if not each.is_refused]
        trial.evidence += len(calls) - 1
        if not told:
            yield Violation("refused", f"no call under {key} has run")
            return
        first = told[0]
        if any(each.wish != first.wish or each.outcome != first.outcome for each in told):
            yield Violation("key", f"calls under {key} have several replies: {told}")
            return
        if any(each.wish == first.wish for each in calls if each.is_refused):
            yield Violation("key", f"calls under {key} were refused, although they are the first one: {calls}")
            return
        runs.append(first)
    yield from _modelled(users, runs, trial)


@dataclass
class SlipModel:
    """The marks on slips, and between which times each was last marked."""

    marks: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    expired: int = 0

    def run(self, made: Made) -> str | None:
        """Returns what is wrong with a reply. Whether a slip has expired follows from when calls began and ended."""
        name = made.wish.book
        value = made.outcome.value
        got = None if value is None else msgspec.msgpack.decode(value)
        more = int(made.wish.do is Do.MARK)
        lasts_ns = slip_of(name).__stretto_expires_us__ * 1_000
        count, began_ns, ended_ns = self.marks.get(name, (0, 0, 0))
        if got == count + more:
            if count and made.began_ns - ended_ns >= lasts_ns:
                return f"{name} had expired, and {made} has still seen {count} marks"
        elif got == more:
            self.expired += 1
            if made.ended_ns - began_ns < lasts_ns:
                return f"{name} had not expired, and {made} has not seen its {count} marks"
        else:
            return f"{name} had {count} marks, and {made} has seen {got}"
        if more:
            self.marks[name] = (got, made.began_ns, made.ended_ns)
        elif not got:
            self.marks.pop(name, None)
        return None


@dataclass
class BoxModel:
    """The boxes that exist, and what they have."""

    counts: dict[str, int] = field(default_factory=dict)

    def run(self, made: Made) -> str | None:
        """Returns what is wrong with a reply."""
        name, value = made.wish.book, made.outcome.value
        right = [name in self.counts, self.counts.get(name, 0)]
        if value is None or msgspec.msgpack.decode(value) != right:
            return f"{made} is wrong: the model has {right}"
        match made.wish.how:
            case "create":
                self.counts.setdefault(name, 0)
            case "delete":
                self.counts.pop(name, None)
            case "fill":
                self.counts[name] = self.counts.get(name, 0) + 1
            case "empty":
                self.counts[name] = 0
        return None


def _passed(calls: list[Made]) -> Iterator[Violation]:
    """The gate was passed by all that were not refused, by few at a time, and nobody was refused without a reason."""
    through = sorted((each for each in calls if each.outcome.place is not None), key=lambda each: each.outcome.place)
    if [msgspec.msgpack.decode(each.outcome.value or b"") for each in through] != list(range(1, len(through) + 1)):
        yield Violation("limit", f"the gate was passed by {through}")
    in_epoch = Counter(each.outcome.place.epoch for each in through)
    if any(count > GATE_MAX for count in in_epoch.values()):  # All of an epoch were under way at the same time.
        yield Violation("limit", f"the limit of the gate is {GATE_MAX}, and in epochs there were {in_epoch}")
    for each in calls:
        if each.outcome.place is None:
            others = [one for one in calls if one.began_ns <= each.ended_ns and one.ended_ns >= each.began_ns]
            if len(others) <= GATE_MAX or not each.outcome.failure.text.startswith("Gate/gate is busy"):
                yield Violation("limit", f"{each} was refused, and under way were {others}")
                return


def _modelled(users: Writers, runs: list[Made], trial: Trial) -> Iterator[Violation]:
    """The replies and the state, against one call after another."""
    model = BookModel()
    slips = SlipModel()
    boxes = BoxModel()
    for made in sorted(runs, key=lambda made: made.outcome.place):
        if made.wish.do in SLIPS:
            wrong = slips.run(made)
            if wrong is not None:
                yield Violation("expired", wrong)
                return
            continue
        if made.wish.do is Do.USE:
            wrong = boxes.run(made)
            if wrong is not None:
                yield Violation("existence", wrong)
                return
            continue
        value = made.outcome.value
        got = None if value is None else msgspec.msgpack.decode(value)
        right = model.run(made.wish)
        if got != right:
            yield Violation("reply", f"{made.wish} was answered with {made.outcome}; the model has {right}")
            return
    trial.expired += slips.expired
    state = users.cluster.state()
    left = [str(name) for name in state if name.kind in ("Slip", "Card")]
    if left:
        yield Violation("expired", f"in the end, {', '.join(left)} are still there")
    for name, lines in sorted(model.lines.items()):
        encoded = state.get(EntityName("Book", name))
        found = [] if encoded is None else msgspec.msgpack.decode(encoded)["lines"]
        if found != lines:
            yield Violation("state", f"{name} has {found} in the end; the model has {lines}")
    found_boxes = {
        name.key: msgspec.msgpack.decode(each)["count"] for name, each in state.items() if name.kind == "Box"
    }
    if found_boxes != boxes.counts:
        yield Violation("existence", f"in the end there are {found_boxes}; the model has {boxes.counts}")
    yield from _rung(model, {made.wish.value: made.began_ns // 1_000 for made in reversed(runs)}, state, trial)


def _rung(
    model: BookModel, began_us: dict[int, int], state: dict[EntityName, bytes], trial: Trial
) -> Iterator[Violation]:
    """What was to ring has rung, once, and not too soon."""
    for name in sorted({each.key for each in state} | model.rings.keys()):
        encoded = state.get(EntityName("Book", name))
        found = [] if encoded is None else msgspec.msgpack.decode(encoded)["rung"]
        right = {(value, times) for value in model.rings[name] for times in (0, 1) if not is_unheard(value)}
        trial.rung += len(found)
        if sorted(right) != sorted((value, times) for value, times, _ in found):
            yield Violation("rung", f"{name} has rung {found}; the model has {sorted(right)}")
            return
        at_us = {(value, times): at_us for value, times, at_us in found}
        for value, times in right:
            since_us = began_us[value] + model.rings[name][value] if times else at_us[value, 1] + AGAIN_US
            if at_us[value, times] < since_us:
                yield Violation("rung", f"{name} has rung {value} at {at_us[value, times]} us, {since_us} us is due")
