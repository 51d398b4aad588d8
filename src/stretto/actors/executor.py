"""An elastic executor, as its home keeps it: a keyed actor whose shards are on several workers (elasticutor.txt 3.1).

The home receives all that comes for the actor, and routes rows by shard to the workers that own the shards; each of
them has a **task**, an instance of the actor that holds a lease. The home is one of them. While a shard moves, its rows
wait at the home (3.2).

Plain data that `worker/elastic/` changes. An actor has this record only while some shard is elsewhere or moves, so an
executor that is not in use costs nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stretto.actors.shards import SHARDS

if TYPE_CHECKING:
    import pyarrow as pa

    from stretto.actors.channel import Message, OutChannel

HELD = 255
"""The route of a shard on the move: its rows wait at the home."""
TASKS_MAX = 254
ROW_WEIGHT = 0.2
"""The weight of the latest run in what a row costs."""


class Routed:
    """A message whose rows went several ways. It is settled when all of them have run here or were sent on."""

    __slots__ = ("left", "message")

    def __init__(self, message: Message, left: int) -> None:
        self.message = message
        self.left = left


class OwnPart:
    """The messages that a message which runs at the home has rows of, and the generation in which its run began."""

    __slots__ = ("generation", "routed")

    def __init__(self, *routed: Routed) -> None:
        self.routed = routed
        self.generation = 0


class Move:
    """Some shards on their way from one worker to another. `order` is the number of the order that asked for it, and
    `began_ns` when their rows began to wait."""

    __slots__ = ("began_ns", "number", "order", "shards", "source", "target")

    def __init__(self, number: int, order: int, shards: tuple[int, ...], source: str, target: str) -> None:
        self.number = number
        self.order = order
        self.shards = shards
        self.source = source
        self.target = target
        self.began_ns = 0


class Order:
    """An order of the coordinator: how many of its moves are not done, and what they have cost so far."""

    __slots__ = ("bytes", "left", "moved", "number", "waited_ns")

    def __init__(self, number: int, left: int) -> None:
        self.number = number
        self.left = left
        self.moved = 0
        self.bytes = 0
        self.waited_ns = 0


class Executor:
    """The record of one elastic executor at its home.

    `members` are the workers with a task, the home first; `owners` has the place in it of each shard's owner, and
    `routes` the same, but for shards on the move. `own` are parts of messages that run here, `sending` those that wait
    for credits of a task's channel, `held` those with rows of shards on the move. `outstanding` counts the parts that
    run here, by the `generation` in which their run began; a move ends a generation, and one away from the home waits
    until no run of an earlier one is left. Parts that have to wait are put together again, to batches of at most
    `batch_rows`, the largest that came; `row_ns` is what a row costs at the home. `version` changes with the routes;
    `dividing` counts messages that are being divided, and `routing_ns` what that has cost in all."""

    __slots__ = (
        "batch_rows",
        "dividing",
        "generation",
        "held",
        "members",
        "move",
        "moves",
        "moves_made",
        "orders",
        "outstanding",
        "own",
        "owners",
        "routes",
        "routing_ns",
        "row_ns",
        "sending",
        "version",
    )

    def __init__(self, home: str) -> None:
        self.members = [home]
        self.owners: npt.NDArray[np.uint8] = np.zeros(SHARDS, np.uint8)
        self.routes: npt.NDArray[np.uint8] = np.zeros(SHARDS, np.uint8)
        self.own: deque[tuple[Routed, pa.RecordBatch]] = deque()
        self.sending: dict[OutChannel, deque[tuple[Routed, pa.RecordBatch]]] = {}
        self.held: list[tuple[Routed, pa.RecordBatch]] = []
        self.move: Move | None = None
        self.moves: deque[Move] = deque()
        self.moves_made = 0
        self.orders: dict[int, Order] = {}
        self.generation = 0
        self.outstanding: Counter[int] = Counter()
        self.version = 0
        self.dividing = 0
        self.routing_ns = 0
        self.batch_rows = 1
        self.row_ns = 0.0

    def ran(self, cost_ns: int, rows: int, routed: bool) -> None:
        """Notes what a run at the home has cost."""
        if routed:
            self.routing_ns += cost_ns
        elif rows:
            weight = ROW_WEIGHT if self.row_ns else 1.0
            self.row_ns += weight * (cost_ns / rows - self.row_ns)

    def rows_within(self, cost_ns: int) -> int:
        """Returns how many rows cost that much: at least one, and at most those of the largest batch that came."""
        return max(1, min(self.batch_rows, int(cost_ns / self.row_ns) if self.row_ns else self.batch_rows))

    @property
    def home(self) -> str:
        return self.members[0]

    @property
    def is_idle(self) -> bool:
        """Whether all shards are at home and nothing is under way."""
        return (
            self.move is None
            and not (self.moves or self.own or self.held or self.sending or self.dividing)
            and not self.owners.any()
            and not self.outstanding.total()
        )

    @property
    def waiting(self) -> int:
        """Parts of messages that wait here for a shard, or for the credits of a task's channel."""
        return len(self.held) + sum(map(len, self.sending.values()))

    def owner(self, shard: int) -> str:
        return self.members[int(self.owners[shard])]

    def all_owners(self) -> list[str]:
        """Returns the owner of each shard."""
        return [self.members[place] for place in self.owners.tolist()]

    def owns_any(self, member: str) -> bool:
        """Whether a worker owns a shard, or will after the moves that are under way or wait."""
        moves = [*([self.move] if self.move is not None else []), *self.moves]
        if any(move.target == member for move in moves):
            return True
        return member in self.members and bool((self.owners == self.place_of(member)).any())

    def place_of(self, member: str) -> int:
        """Returns the place of a worker among the members, which it joins if it is new."""
        if member not in self.members:
            self.members.append(member)
        return self.members.index(member)

    def begin(self, move: Move) -> None:
        """From now on the rows of these shards wait."""
        self.move = move
        self.routes[list(move.shards)] = HELD
        self.generation += 1
        self.version += 1

    def end(self, move: Move) -> None:
        """The shards have a new owner."""
        self.move = None
        self.version += 1
        place = self.place_of(move.target)
        self.owners[list(move.shards)] = self.routes[list(move.shards)] = place

    def left_before(self, generation: int) -> int:
        """Returns how many runs that began here in earlier generations have not ended."""
        return sum(count for each, count in self.outstanding.items() if each < generation)
