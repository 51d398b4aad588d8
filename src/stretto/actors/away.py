"""What an instance has sent to transient workers to be run there: its record while a burst is redirected.

A transient worker has a **twin** of the instance (the transient operator of sponge.txt 4.1). A batch that is sent there
comes back as what the run gave, and counts as run here. The state that twins build is merged here before anything but a
batch runs: a watermark, a mark, any errand. Until then the batches are kept: a transient worker may vanish, and what it
had runs here again.

Plain data that `worker/bursts/` changes. An instance has this record only while a burst is redirected.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stretto.actors.channel import Message
    from stretto.actors.reading import Conclude, Steps
    from stretto.actors.work import Outcome, Work

WINDOW = 4
"""So many batches of one instance are with one transient worker at most ..."""
LONG_NS, LONG_WINDOW = 10_000_000, 2
"""... or so many if one takes as long: whatever waits for them waits for all, and the next is there in time."""
UNSENT_MAX = 64
"""So many batches of an ordered instance may wait for the results of earlier ones; then nothing more is begun."""


class Slot:
    """A batch that runs elsewhere, or that waits for such a one: `outcome` is what it gave, once it has run. It is
    `queued` if it has a place in the order of what is sent on. A watermark of a function without state has a slot too:
    it `concludes` what came before, and runs when all of that is sent on."""

    __slots__ = ("concludes", "cost_ns", "outcome", "queued", "work")

    def __init__(self, work: Message | Steps | Conclude, concludes: bool = False) -> None:
        self.work = work
        self.concludes = concludes
        self.outcome: Outcome | None = None
        self.queued = False
        self.cost_ns = 0


class Lane:
    """What one transient worker has of an instance: batches that have not come back (`out`, by their numbers), and
    those that have but whose state has not (`kept`). `inputs` are those whose schema it knows. While `asked`, its
    state is on the way."""

    __slots__ = ("asked", "cost_ns", "inputs", "kept", "kept_bytes", "out")

    def __init__(self) -> None:
        self.out: dict[int, Slot] = {}
        self.kept: list[Message] = []
        self.kept_bytes = 0
        self.inputs: set[str] = set()
        self.asked = False
        self.cost_ns = 0
        """What the last batch took there."""

    @property
    def is_full(self) -> bool:
        return len(self.out) >= (WINDOW if self.cost_ns < LONG_NS else LONG_WINDOW)

    @property
    def is_empty(self) -> bool:
        return not self.out and not self.kept and not self.asked


class Away:
    """The record of one instance. A `share` of its batches goes to the `members`; `due` is the part of a batch that is
    owed to them. `held` is the work that waits until everything is back; `parts` are states that twins have given back,
    `again` batches of lost twins that run here, `redone` those of them whose results are sent already. If the order of
    what it sends matters (`ordered`), `slots` has all batches from the first that has not come back, also those that
    have run here meanwhile, and watermarks: batches that come after them are begun meanwhile. If it is `merged`, twins
    build state."""

    __slots__ = (
        "again",
        "due",
        "held",
        "lanes",
        "members",
        "merged",
        "numbered",
        "ordered",
        "own",
        "parts",
        "redone",
        "rounds",
        "share",
        "slots",
    )

    def __init__(self, merged: bool = False, ordered: bool = False) -> None:
        self.merged = merged
        self.ordered = ordered
        self.members: tuple[str, ...] = ()
        self.share = 0.0
        self.due = 0.0
        self.lanes: dict[str, Lane] = {}
        self.numbered = 0
        self.rounds = 0
        self.held: Work | None = None
        self.parts: list[bytes] = []
        self.again: deque[Slot] = deque()
        self.redone: list[Message] = []
        self.slots: deque[Slot] = deque()
        self.own: deque[Any] = deque()
        """Of a keyed instance: parts of messages that run here (`keyed_away.py`)."""

    @property
    def is_back(self) -> bool:
        """Whether nothing is with a transient worker, and all that it gave is merged and sent on."""
        if self.parts or self.again or self.redone or self.slots:
            return False
        return all(lane.is_empty for lane in self.lanes.values())

    @property
    def has_work(self) -> bool:
        """Whether something can run that is not in the mailbox."""
        if self.again or self.redone or self.parts or self.concludes:
            return True
        return self.held is not None and self.is_back

    @property
    def concludes(self) -> bool:
        """Whether a watermark is the next that is sent on."""
        return bool(self.slots) and self.slots[0].concludes

    @property
    def waits(self) -> bool:
        """Whether nothing of the mailbox may run before more has come back."""
        return self.held is not None or len(self.slots) >= UNSENT_MAX
