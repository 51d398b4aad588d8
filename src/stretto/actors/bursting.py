"""What of a function can run on transient workers while a burst lasts, and what that costs (sponge.txt 4.2).

It follows from the function's state alone, as its discipline does.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from stretto.actors.deployment import FunctionSpec, Stage, edges_of
from stretto.actors.discipline import STATELESS
from stretto.actors.sharing import spaces_of


class Burst(Enum):
    """What goes to transient workers, in words for `explain()`."""

    NOTHING = "stays here"
    STEPS = (
        "it reads here, and its steps go to transient workers: a round trip per batch; results wait for those of "
        "earlier batches"
    )
    BATCHES = "any batch goes to transient workers: a round trip per batch; results wait for those of earlier batches"
    MERGED = (
        "any batch goes to transient workers: a round trip per batch, and what they have added to the state comes back "
        "before each watermark and mark"
    )
    KEYS = (
        "rows of keys that have no state here go to transient workers, which keep it until a mark or the end of the "
        "burst: a round trip per batch, and what they were sent is kept here"
    )


class InBurst(NamedTuple):
    """What a function can do in a burst, and why not more if that is nothing."""

    kind: Burst
    because: str | None = None

    @property
    def redirects(self) -> bool:
        return self.kind is not Burst.NOTHING

    @property
    def ordered(self) -> bool:
        """Whether what it sends stays in its order: that may matter downstream, and watermarks have their places in
        it. What twins have added to a state is merged before anything is sent."""
        return self.kind in (Burst.STEPS, Burst.BATCHES)

    def __str__(self) -> str:
        return self.kind.value if self.because is None else f"{self.kind.value}, because {self.because}"


def in_burst(spec: FunctionSpec, is_source: bool) -> InBurst:
    """Returns what a function can do in a burst."""
    because = _stays_because(spec, is_source)
    if because is not None:
        return InBurst(Burst.NOTHING, because)
    if is_source:
        return InBurst(Burst.STEPS)
    if spec.function.discipline is STATELESS:
        return InBurst(Burst.BATCHES)
    return InBurst(Burst.MERGED if spec.discipline.spreads else Burst.KEYS)


def _stays_because(spec: FunctionSpec, is_source: bool) -> str | None:
    if not any(edges_of(stage) for stage in spec.outputs.values()):
        return "it is a sink"
    if spec.on_driver:
        return "it runs on the driver"
    if spec.function.reads_emitted:
        return "entities emit its rows"
    if is_source:
        return None if any(map(_has_steps, spec.outputs.values())) else "it only reads"
    if spaces_of(spec.function):
        return "it uses shared objects"
    if spec.function.reads_consolidated:
        return "it reads the consolidated state"
    if spec.function.discipline is STATELESS or spec.discipline.spreads:
        return None
    if not spec.partitioned_by:
        return f"its rows have no key, and {spec.sequential_because or 'it runs in one place'}"
    if spec.spill_bytes is not None:
        return "its state spills"
    return spec.inelastic_because or spec.function.inelastic_because


def _has_steps(stage: Stage) -> bool:
    """Whether anything is computed below an output."""
    return stage.transform is not None or any(map(_has_steps, stage.stages))
