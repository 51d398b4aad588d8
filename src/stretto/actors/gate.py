"""What an instance of a dual-mode actor knows beyond its mailbox: its state, its leases, the barrier in progress.

Plain records. `worker/leasing/` changes them, by the table in `mailbox_states.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from stretto.actors.address import Address
from stretto.actors.critical import Last
from stretto.actors.mailbox_states import BEGINNING, MailboxState, Role, Trigger, moved
from stretto.actors.metrics import LatencySketch

if TYPE_CHECKING:
    from stretto.actors.channel import InChannel, Message, OutChannel
    from stretto.actors.mailbox import Entry
    from stretto.actors.tasks import Step


class Observer(Protocol):
    """An observer of gates: the simulator's checkers."""

    def moved(self, address: Address, role: Role, before: MailboxState, trigger: Trigger, after: MailboxState) -> None:
        """A mailbox has changed its state."""

    def noted(self, message: Message) -> None:
        """A critical message needed no barrier, so nothing runs for it."""


class Lessee:
    """A lessor's record of one lessee: the channels that forward to it, and the actors that may send to it directly."""

    __slots__ = ("channels", "member", "senders", "used")

    def __init__(self, member: str) -> None:
        self.member = member
        self.channels: dict[tuple[Address, str], OutChannel] = {}
        self.senders: set[Address] = set()
        self.used = True

    @property
    def unsettled(self) -> int:
        """Forwarded messages that it has not reported as done."""
        return sum(channel.unsettled for channel in self.channels.values())


class Gate:
    """The mailbox state of one instance."""

    role: Role
    __slots__ = ("address", "observer", "state")

    def __init__(self, address: Address) -> None:
        self.address = address
        self.state = BEGINNING[self.role]
        self.observer: Observer | None = None

    def move(self, trigger: Trigger) -> None:
        before, self.state = self.state, moved(self.role, self.state, trigger)
        if self.observer is not None:
            self.observer.moved(self.address, self.role, before, trigger, self.state)

    def forget(self) -> None:
        """Releases all messages when the instance is dropped. The garbage collector does not track messages, so it
        could not free a cycle through them."""


class LessorGate(Gate):
    """The lessor's. `former` are lessees whose lease has ended; their channels are reused if they get another.

    `waiting` has the critical message that each channel has reached; the messages after it are `held`, with their
    mailbox entries.

    While BLOCKED, `unacknowledged` are the lessees that have not acknowledged the barrier, `unreplied` those whose
    partial state is awaited; `parts` are the states received. Its critical messages `ran` when their run was begun, and
    what that gave was `sent`. `told` is the last message of each lessee on each
    downstream channel, by the index of the out channel: the next critical message there carries it, which not every
    barrier sends. `owed` is the DEPENDENCY_PAYLOAD of critical messages that needed no barrier; the next barrier waits
    for it. `unacked` counts the critical messages sent whose ACKs are awaited. `offered` are messages forwarded to a
    lessee that may refuse them, by channel number and sequence number: no barrier begins before it is known who runs
    them. `overdue` is the checkpoint that was last reported overdue, and the app's joint messages that waited then.
    `following` has the batch on each channel that must not run before what another instance of its sender sent;
    batches after it are held too.

    `counts` are the counters of every lessee so far as it last reported them, also of those whose lease has ended.

    Two kinds of questions may have to wait, each with the member that asked: `registrations` of senders that want to
    send to lessees, and `asking`, of actors upstream that are about to get their first task."""

    role = Role.LESSOR
    __slots__ = (
        "asking",
        "barriers",
        "blocked_ns",
        "candidates",
        "consolidated",
        "counts",
        "durations",
        "following",
        "former",
        "held",
        "lessees",
        "members",
        "messages",
        "offered",
        "overdue",
        "owed",
        "parts",
        "ran",
        "registrations",
        "sent",
        "told",
        "unacked",
        "unacknowledged",
        "unexecuted",
        "unreplied",
        "waiting",
    )

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.held: list[Entry] = []
        self.lessees: dict[str, Lessee] = {}
        self.former: dict[str, Lessee] = {}
        self.waiting: dict[InChannel, Message] = {}
        self.following: dict[InChannel, Message] = {}
        self.unexecuted: Counter[Address] = Counter()
        self.barriers = 0
        self.blocked_ns = 0
        self.durations: LatencySketch | None = None
        self.messages: list[Message] = []
        self.members: list[str] = []
        self.unacknowledged: set[str] = set()
        self.unreplied: set[str] = set()
        self.offered: dict[tuple[int, int], Message] = {}
        self.owed: dict[tuple[str, str, int], Last] = {}
        self.parts: list[bytes] = []
        self.told: dict[int, dict[tuple[str, str, int], Last]] = {}
        self.ran = False
        self.sent = False
        self.unacked = 0
        self.consolidated: bytes | None = None
        self.counts: dict[str, dict[str, int]] = {}
        self.registrations: list[tuple[str, Any]] = []
        self.asking: list[tuple[str, Any]] = []
        self.candidates: list[str] | None = None
        self.overdue: tuple[int, set[int]] = (0, set())

    def forget(self) -> None:
        self.held = []
        self.following = {}
        self.waiting = {}
        self.messages = []
        self.offered = {}


class LesseeGate(Gate):
    """The lessee's. `awaited` is the dependency set of the barrier in progress: the last message of each channel.
    `steps` are what a task of an elastic executor runs at it."""

    role = Role.LESSEE
    __slots__ = ("adoption", "awaited", "barrier", "lessor", "steps", "surrendering")

    def __init__(self, address: Address, lessor: str) -> None:
        super().__init__(address)
        self.lessor = lessor
        self.barrier = 0
        self.awaited: dict[tuple[str, int], int] | None = None
        self.surrendering = False
        self.steps: tuple[Step, ...] = ()
        self.adoption: bytes | None = None
