"""An instance comes to the mark of a checkpoint: its snapshot is taken, and the mark goes on. Sinks publish later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stretto.actors.critical import Mark
from stretto.actors.snapshot import Snapshot
from stretto.actors.work import Errand, Marking, Outcome, Publishing
from stretto.state.packing import packed

if TYPE_CHECKING:
    from stretto.actors.instance import Instance


def pass_mark(instance: Instance, checkpoint: int, outcome: Outcome) -> None:
    """All that came before the mark is done and nothing after it: this is what the checkpoint has of the actor."""
    if instance.is_sink:
        instance.function.seal(checkpoint)
    outcome.snapshot = _snapshot(instance, checkpoint)
    if not instance.finished:
        instance.broadcast(Mark(checkpoint), outcome)


def run_marking(instance: Instance, marking: Marking, now_ns: int) -> Outcome:
    """A source comes to a mark between two reads, a finished sink when it is asked to."""
    outcome = Outcome(now_ns)
    pass_mark(instance, marking.checkpoint, outcome)
    return outcome


def publish(instance: Instance, publishing: Publishing, now_ns: int) -> Outcome:
    """The checkpoint is complete, so a sink publishes what it has sealed."""
    instance.function.publish(publishing.checkpoint)
    return Outcome(now_ns)


APPLIES: dict[type[Errand], Callable[[Any, Any, int], Outcome]] = {Marking: run_marking, Publishing: publish}


def _snapshot(instance: Instance, checkpoint: int) -> Snapshot:
    states = instance.function.states()
    plain = {
        "watermark_us": instance.watermark_us,
        "channels": [(*c.sender[1:], c.input, c.watermark_us, c.ended) for c in instance.inputs],
        "timers": instance.timers.pending(),
        "counts": instance.ctx.counts,
        "consolidated": instance.consolidated,
        "remembered": instance.function.remember(),
        "described": {name: state.describe() for name, state in states.items()},
    }
    fragments = {name: state.fragments() for name, state in states.items()}
    return Snapshot(checkpoint, packed(plain), fragments, instance.finished, instance.watermark_us)
