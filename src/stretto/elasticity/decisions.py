"""What a controller can decide: about an elastic actor, a function, or the workers of the cluster. The enactor in the
coordinator carries decisions out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from stretto.actors.address import Address
from stretto.actors.shards import ShardMap
from stretto.api.slo import SLO

SHOWN = 4
"""How many moves or workers a line of text shows."""


class ShardMove(NamedTuple):
    """One shard and the workers that it leaves and goes to."""

    shard: int
    source: str
    target: str


class _OfActor:
    """A decision about one actor."""

    __slots__ = ()
    job: str
    function: str
    partition: int

    @property
    def address(self) -> Address:
        return Address(self.job, self.function, self.partition)


class _OfMany:
    """A decision about all partitions of a function, or about the cluster."""

    __slots__ = ()

    @property
    def address(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class MoveShards(_OfActor):
    """Some shards of an actor change their owners. The others do not notice."""

    job: str
    function: str
    partition: int
    moves: tuple[ShardMove, ...]

    def plain(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {"kind": "move shards", "moves": [list(move) for move in self.moves]}

    def __str__(self) -> str:
        shown = [f"{move.shard} {move.source} -> {move.target}" for move in self.moves[:SHOWN]]
        return f"move {len(self.moves)} shards: {_some(shown, len(self.moves))}"


@dataclass(frozen=True, slots=True)
class SetWorkers(_OfActor):
    """The workers that may hold shards of an actor, its home first. Shards leave a worker that is no longer listed, and
    come to a new one, by `MoveShards` that follow."""

    job: str
    function: str
    partition: int
    workers: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {"kind": "set workers", "workers": list(self.workers)}

    def __str__(self) -> str:
        return f"use {len(self.workers)} workers: {_some(list(self.workers[:SHOWN]), len(self.workers))}"


@dataclass(frozen=True, slots=True)
class Repartition(_OfMany):
    """A function gets another number of partitions while it runs: the operator-level way, with one joint barrier.
    `others` are further functions that get another number at the same barrier. With `shards`, keys are dealt to the
    partitions like this, also where their number stays; otherwise in ranges of equal length."""

    job: str
    function: str
    parallelism: int
    others: tuple[tuple[str, int], ...] = ()
    shards: ShardMap | None = None

    def plain(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        others: dict[str, Any] = {"others": dict(self.others)} if self.others else {}
        if self.shards is not None:
            others["owners"] = list(self.shards.owners)
        return {"kind": "repartition", "parallelism": self.parallelism, **others}

    def __str__(self) -> str:
        others = "".join(f", '{function}' into {parallelism}" for function, parallelism in self.others)
        dealt = "" if self.shards is None else ", its keys dealt by load"
        return f"repartition into {self.parallelism}{dealt}{others}"


@dataclass(frozen=True, slots=True)
class SetLessees(_OfMany):
    """How many lessees each actor of a function may have: for functions that are stateless or whose state combines."""

    job: str
    function: str
    lessees: int

    def plain(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {"kind": "set lessees", "lessees": self.lessees}

    def __str__(self) -> str:
        return f"use {self.lessees} lessees"


@dataclass(frozen=True, slots=True)
class SetObjective(_OfMany):
    """What a job promises from now on."""

    job: str
    objective: SLO

    def plain(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {"kind": "set objective", "objective": self.objective.describe()}

    def __str__(self) -> str:
        return f"promise {self.objective.describe()}"


@dataclass(frozen=True, slots=True)
class MoveHomes(_OfMany):
    """All actors of a job leave these workers, at one joint barrier."""

    job: str
    avoid: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {"kind": "move homes", "avoid": list(self.avoid)}

    def __str__(self) -> str:
        return f"leave {_some(list(self.avoid[:SHOWN]), len(self.avoid))}"


@dataclass(frozen=True, slots=True)
class GiveCapacity(_OfMany):
    """A function of a job is to have so many units more. What a unit is, its discipline says (`capacity.py`)."""

    job: str
    function: str
    units: int

    def plain(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {"kind": "give capacity", "units": self.units}

    def __str__(self) -> str:
        return f"give {self.units} units"


@dataclass(frozen=True, slots=True)
class TakeCapacity(_OfMany):
    """A function of a job is to have so many units less."""

    job: str
    function: str
    units: int

    def plain(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {"kind": "take capacity", "units": self.units}

    def __str__(self) -> str:
        return f"take {self.units} units"


@dataclass(frozen=True, slots=True)
class AddWorkers(_OfMany):
    """The cluster gets so many workers more. Who uses them is decided by others: strategies at once, controllers of
    elastic actors by their periods. `transient` ones are for bursts."""

    count: int
    transient: bool = False

    def plain(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {"kind": "add workers", "count": self.count, **({"transient": True} if self.transient else {})}

    def __str__(self) -> str:
        kind = "transient worker" if self.transient else "worker"
        return f"add {self.count} {kind}{'s' if self.count != 1 else ''}"


@dataclass(frozen=True, slots=True)
class DrainWorker(_OfMany):
    """A worker leaves the cluster, once all that is there has moved to others."""

    member: str

    def plain(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {"kind": "drain worker", "worker": self.member}

    def __str__(self) -> str:
        return f"drain worker {self.member}"


class Redirection(NamedTuple):
    """A share of the batches of a function, and the transient workers that they go to."""

    function: str
    members: tuple[str, ...]
    share: float


@dataclass(frozen=True, slots=True)
class RedirectBurst(_OfMany):
    """Batches of some functions of a job go to transient workers from now on. Those of all its others stay."""

    job: str
    redirections: tuple[Redirection, ...]

    def plain(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        functions = {each.function: {"workers": list(each.members), "share": each.share} for each in self.redirections}
        return {"kind": "redirect burst", "functions": functions}

    def __str__(self) -> str:
        members = {name for each in self.redirections for name in each.members}
        shown = [f"{each.share:.0%} of '{each.function}'" for each in self.redirections[:SHOWN]]
        plural = "s" if len(members) != 1 else ""
        return f"redirect {_some(shown, len(self.redirections))} to {len(members)} transient worker{plural}"


@dataclass(frozen=True, slots=True)
class EndBurst(_OfMany):
    """All batches of a job run on ordinary workers again."""

    job: str

    def plain(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {"kind": "end burst"}

    def __str__(self) -> str:
        return "bring all batches back from transient workers"


@dataclass(frozen=True, slots=True)
class MoveCopies(_OfMany):
    """Workers load and drop copies of segments of published tables: pairs of a worker and a segment. The driver's
    worker has it done (`worker/copying.py`)."""

    loads: tuple[tuple[str, str], ...]
    drops: tuple[tuple[str, str], ...]

    def plain(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {
            "kind": "move copies",
            "loads": [list(each) for each in self.loads],
            "drops": [list(e) for e in self.drops],
        }

    def __str__(self) -> str:
        loads = _some([f"{segment} on {member}" for member, segment in self.loads[:SHOWN]], len(self.loads))
        drops = _some([f"{segment} on {member}" for member, segment in self.drops[:SHOWN]], len(self.drops))
        parts = [*([f"load {loads}"] if loads else []), *([f"drop {drops}"] if drops else [])]
        return "; ".join(parts)


Capacity = GiveCapacity | TakeCapacity
Burst = RedirectBurst | EndBurst
Decision = (
    MoveCopies
    | MoveShards
    | SetWorkers
    | Repartition
    | SetLessees
    | SetObjective
    | MoveHomes
    | Capacity
    | Burst
    | AddWorkers
    | DrainWorker
)


def _some(shown: list[str], count: int) -> str:
    return ", ".join(shown) + (f" and {count - len(shown)} more" if count > len(shown) else "")
