"""The vocabulary of the protocol's rules, and the driver that plays them to one worker machine.

A `Scenario` has a worker `here~1` under test and plays all others: the upstream workers `up~1` and `up~2`, the lessees
`lessee~1` and `lessee~2` (or the lessor `lessor~1`, where `here~1` is the lessee), the downstream workers `down~1` and
`down~2`, and the coordinator. The dataflow is `up` -> `actor` -> `down`. What arrives and what was sent is written in
the words below, such as `batch(1)` or `sync_request(1)`.

This is the only module of these tests that knows how frames are made and where the machine is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from stretto.actors.address import Address
from stretto.actors.channel import OutChannel
from stretto.actors.context import Context
from stretto.actors.critical import Critical, EndOfInput, Last, Mark, SyncProgram, UserCritical, Watermark
from stretto.actors.deployment import Deployment, Edge, FunctionSpec, Rebalance, Stage
from stretto.actors.function import EVENT_TIME_MIN_US, Function
from stretto.actors.source import Reading
from stretto.checkpoints.manifest import ActorRecord, Storage
from stretto.protocol.channels import CriticalSent, Data, Grant, OpenChannel
from stretto.protocol.checkpointing import Abandon, Checkpoint, Overdue, Publish, Published, Stored, Unstored
from stretto.protocol.jobs import Deploy, Drain, Finished, Hosts, HostsLeft, Loaded, Ready, Start
from stretto.protocol.leasing import Ack, Lease, Register, Registered, SyncAck, SyncReply, SyncRequest, Told, Unsync
from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.membership import COORDINATOR, Member, Members
from stretto.protocol.reports import Misbehaved, Report
from stretto.protocol.scheduling import Offered, ScheduleReply, ScheduleRequest
from stretto.scheduling.strategy import Pending, Strategy
from stretto.state import Fragment, ListState
from stretto.state.packing import packed, unpacked
from stretto.worker.events import CodeLoaded, Ran, Run, SnapshotFailed, SnapshotStored, StoreSnapshot
from stretto.worker.machine import Worker, WorkerParts

HERE = "here~1"
JOB = "job"
ACTOR = "actor"
SCHEMA = pa.schema([("n", pa.int64())])
NO_TIME = EVENT_TIME_MIN_US
"""The watermark of a channel before the first one has come."""
NOISE = (OpenChannel, Grant, Report, Loaded, Ready)
"""Frames that say nothing about a barrier or a checkpoint."""


# Words. Each stands for a frame, a message or a call of the function.


class Said:
    """Something that was said. Two are equal if they agree in all that both mention, so a test names what matters."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, kind: str, **mentioned: Any) -> None:
        self.kind = kind
        self.mentioned = {name: value for name, value in mentioned.items() if value is not None}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Said) or self.kind != other.kind:
            return False
        both = self.mentioned.keys() & other.mentioned.keys()
        return all(self.mentioned[name] == other.mentioned[name] for name in both)

    def __repr__(self) -> str:
        return f"{self.kind}({', '.join(f'{name}={value!r}' for name, value in self.mentioned.items())})"

    def get(self, name: str, default: Any) -> Any:
        return self.mentioned.get(name, default)


Reach = tuple[str, str, int]


def upto(sender: str, receiver: str, seq: int) -> Reach:
    """An entry of a DEPENDENCY_PAYLOAD: the channel between two workers, up to the message of this number."""
    return sender, receiver, seq


# Messages on channels.


def batch(number: int) -> Said:
    return Said("batch", number=number)


def watermark(time: int, *, last: list[Reach] | None = None, ack: bool | None = None) -> Said:
    return Said("watermark", time=time, last=last, ack=ack)


def critical(
    name: str,
    payload: Any = None,
    *,
    joint: bool | None = None,
    last: list[Reach] | None = None,
    ack: bool | None = None,
) -> Said:
    """A user's critical message; a `joint` one (SYNC_ONE) waits for one from every upstream actor."""
    return Said("critical", name=name, payload=payload, joint=joint, last=last, ack=ack)


def mark(checkpoint: int, *, last: list[Reach] | None = None, ack: bool | None = None) -> Said:
    return Said("mark", checkpoint=checkpoint, last=last, ack=ack)


def end_of_input(*, ack: bool | None = None) -> Said:
    return Said("end_of_input", ack=ack)


# Frames between the instances of an actor, and between actors.


def lease(
    *,
    watermark: int | None = None,
    criticals: int | None = None,
    states: list[int] | None = None,
    actor: str | None = None,
) -> Said:
    return Said("lease", actor=actor, watermark=watermark, criticals=criticals, states=states)


def sync_request(barrier: int, *, last: list[Reach] | None = None) -> Said:
    return Said("sync_request", barrier=barrier, last=last)


def sync_ack(barrier: int) -> Said:
    return Said("sync_ack", barrier=barrier)


def sync_reply(barrier: int, *, states: list[int] | None = None, told: list[Reach] | None = None) -> Said:
    """`states` are the numbers in the partial state, `told` is how far the lessee has sent."""
    return Said("sync_reply", barrier=barrier, states=states, told=told)


def unsync(
    barrier: int | None = None,
    *,
    keep: bool | None = None,
    watermark: int | None = None,
    criticals: int | None = None,
    states: list[int] | None = None,
) -> Said:
    return Said("unsync", barrier=barrier, keep=keep, watermark=watermark, criticals=criticals, states=states)


def ack(actor: str | None = None) -> Said:
    """`actor` is the one whose critical message is acknowledged."""
    return Said("ack", actor=actor)


def register(criticals: int, *, near: bool | None = None) -> Said:
    return Said("register", criticals=criticals, near=near)


def registered(criticals: int, *, lessees: list[str] | None = None) -> Said:
    return Said("registered", criticals=criticals, lessees=lessees)


def offered(seq: int, *, taken: bool) -> Said:
    """A lessee's word on the message of this number that was forwarded to it."""
    return Said("offered", seq=seq, taken=taken)


def schedule_request(number: int | None = None) -> Said:
    return Said("schedule_request", number=number)


def schedule_reply(number: int) -> Said:
    return Said("schedule_reply", number=number)


# Frames from and to the coordinator.


def checkpoint(checkpoint: int) -> Said:
    return Said("checkpoint", checkpoint=checkpoint)


def abandon(checkpoint: int) -> Said:
    return Said("abandon", checkpoint=checkpoint)


def overdue(checkpoint: int) -> Said:
    return Said("overdue", checkpoint=checkpoint)


def publish(checkpoint: int) -> Said:
    return Said("publish", checkpoint=checkpoint)


def drain() -> Said:
    return Said("drain")


def hosts(members: list[str], *, lessees: int | None = None) -> Said:
    """The workers that may have lessees from now on, and how many lessees the actor may have."""
    return Said("hosts", members=members, lessees=lessees)


def hosts_left() -> Said:
    return Said("hosts_left")


def stored(checkpoint: int) -> Said:
    return Said("stored", checkpoint=checkpoint)


def unstored(checkpoint: int, reason: str | None = None) -> Said:
    return Said("unstored", checkpoint=checkpoint, reason=reason)


def published(checkpoint: int) -> Said:
    return Said("published", checkpoint=checkpoint)


def finished(checkpoint: int | None = None) -> Said:
    return Said("finished", checkpoint=checkpoint)


def misbehaved(function: str, *, hook: str | None = None) -> Said:
    """A strategy was given up in a hook, for a function."""
    return Said("misbehaved", function=function, hook=hook)


# Effects, and calls of the function.


def snapshot(
    checkpoint: int,
    *,
    state: list[int] | None = None,
    remembered: Any = None,
    channels: list[tuple[str, int, bool]] | None = None,
    fragments: list[list[int]] | None = None,
    finished: bool | None = None,
) -> Said:
    """The effect that has a snapshot written. `channels` has the sender, the watermark and the end of each input."""
    return Said(
        "snapshot",
        checkpoint=checkpoint,
        state=state,
        remembered=remembered,
        channels=channels,
        fragments=fragments,
        finished=finished,
    )


def seals(checkpoint: int) -> Said:
    return Said("seals", checkpoint=checkpoint)


def begins_to_publish(checkpoint: int) -> Said:
    return Said("begins_to_publish", checkpoint=checkpoint)


def publishes(checkpoint: int) -> Said:
    return Said("publishes", checkpoint=checkpoint)


# The functions, and the strategies of the workers.


class Log:
    """What the function under test has seen, in order, and what it had when it last looked."""

    def __init__(self) -> None:
        self.seen: list[Said] = []
        self.state: list[int] = []
        self.consolidated: list[int] | None = None
        self.event_time: int | None = None
        self.to_read: list[int] = []
        self.still_publishing = 0


class Recorder(Function):
    """Keeps the numbers that it gets, and sends them on. It sends no critical messages of its own."""

    numbers: ListState[int] = ListState()
    sends = True

    def __init__(self, log: Log) -> None:
        self.log = log

    def __deepcopy__(self, memo: dict[int, Any]) -> Recorder:
        return type(self)(self.log)  # The scenario reads the log.

    def process(self, batch_: pa.RecordBatch, ctx: Context) -> None:
        (number,) = batch_.column("n").to_pylist()
        consolidated = ctx.consolidated("numbers")
        self.log.consolidated = None if consolidated is None else consolidated.export()
        self.log.event_time = ctx.watermark_us
        self.numbers.append(number)
        self._saw(batch(number), self.numbers.values)
        if self.sends:
            ctx.send(batch_)

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        self._saw(watermark(watermark_us), self.numbers.values)

    def on_critical(self, name: str, payload: Any, ctx: Context) -> None:
        self._saw(critical(name, payload), self.numbers.values)

    def on_end(self, ctx: Context) -> None:
        self._saw(end_of_input(), self.numbers.values)

    def _saw(self, what: Said, state: list[int]) -> None:
        self.log.seen.append(what)
        self.log.state = list(state)


class Sharing(Recorder):
    """Reads the state as of the last barrier."""

    reads_consolidated = True


class Appended(ListState[int]):
    """A list that gives each checkpoint what is new in a fragment of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Fragment] = []
        self.given_numbers = 0

    def fresh(self) -> Appended:
        return Appended()

    def fragments(self) -> list[Fragment]:
        self.given = [*self.given, Fragment(len(self.given) + 1, packed(self.values[self.given_numbers :]))]
        self.given_numbers = len(self.values)
        return self.given

    def forget_fragments(self) -> None:
        self.given, self.given_numbers = [], 0


class Appending(Recorder):
    """Has a state that gives checkpoints only what is new."""

    numbers: ListState[int] = Appended()


class Outlet(Recorder):
    """A sink. It remembers what is sealed and not published, by checkpoint."""

    sends = False

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.open_numbers: list[int] = []
        self.sealed: list[tuple[int, list[int]]] = []

    def process(self, batch_: pa.RecordBatch, ctx: Context) -> None:
        super().process(batch_, ctx)
        self.open_numbers.append(self.numbers.values[-1])

    def seal(self, checkpoint: int) -> None:
        self.sealed.append((checkpoint, self.open_numbers))
        self.open_numbers = []
        self._saw(seals(checkpoint), self.numbers.values)

    def publish(self, checkpoint: int) -> bool:
        if self.log.still_publishing:
            self.log.still_publishing -= 1
            self._saw(begins_to_publish(checkpoint), self.numbers.values)
            return False
        self.sealed = [each for each in self.sealed if each[0] > checkpoint]
        self._saw(publishes(checkpoint), self.numbers.values)
        return True

    def remember(self) -> Any:
        return self.sealed


class Reader(Recorder):
    """A source. It reads what the scenario has put there, one number at a time, and remembers how many it has read."""

    batch_delay_ns = 0

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.position = 0

    def read(self, now_ns: int) -> Reading:
        number = self.log.to_read.pop(0) if self.log.to_read else None
        self.position += number is not None
        return Reading(None if number is None else _rows(number), now_ns, next_ns=now_ns + 1)

    def due_watermark(self) -> int | None:
        return None

    def remember(self) -> Any:
        return [(0, self.position)]


class Script(Strategy):
    """A strategy that does what the scenario says."""

    def __init__(self, direct: bool = False, waits: bool = False, near: bool = False) -> None:
        self.place: str | None = None
        self.accepts = True
        self.direct = direct
        self.waits = waits
        self.near = near
        self.asks = False
        self.fails_in: str | None = None
        self.undecided: dict[int, Pending] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Script:
        return self

    def _asked(self, hook: str) -> None:
        if hook == self.fails_in:
            raise ValueError(f"the user's {hook} is wrong")

    def enqueue(self, lessor: Any, message: Any, candidates: list[str]) -> str | None:
        self._asked("enqueue")
        return self.place if self.place in candidates else None

    def accept(self, lessee: Any, message: Any) -> bool:
        self._asked("accept")
        return self.accepts

    def wants_direct(self, channel: OutChannel) -> bool:
        self._asked("wants_direct")
        return self.direct

    def prepare_send(self, channel: OutChannel, direct: list[OutChannel], pending: Pending) -> OutChannel | None:
        self._asked("prepare_send")
        if not self.asks:
            return direct[0]
        peer = direct[0].peer
        assert peer is not None
        self.undecided[self.desk.request(peer, channel.receiver, "may I?")] = pending
        return None

    def on_reply(self, sender: str, number: int, content: Any) -> None:
        self._asked("on_reply")
        pending = self.undecided.pop(number)
        self.desk.send(pending, pending.channel)


# The driver.

_machine: list[WorkerParts] = []


@contextmanager
def machine_with(parts: WorkerParts) -> Iterator[None]:
    """Scenarios that are made inside run a machine with these parts."""
    _machine.append(parts)
    try:
        yield
    finally:
        _machine.clear()


class Scenario:
    """The worker `here~1`, and all that it hears and says."""

    def __init__(
        self,
        *,
        home: str = HERE,
        source: bool = False,
        sink: bool = False,
        ups: int = 1,
        downs: int = 1,
        lessees: int = 2,
        down_lessees: int = 0,
        durable: bool = False,
        function: type[Recorder] = Recorder,
        hosts: list[str] | None = None,
        may_refuse: bool = False,
        direct: bool = True,
        waits: bool = False,
        near: bool = False,
    ) -> None:
        self.log = Log()
        self.refused: list[str] = []
        self._home = home
        self._now_ns = 1_000_000_000
        self._outbox: dict[str, list[Said]] = {}
        self._snapshots: list[Said] = []
        self._credits: dict[str, list[int]] = {}
        self._holding = False
        self._held: Run | None = None
        self._numbers: dict[tuple[str, str], int] = {}
        self._seqs: dict[int, int] = {}
        self._ours: dict[int, str] = {}
        self._forwarding = Script()
        self._forwarding.force_migrate = not may_refuse
        self._directing = Script(direct, waits, near)
        self._worker = Worker(HERE, *_machine)
        placement = {"up": ["up~1", "up~2"][:ups], ACTOR: [home], "down": ["down~1", "down~2"][:downs]}
        if source:
            placement["up"] = [HERE]
        names = [HERE, "elsewhere~1", "lessor~1", "lessee~1", "lessee~2", "up~1", "up~2", "down~1", "down~2"]
        self._hears(COORDINATOR, Members(1, [Member(name, name, name, "host", 1) for name in names]))
        storage = Storage("memory", 1, "lineage") if durable else None
        self._hears(COORDINATOR, Deploy(JOB, "digest", placement, storage))
        deployment = self._deployment(ups, downs, lessees, down_lessees, source, sink, function)
        self._happens(CodeLoaded(JOB, deployment))
        self._hears(COORDINATOR, Start(JOB, ["lessee~1", "lessee~2", HERE] if hosts is None else hosts))
        self._forget_all()

    def _deployment(
        self, ups: int, downs: int, lessees: int, down_lessees: int, source: bool, sink: bool, function: type[Recorder]
    ) -> Deployment:
        into = Stage("up", SCHEMA, edges=[Edge(ACTOR, "in", Rebalance())])
        out_of = Stage(ACTOR, SCHEMA, edges=[Edge("down", "in", Rebalance())])
        up = Reader(self.log) if source else Recorder(Log())
        down = FunctionSpec("down", Recorder(Log()), downs, lessees_max=down_lessees, strategy=self._directing)
        functions = {
            "up": FunctionSpec("up", up, ups, {"out": into}, lessees_max=0 if source else lessees),
            ACTOR: FunctionSpec(
                ACTOR,
                Outlet(self.log) if sink else function(self.log),
                1,
                {} if sink else {"out": out_of},
                lessees_max=lessees,
                strategy=self._forwarding,
            ),
        }
        return Deployment(JOB, functions if sink else {**functions, "down": down})

    # Who is under test.

    @classmethod
    def lessor(cls, **more: Any) -> Scenario:
        """`here~1` is the home of an actor that may have lessees."""
        return cls(**more)

    @classmethod
    def lessor_of(cls, *lessees: str, **more: Any) -> Scenario:
        """A lessor that has forwarded a batch to each of these lessees: batch 1 to the first, batch 2 to the second."""
        scenario = cls(**more)
        for number, lessee in enumerate(lessees, 1):
            scenario.forwards(batch(number), to=lessee)
        scenario._forget_all()
        return scenario

    @classmethod
    def lessee(cls, **more: Any) -> Scenario:
        """`here~1` may have a lessee of an actor whose home is `lessor~1`."""
        return cls(home="lessor~1", **more)

    @classmethod
    def sender(cls, **more: Any) -> Scenario:
        """`here~1` is the home of an actor without lessees, which feeds one that may have some."""
        return cls(**{"lessees": 0, "down_lessees": 2, **more})

    @classmethod
    def alone(cls, **more: Any) -> Scenario:
        """`here~1` is the home of an actor; nobody has lessees, and there are checkpoints."""
        return cls(**{"lessees": 0, "durable": True, **more})

    @classmethod
    def source(cls) -> Scenario:
        """`here~1` is the home of a source, which feeds an actor on `down~1`."""
        return cls(source=True, home="down~1", lessees=0, durable=True)

    @classmethod
    def sink(cls, **more: Any) -> Scenario:
        """`here~1` is the home of a sink."""
        return cls(**{"sink": True, "lessees": 0, "durable": True, **more})

    # What happens.

    def arrives(self, *what: Said, by: str = "up~1") -> None:
        """Messages and frames come in from a worker or from the coordinator."""
        for said in what:
            if said.kind in _MESSAGES:
                self._message_arrives(said, by)
            else:
                self._hears(by, self._frame(said, by))

    def forwards(self, message: Said, to: str, by: str = "up~1") -> None:
        """A message arrives that the lessor would rather have run by a lessee."""
        before = self._forwarding.place
        self.prefers(to)
        self.arrives(message, by=by)
        self.prefers(before)

    def prefers(self, lessee: str | None) -> None:
        """From now on the lessor would rather have all batches run by this lessee."""
        self._forwarding.place = lessee

    def refuses(self, refuses: bool = True) -> None:
        """From now on the lessee here takes nothing that is forwarded to it."""
        self._forwarding.accepts = not refuses

    def fails_in(self, hook: str) -> None:
        """From now on the user's strategies raise in this hook."""
        self._forwarding.fails_in = self._directing.fails_in = hook

    def asks_before_it_sends(self) -> None:
        """From now on the sender asks a lessee first, and waits for the reply."""
        self._directing.asks = True

    def reads(self, *numbers: int) -> None:
        """The source reads, once for each number."""
        for number in numbers:
            self.log.to_read.append(number)
            self._now_ns += 1_000_000
            self._happens(Ticked())

    def publishes_in_the_background(self, asked: int) -> None:
        """The next output of the sink is visible only after it was asked so often."""
        self.log.still_publishing = asked

    def time_passes(self, ms: int) -> None:
        self._now_ns += ms * 1_000_000
        self._happens(Ticked())

    def snapshot_stored(self, checkpoint: int, actor: str = ACTOR) -> None:
        self._happens(SnapshotStored(Address(JOB, actor, 0), checkpoint, ActorRecord()))

    def snapshot_failed(self, checkpoint: int, reason: str, actor: str = ACTOR) -> None:
        self._happens(SnapshotFailed(Address(JOB, actor, 0), checkpoint, reason))

    @contextmanager
    def slow_run(self) -> Iterator[None]:
        """The first run that begins inside ends when the block ends."""
        self._holding = True
        yield
        self._holding = False
        run, self._held = self._held, None
        assert run is not None, "nothing has run"
        self._run(run)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The worker runs something of another job; what arrives meanwhile waits."""
        if "other" not in self._worker.jobs:
            self._deploy_other()
        with self.slow_run():
            self._seqs[-1] = self._seqs.get(-1, 0) + 1
            self._hears("up~1", Data(1_000, self._seqs[-1], 0, _rows(0)))
            yield

    # What came of it. Each question is about what was said since it was last asked.

    def sent_to(self, member: str) -> list[Said]:
        return self._outbox.pop(member, [])

    def credits_to(self, member: str) -> list[int]:
        """The credits that were returned to a worker, by the frames that had them."""
        return self._credits.pop(member, [])

    def snapshots(self) -> list[Said]:
        """The snapshots that are to be stored."""
        taken, self._snapshots = self._snapshots, []
        return taken

    @property
    def seen(self) -> list[Said]:
        """All that the function here has seen."""
        return self.log.seen

    @property
    def state(self) -> list[int]:
        """The numbers in its state when it was last called."""
        return self.log.state

    # How it is done.

    def _hears(self, sender: str, frame: Any) -> None:
        self._happens(FrameArrived(sender, frame))

    def _happens(self, event: Any) -> None:
        effects = self._worker.handle(event, self._now_ns)
        self._worker.check_invariants()
        for effect in effects:
            if isinstance(effect, Run):
                self._run_or_hold(effect)
            elif isinstance(effect, Send):
                self._send(effect.to, effect.frame)
            elif isinstance(effect, StoreSnapshot):
                self._snapshots.append(_snapshot(effect))
            elif isinstance(effect, Refuse):
                self.refused.append(effect.reason)

    def _run_or_hold(self, run: Run) -> None:
        if self._holding and self._held is None:
            self._held = run
        else:
            self._run(run)

    def _run(self, run: Run) -> None:
        outcome = run.seat.instance.apply(run.work, self._now_ns)
        self._happens(Ran(run.seat, run.work, outcome, 10))

    def _send(self, to: str, frame: Any) -> None:
        if isinstance(frame, OpenChannel):
            self._ours[frame.number] = to
        if isinstance(frame, Grant):
            self._credits.setdefault(to, []).append(frame.credits)
        if not isinstance(frame, NOISE):
            self._outbox.setdefault(to, []).append(self._said(frame))

    def _forget_all(self) -> None:
        self._outbox, self._snapshots = {}, []
        self.log.seen.clear()

    def _deploy_other(self) -> None:
        into = Stage("feed", SCHEMA, edges=[Edge("task", "in", Rebalance())])
        functions = {
            "feed": FunctionSpec("feed", Recorder(Log()), 1, {"out": into}),
            "task": FunctionSpec("task", Outlet(Log()), 1),
        }
        self._hears(COORDINATOR, Deploy("other", "digest", {"feed": ["up~1"], "task": [HERE]}))
        self._happens(CodeLoaded("other", Deployment("other", functions)))
        self._hears(COORDINATOR, Start("other"))
        self._hears("up~1", OpenChannel(1_000, Address("other", "feed", 0), Address("other", "task", 0), "in", b""))

    def _message_arrives(self, said: Said, by: str) -> None:
        number = self._number(by, HERE)
        if number not in self._seqs:
            self._seqs[number] = 0
            partition = 1 if by == "up~2" else 0
            forwards = by == self._home
            self._hears(
                by, OpenChannel(number, Address(JOB, "up", partition), Address(JOB, ACTOR, 0), "in", b"", forwards)
            )
        self._seqs[number] += 1
        if said.kind == "batch":
            frame: Any = Data(number, self._seqs[number], self._now_ns, _rows(said.mentioned["number"]))
        else:
            last = tuple(self._last(reach) for reach in said.get("last", []))
            sync = SyncProgram(last, said.get("ack", False))
            frame = CriticalSent(
                number, self._seqs[number], self._now_ns, _MESSAGES[said.kind](said), sync if last or sync.ack else None
            )
        self._hears(by, frame)

    def _number(self, sender: str, receiver: str) -> int:
        """The sender's number for its channel to the receiver; one between two others is what the scenario says."""
        if sender == HERE:
            return next(number for number, to in self._ours.items() if to == receiver)
        return self._numbers.setdefault((sender, receiver), 100 + len(self._numbers))

    def _last(self, reach: Reach) -> Last:
        sender, receiver, seq = reach
        return Last(receiver, sender, self._number(sender, receiver), seq)

    def _reach(self, last: Last) -> Any:
        known = self._ours.get(last.number) if last.sender == HERE else None
        if known != last.receiver and self._numbers.get((last.sender, last.receiver)) != last.number:
            return f"an unknown channel: {last}"
        return upto(last.sender, last.receiver, last.seq)

    def _frame(self, said: Said, by: str) -> Any:
        """The frame for what a peer says. It is about the actor, unless it says so."""
        address = Address(JOB, said.get("actor", ACTOR), 0)
        barrier, criticals, number = (said.get(name, 0) for name in ("barrier", "criticals", "checkpoint"))
        time, states = said.get("watermark", 0), _packed(said.get("states", []))
        last = tuple(self._last(reach) for reach in said.get("last", []))
        told = tuple(self._told(reach) for reach in said.get("told", []))
        upstream = ("up", 1 if by == "up~2" else 0) if by.startswith("up") else ("stranger", 0)
        set_to = {ACTOR: said.mentioned["lessees"]} if said.kind == "hosts" and "lessees" in said.mentioned else {}
        makers: dict[str, Callable[[], Any]] = {
            "lease": lambda: Lease(address, time, criticals, states),
            "sync_request": lambda: SyncRequest(address, barrier, last),
            "sync_ack": lambda: SyncAck(address, barrier),
            "sync_reply": lambda: SyncReply(address, barrier, states, told),
            "unsync": lambda: Unsync(address, barrier, time, criticals, said.get("keep", True), states),
            "ack": lambda: Ack(address),
            "register": lambda: Register(address, Address(JOB, *upstream), 0, criticals, said.get("near", False)),
            "registered": lambda: Registered(address, 0, criticals, said.get("lessees", [])),
            "offered": lambda: Offered(self._number(HERE, by), said.get("seq", 0), said.get("taken", True)),
            "schedule_reply": lambda: ScheduleReply(said.get("number", 0), "yes"),
            "checkpoint": lambda: Checkpoint(JOB, number),
            "abandon": lambda: Abandon(JOB, number),
            "overdue": lambda: Overdue(JOB, number),
            "publish": lambda: Publish(JOB, number),
            "drain": lambda: Drain(JOB),
            "hosts": lambda: Hosts(JOB, said.get("members", []), 1, set_to),
        }
        return makers[said.kind]()

    def _told(self, reach: Reach) -> Told:
        return Told(_index(reach[1]), self._last(reach))

    def _said(self, frame: Any) -> Said:
        """What a frame of the worker says."""
        if isinstance(frame, Data):
            return batch(*frame.batch.column("n").to_pylist())
        if isinstance(frame, CriticalSent):
            sync = frame.sync or SyncProgram()
            said = _critical(frame.critical)
            return Said(said.kind, **said.mentioned, last=list(map(self._reach, sync.last)), ack=sync.ack)
        if isinstance(frame, Misbehaved):
            assert "the user's" in frame.traceback
            return Said("misbehaved", function=frame.function, hook=frame.what.rpartition(" ")[2])
        kind, fields = _KINDS[type(frame)]
        said = Said(kind, **{name: getattr(frame, field) for name, field in fields.items()})
        if hasattr(frame, "actor"):
            said.mentioned["actor"] = f"{frame.actor.function} {frame.actor.partition}"
        if "last" in said.mentioned:
            said.mentioned["last"] = list(map(self._reach, frame.last))
        if isinstance(frame, SyncReply):
            assert all(told.index == _index(told.last.receiver) for told in frame.told)
            said.mentioned["told"] = [self._reach(told.last) for told in frame.told]
        if hasattr(frame, "states"):
            said.mentioned["states"] = _unpacked(frame.states)
        return said


_MESSAGES: dict[str, Callable[[Said], Critical | None]] = {
    "batch": lambda said: None,
    "watermark": lambda said: Watermark(said.mentioned["time"]),
    "critical": lambda said: UserCritical(said.mentioned["name"], said.get("payload", None), said.get("joint", False)),
    "mark": lambda said: Mark(said.mentioned["checkpoint"]),
    "end_of_input": lambda said: EndOfInput(),
}

_KINDS: dict[type, tuple[str, dict[str, str]]] = {
    Lease: ("lease", {"watermark": "watermark_us", "criticals": "criticals"}),
    SyncRequest: ("sync_request", {"barrier": "barrier", "last": "last"}),
    SyncAck: ("sync_ack", {"barrier": "barrier"}),
    SyncReply: ("sync_reply", {"barrier": "barrier"}),
    Unsync: ("unsync", {"barrier": "barrier", "keep": "keep", "watermark": "watermark_us", "criticals": "criticals"}),
    Ack: ("ack", {}),
    Register: ("register", {"criticals": "criticals", "near": "near"}),
    Registered: ("registered", {"criticals": "criticals", "lessees": "lessees"}),
    Offered: ("offered", {"seq": "seq", "taken": "taken"}),
    ScheduleRequest: ("schedule_request", {"number": "number"}),
    Finished: ("finished", {"checkpoint": "checkpoint"}),
    Stored: ("stored", {"checkpoint": "checkpoint"}),
    Unstored: ("unstored", {"checkpoint": "checkpoint", "reason": "reason"}),
    Published: ("published", {"checkpoint": "checkpoint"}),
    HostsLeft: ("hosts_left", {}),
}


def _critical(message: Critical) -> Said:
    if isinstance(message, Watermark):
        return watermark(message.time_us)
    if isinstance(message, Mark):
        return mark(message.checkpoint)
    if isinstance(message, UserCritical):
        return critical(message.name, message.payload, joint=message.one)
    return end_of_input()


def _snapshot(effect: StoreSnapshot) -> Said:
    taken = effect.snapshot
    plain = unpacked(taken.plain)
    fragments = [unpacked(fragment.content) for fragment in taken.fragments["numbers"]]
    return snapshot(
        taken.checkpoint,
        state=[number for fragment in fragments for number in fragment],
        remembered=plain["remembered"],
        channels=[(f"{sender} {partition}", time, ended) for sender, partition, _, time, ended in plain["channels"]],
        fragments=fragments,
        finished=taken.finished,
    )


def _index(member: str) -> int:
    """The place of the channel to a downstream worker among the outs of the actor."""
    return 1 if member == "down~2" else 0


def _rows(number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([number], pa.int64())], schema=SCHEMA)


def _packed(numbers: list[int]) -> bytes | None:
    return packed({"numbers": numbers}) if numbers else None


def _unpacked(states: bytes | None) -> list[int]:
    return [] if states is None else unpacked(states)["numbers"]
