"""Bursts go to transient workers: what is redirected, what comes back (sponge.txt 4).

A transient worker talks to the coordinator and to ordinary workers, never to another transient one: what a twin gives
goes to its instance, which sends it on as its own.
"""

from __future__ import annotations

import msgspec

from stretto.actors.address import Address
from stretto.actors.tasks import Step

STEPS = ""
"""The input of batches that a source has read, and on which its twin runs the fused steps."""


class To(msgspec.Struct, frozen=True, array_like=True):
    """The transient workers that a function may use, and the share of its batches that goes there."""

    members: tuple[str, ...]
    share: float


class Redirect(msgspec.Struct, frozen=True, tag="redirect"):
    """From the coordinator: where the batches of some functions go from now on. The batches of others stay."""

    job: str
    functions: dict[str, To]


class Redirected(msgspec.Struct, frozen=True, tag="twin"):
    """A batch of an instance, to be run by its twin. The schema is in the first one of an input."""

    actor: Address
    number: int
    input: str
    rows: bytes
    schema: bytes | None
    arrived_ns: int
    progress_us: int | None
    deadline_ns: int
    watermark_us: int


class TwinBegins(msgspec.Struct, frozen=True, tag="twinbegins"):
    """A twin of a keyed instance begins, with these states; whatever it had is void."""

    actor: Address
    states: bytes


class StepsSent(msgspec.Struct, frozen=True, tag="twinsteps"):
    """The steps of a barrier, to be run by the twin of a keyed instance on its keys, after all before them."""

    actor: Address
    number: int
    steps: tuple[Step, ...]


class Returned(msgspec.Struct, frozen=True, tag="twinran"):
    """What the run of a batch gave: batches by the index of the channel that they are for."""

    actor: Address
    number: int
    rows_in: int
    outputs: list[tuple[int, bytes]]
    cost_ns: int
    counts: dict[str, int]
    """What the function has counted in this run."""
    timer_ns: int | None = None
    """When the twin's next timer on the clock is due, which fires at home."""


class AskBack(msgspec.Struct, frozen=True, tag="askback"):
    """Give back the state that the twin has, or a `copy` of it, once all that was sent before this has run."""

    actor: Address
    round: int
    copy: bool = False


class GivenBack(msgspec.Struct, frozen=True, tag="givenback"):
    """The state of a twin, which it has no more unless this is a `copy`."""

    actor: Address
    round: int
    states: bytes | None
    copy: bool = False
