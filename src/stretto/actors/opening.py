"""Opening an instance: first its function, then what it resumes from a checkpoint, where it may already have ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stretto.actors import barriers, resuming
from stretto.actors.function import EVENT_TIME_MAX_US
from stretto.actors.snapshot import Origin
from stretto.actors.work import End, Errand, Open, Outcome
from stretto.errors import FunctionError

if TYPE_CHECKING:
    from stretto.actors.instance import Instance


def opened(instance: Instance, errand: Open, now_ns: int) -> Outcome:
    """Opens the function and resumes; nothing can be sent yet."""
    ctx = instance.ctx
    instance.function.open(ctx)
    if ctx.sent:
        raise FunctionError(
            f"function '{instance.address.function}' sent in open()",
            "its consumers may not exist yet",
            "Send from process(), or set a timer in open() and send from on_timer().",
        )
    instance.timers.take_from(ctx)
    if instance.origin is not None:
        with resuming.read_from(instance, instance.origin):
            _resume(instance, instance.origin)
    elif instance.is_sink:
        instance.function.discard_leftovers()
    return Outcome(now_ns)


def ended(instance: Instance, errand: End, now_ns: int) -> Outcome:
    """Ends an instance whose inputs had all ended in the checkpoint, while it had not."""
    outcome = Outcome(now_ns)
    instance.advance_watermark(outcome)
    instance.finish(outcome)
    return outcome


APPLIES: dict[type[Errand], Callable[[Any, Any, int], Outcome]] = {Open: opened, End: ended}


def _resume(instance: Instance, origin: Origin) -> None:
    contents = list(origin.contents.values())
    if contents:
        instance.at_watermark(min(content.plain.watermark_us for content in contents))
    _resume_channels(instance, origin)
    if origin.whole and contents:
        (content,) = contents
        # Timers that `open` has set were also set before the checkpoint.
        instance.timers.restore(resuming.all_timers(content))
        instance.ctx.counts = resuming.all_counts(contents)
        resuming.rebuild(instance, content)
        consolidated, remembered = content.plain.consolidated, content.plain.remembered
    else:
        pending = resuming.timers_of(instance, origin)
        if pending is not None:
            instance.timers.restore(pending)
        instance.ctx.counts = resuming.counts_of(origin)
        resuming.divide(instance, origin)
        consolidated, remembered = resuming.consolidated_of(instance, origin), resuming.regrouped(instance, origin)
    if consolidated is not None:
        barriers.adopt(instance, consolidated)
    if origin.whole or remembered is not None:
        instance.function.recall(remembered)
    elif instance.is_sink:
        instance.function.discard_leftovers()
    instance.origin, instance.finished = None, origin.finished


def _resume_channels(instance: Instance, origin: Origin) -> None:
    """Restores the watermark and the end of each input. If the wiring is unchanged, the snapshot has them for each
    channel."""
    if origin.channels is not None:
        for channel in instance.inputs:
            channel.watermark_us, channel.ended = origin.channels[channel.sender.function, channel.sender.partition]
        live = [channel for channel in instance.inputs if not channel.ended]
        least_us = min((channel.watermark_us for channel in live), default=EVENT_TIME_MAX_US)
        for channel in live:
            if channel.watermark_us == least_us > instance.watermark_us:
                # All are ahead of the instance: the next watermark on the slowest of them advances it.
                channel.watermark_us = instance.watermark_us
        return
    ((_, content),) = origin.contents.items()
    found: dict[tuple[Any, ...], list[tuple[int, bool]]] = {}
    for function, partition, name, watermark_us, is_ended in content.plain.channels:
        found.setdefault((function, partition, name), []).append((watermark_us, is_ended))
    for channel in instance.inputs:
        channel.watermark_us, channel.ended = found[*channel.sender[1:], channel.input].pop(0)
