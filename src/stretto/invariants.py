"""What must hold of an instance between any two events."""

from __future__ import annotations

from stretto.actors.channel import CREDITS_PER_CHANNEL
from stretto.actors.instance import Instance
from stretto.desk import UNDECIDED_MAX
from stretto.errors import InvariantError


def check_instance(instance: Instance, has_work: bool, running: bool) -> None:
    """Counts are exact, and whoever could run is up for running."""
    starved = sum((out.credits <= 0) + out.waits for out in instance.outs)
    starved += (instance.undecided >= UNDECIDED_MAX) + (instance.interrupted is not None)
    if starved != instance.starved:
        raise InvariantError(f"{instance.address} counts {instance.starved} starved channels", f"{starved}")
    for out in instance.outs:
        if out.credits > CREDITS_PER_CHANNEL:
            raise InvariantError(f"a channel of {instance.address} has more credits than it began with")
    ready = (has_work or instance.poll_due) and not instance.starved
    if ready and not instance.queued and not running:
        raise InvariantError(f"{instance.address} has work and credits but is not up for running")
