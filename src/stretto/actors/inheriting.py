"""An attempt of a job takes over from the running one: what an instance gives, and how its follower takes it in.

A follower on the same worker that is the same partition takes the function itself, open as it is, with its states,
readers, writers and timers: nothing is copied. All others get the content as bytes, and resume as from a checkpoint
(`resuming.py`). Until the next attempt starts, the giving instance stays as it was, so that it can go on if the
handover is called off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from stretto.actors import marking
from stretto.actors.function import EVENT_TIME_MAX_US
from stretto.actors.snapshot import Content, Origin, Plain
from stretto.actors.work import Bequeath, Errand, Outcome
from stretto.state.packing import packed, unpacked

if TYPE_CHECKING:
    from stretto.actors.instance import Instance


def bequeath(instance: Instance, errand: Bequeath, now_ns: int) -> Outcome:
    """Packs all that an instance has; it keeps it too."""
    states = {name: state.export() for name, state in instance.function.states().items()}
    outcome = Outcome(now_ns)
    outcome.states = packed({"plain": marking.plain_data(instance), "states": states, "finished": instance.finished})
    return outcome


APPLIES: dict[type[Errand], Callable[[Any, Any, int], Outcome]] = {Bequeath: bequeath}


def contents_of(bequests: dict[int, tuple[bytes, ...]]) -> dict[int, Content]:
    """Returns what instances gave, by their partitions, with the parts of their tasks."""
    found = {}
    for former, (whole, *parts) in bequests.items():
        found[former] = _content(whole, tuple(_content(part) for part in parts))
    return found


def _content(data: bytes, parts: tuple[Content, ...] = ()) -> Content:
    given = unpacked(data)
    plain = msgspec.convert(given["plain"], type=Plain)
    return Content(plain, finished=given["finished"], path="the running job", parts=parts, exported=given["states"])


def adopt(instance: Instance, origin: Origin, former: Instance) -> None:
    """Takes over the function of an instance on the same worker, as it is."""
    attempt = instance.ctx.attempt
    instance.take_over(former)
    instance.ctx.attempt = attempt
    if origin.channels is None:
        _set_channels(instance, marking.channels_of(former))
    else:
        resume_channels(instance, origin)
    instance.origin, instance.finished = None, origin.finished


def resume_channels(instance: Instance, origin: Origin) -> None:
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
    _set_channels(instance, content.plain.channels)


def _set_channels(instance: Instance, known: list[tuple[str, int, str, int, bool]]) -> None:
    found: dict[tuple[Any, ...], list[tuple[int, bool]]] = {}
    for function, partition, name, watermark_us, is_ended in known:
        found.setdefault((function, partition, name), []).append((watermark_us, is_ended))
    for channel in instance.inputs:
        channel.watermark_us, channel.ended = found[*channel.sender[1:], channel.input].pop(0)
