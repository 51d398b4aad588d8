"""What an instance of a dual-mode actor knows beyond its mailbox: its state, its leases, the barrier under way.

Plain records. Who moves them along is `leasing.py`; what they may become is the table in `mailbox.py`.
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


class Observer(Protocol):
    """Whoever wants to know what gates do; the simulator's checkers."""

    def moved(self, address: Address, role: Role, before: MailboxState, trigger: Trigger, after: MailboxState) -> None:
        """A mailbox has changed its state."""

    def noted(self, message: Message) -> None:
        """A critical message needed no barrier: nothing runs because of it."""


class Lessee:
    """A lessor's record of one lessee: the channels that forward to it, and who else may send to it directly."""

    __slots__ = ("channels", "member", "senders", "used")

    def __init__(self, member: str) -> None:
        self.member = member
        self.channels: dict[tuple[Address, str], OutChannel] = {}
        self.senders: set[Address] = set()
        self.used = True

    @property
    def unsettled(self) -> int:
        """Forwarded messages that it has not told to be done."""
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
        """Its instance was dropped: let go of all messages. The garbage collector does not look at messages, and could
        never free what they lead back to."""


class LessorGate(Gate):
    """The lessor's. `former` are lessees whose lease has ended; their channels serve again if they get another.

    `waiting` has the critical message that each channel has come to; what follows it is `held`,
    with its place in the mailbox.

    While BLOCKED, `unacknowledged` are the lessees that have not said that they know of the barrier, `unreplied` those
    whose partial state is awaited; `parts` are the states that came. `told` is how far the lessees have sent
    downstream, by the place of the out channel: it goes with the next critical message there, which not every barrier
    sends. `owed` is the DEPENDENCY_PAYLOAD of critical messages that needed no barrier; the next one waits for it.
    `unacked` counts the critical messages that were sent and whose ACKs are awaited. `offered` are messages that were
    forwarded to a lessee that may refuse them, by the channel's number and their own there: no barrier begins before it
    is known who runs them. `overdue` is what waited when a checkpoint was last said to be so, by its checkpoint."""

    role = Role.LESSOR
    __slots__ = (
        "barriers",
        "blocked_ns",
        "candidates",
        "consolidated",
        "durations",
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
        self.unacked = 0
        self.consolidated: bytes | None = None
        self.registrations: list[tuple[str, Any]] = []
        self.candidates: list[str] | None = None
        self.overdue: tuple[int, set[int]] = (0, set())

    def forget(self) -> None:
        self.held = []
        self.waiting = {}
        self.messages = []
        self.offered = {}


class LesseeGate(Gate):
    """The lessee's. `awaited` is the dependency set of the barrier under way: the last message of each channel."""

    role = Role.LESSEE
    __slots__ = ("adoption", "awaited", "barrier", "lessor", "surrendering")

    def __init__(self, address: Address, lessor: str) -> None:
        super().__init__(address)
        self.lessor = lessor
        self.barrier = 0
        self.awaited: dict[tuple[str, int], int] | None = None
        self.surrendering = False
        self.adoption: bytes | None = None
