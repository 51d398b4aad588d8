"""An instance at the mark of a checkpoint: its snapshot is taken, and the mark is sent on. Sinks publish later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stretto.actors.critical import Mark
from stretto.actors.metrics import summed
from stretto.actors.snapshot import Snapshot
from stretto.actors.work import Errand, Marking, Outcome, Publishing
from stretto.state.packing import packed

if TYPE_CHECKING:
    from stretto.actors.instance import Instance


def pass_mark(instance: Instance, checkpoint: int, outcome: Outcome) -> None:
    """Takes the snapshot of an actor that has run everything before the mark and nothing after it."""
    if instance.is_sink:
        instance.function.seal(checkpoint)
    outcome.snapshot = snapshot_of(instance, checkpoint)
    if not instance.finished:
        instance.broadcast(Mark(checkpoint), outcome)


def run_marking(instance: Instance, marking: Marking, now_ns: int) -> Outcome:
    """Runs the mark of a source, between two reads, or of a finished sink."""
    outcome = Outcome(now_ns)
    pass_mark(instance, marking.checkpoint, outcome)
    return outcome


def publish(instance: Instance, publishing: Publishing, now_ns: int) -> Outcome:
    """Publishes what a sink has sealed, since the checkpoint is complete."""
    instance.function.publish(publishing.checkpoint)
    return Outcome(now_ns)


APPLIES: dict[type[Errand], Callable[[Any, Any, int], Outcome]] = {Marking: run_marking, Publishing: publish}


def snapshot_of(instance: Instance, checkpoint: int) -> Snapshot:
    """Returns all that an instance needs to resume."""
    states = instance.function.states()
    plain = {
        "watermark_us": instance.watermark_us,
        "channels": [(*c.sender[1:], c.input, c.watermark_us, c.ended) for c in instance.inputs],
        "timers": instance.timers.pending(),
        "counts": summed((instance.ctx.counts, instance.others_counts)),
        "consolidated": instance.consolidated,
        "remembered": instance.function.remember(),
        "described": {name: state.describe() for name, state in states.items()},
    }
    fragments = {name: state.fragments() for name, state in states.items()}
    return Snapshot(checkpoint, packed(plain), fragments, instance.finished, instance.sent_watermark_us)
