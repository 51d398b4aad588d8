"""Disciplines: how a function may scale, which depends only on its state. One lease mechanism serves all of them.

A discipline says what a lease brings to a lessee, which workers a message may be routed to, and what the instances of
an actor do at a barrier. `worker/leasing/` runs the protocol and asks; it never looks at a function's state itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stretto.state.packing import packed, unpacked

if TYPE_CHECKING:
    from stretto.actors.function import Function


class Discipline:
    """The base is sequential: one instance per partition, at home, and nothing is ever leased."""

    spreads = False
    """Whether other workers than the actor's home may run its messages."""

    def __init__(self, name: str, says: str) -> None:
        self.name = name
        self.says = says

    def __str__(self) -> str:
        return f"{self.name}: {self.says}"

    def places(self, candidates: list[str]) -> list[str]:
        """Returns the candidates (workers that hold a lease of the actor or may get one) that a message may be sent
        to."""
        return candidates if self.spreads else []

    def surrender(self, lessee: Function) -> bytes | None:
        """Returns what a lessee sends to the lessor at a barrier. The lessee starts again from empty state."""
        return None

    def consolidate(self, lessor: Function, part: bytes) -> None:
        """Merges what a lessee surrendered at a barrier into the lessor."""


class Stateless(Discipline):
    """Any message on any lessee. A barrier waits for all messages sent; there is nothing to merge."""

    spreads = True


class Combinable(Discipline):
    """Any message on any lessee, each with a partial state. At a barrier the partial states are sent home and
    merged."""

    spreads = True

    def surrender(self, lessee: Function) -> bytes | None:
        content = exported(lessee)
        lessee.bind_states()
        return content

    def consolidate(self, lessor: Function, part: bytes) -> None:
        states = lessor.states()
        for name, content in unpacked(part).items():
            theirs = states[name].fresh()
            theirs.restore(content)
            states[name].merge(theirs)


def exported(function: Function) -> bytes:
    """Returns all states of a function as bytes."""
    return packed({name: state.export() for name, state in function.states().items()})


SEQUENTIAL = Discipline("sequential", "one instance per partition")
KEYED = Discipline("keyed", "one instance per partition, which has all rows of its keys")
ELASTIC = Discipline("keyed", "the shards of a partition move to as many workers as its load needs")
STATELESS = Stateless("stateless", "any message on any lessee")
COMBINABLE = Combinable("combinable", "any message on any lessee, partial states merge at barriers")
