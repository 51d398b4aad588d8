"""Opening an instance: first its function, then what it resumes from a checkpoint, where it may already have ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stretto.actors import barriers, inheriting, resuming
from stretto.actors.snapshot import Origin
from stretto.actors.work import End, Errand, Open, Outcome
from stretto.errors import FunctionError

if TYPE_CHECKING:
    from stretto.actors.instance import Instance


def opened(instance: Instance, errand: Open, now_ns: int) -> Outcome:
    """Opens the function and resumes; nothing can be sent yet. A function that is taken over is open already."""
    if instance.origin is not None and instance.origin.adopts is not None:
        inheriting.adopt(instance, instance.origin, instance.origin.adopts)
        return Outcome(now_ns)
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
    if not instance.calls:
        instance.finish(outcome)
    return outcome


APPLIES: dict[type[Errand], Callable[[Any, Any, int], Outcome]] = {Open: opened, End: ended}


def _resume(instance: Instance, origin: Origin) -> None:
    if origin.bequests:
        origin = replace(origin, contents=inheriting.contents_of(origin.bequests))
    contents = list(origin.contents.values())
    if contents:
        instance.at_watermark(min(content.plain.watermark_us for content in contents))
    inheriting.resume_channels(instance, origin)
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
