"""What must hold of an instance between any two events."""

from __future__ import annotations

from stretto.actors.channel import CREDITS_PER_CHANNEL
from stretto.actors.seat import Seat
from stretto.errors import InvariantError
from stretto.worker.sending import UNDECIDED_MAX


def check_seat(seat: Seat, running: bool) -> None:
    """Counts are exact, and whoever could run is up for running."""
    starved = sum((out.credits <= 0) + out.waits for out in seat.outs)
    starved += (seat.undecided >= UNDECIDED_MAX) + (seat.interrupted is not None)
    starved += seat.lookups is not None and seat.lookups.writing
    if starved != seat.starved:
        raise InvariantError(f"{seat.address} counts {seat.starved} starved channels", f"{starved}")
    for out in seat.outs:
        if out.credits > CREDITS_PER_CHANNEL:
            raise InvariantError(f"a channel of {seat.address} has more credits than it began with")
    if (seat.gate is None) != (seat.keeper is None):
        raise InvariantError(f"{seat.address} has a gate without a keeper, or a keeper without a gate")
    if seat.paused is not None:
        if seat.paused and not seat.queued and not running:
            raise InvariantError(f"{seat.address} is paused with an errand but is not up for running")
        return
    has_work = bool(seat.mailbox) if seat.keeper is None else seat.keeper.has_work(seat)
    if seat.holds and seat.keeper is None and seat.mailbox.first_is_message:
        has_work = False
    has_work = has_work or seat.poll_due
    if seat.away is not None:
        has_work = seat.away.has_work or (bool(has_work or seat.away.own) and not seat.away.waits)
    if seat.lookups is not None:
        has_work = seat.lookups.has_work or (bool(has_work) and not seat.lookups.waits)
    ready = (has_work or seat.rest is not None) and not seat.starved
    if ready and not seat.queued and not running:
        raise InvariantError(f"{seat.address} has work and credits but is not up for running")
