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

PUBLISHING_POLL_NS = 5_000_000
"""How often a sink is asked that publishes in the background."""


def pass_mark(instance: Instance, mark: Mark, outcome: Outcome) -> None:
    """Takes the snapshot of an actor that has run everything before the mark and nothing after it. At the mark of a
    handover it takes none: the actor stays as it is until it is known who continues."""
    if instance.is_sink or instance.calls or instance.reads_emitted:
        instance.function.seal(mark.checkpoint)
    if mark.handover:
        outcome.passed = mark.checkpoint
    else:
        outcome.snapshot = snapshot_of(instance, mark.checkpoint)
    if not instance.finished:
        instance.broadcast(mark, outcome)


def run_marking(instance: Instance, marking: Marking, now_ns: int) -> Outcome:
    """Runs the mark of a source, between two reads, or of a finished sink."""
    outcome = Outcome(now_ns)
    pass_mark(instance, Mark(marking.checkpoint, marking.handover), outcome)
    return outcome


def publish(instance: Instance, publishing: Publishing, now_ns: int) -> Outcome:
    """Publishes what a sink has sealed, lets rows be called, or lets go of emitted rows: the checkpoint is complete."""
    outcome = Outcome(now_ns)
    if instance.function.publish(publishing.checkpoint) is False:
        outcome.next_ns = now_ns + PUBLISHING_POLL_NS
    return outcome


APPLIES: dict[type[Errand], Callable[[Any, Any, int], Outcome]] = {Marking: run_marking, Publishing: publish}


def snapshot_of(instance: Instance, checkpoint: int) -> Snapshot:
    """Returns all that an instance needs to resume."""
    states = instance.function.states()
    plain = packed(plain_data(instance))
    fragments = {name: state.fragments() for name, state in states.items()}
    return Snapshot(checkpoint, plain, fragments, instance.finished, instance.sent_watermark_us)


def channels_of(instance: Instance) -> list[tuple[str, int, str, int, bool]]:
    """Returns the watermark and the end of each channel to an instance."""
    return [(c.sender.function, c.sender.partition, c.input, c.watermark_us, c.ended) for c in instance.inputs]


def plain_data(instance: Instance) -> dict[str, Any]:
    """Returns all that an instance needs to resume besides its states, as plain data."""
    return {
        "watermark_us": instance.watermark_us,
        "channels": channels_of(instance),
        "timers": instance.timers.pending(),
        "counts": summed((instance.ctx.counts, instance.others_counts)),
        "consolidated": instance.consolidated,
        "remembered": instance.function.remember(),
        "described": {name: state.describe() for name, state in instance.function.states().items()},
    }
