"""All strategies by their names."""

from __future__ import annotations

from collections.abc import Callable

from stretto.scheduling.binding import LaxityBasedDirect, QueueBasedDirect
from stretto.scheduling.choosing import Auto
from stretto.scheduling.naming import named
from stretto.scheduling.offloading import AcceptAndCheck, Anticipate, CheckFirst, Parallel, Pipelined, RejectLate
from stretto.scheduling.spreading import DirectSend, Dispatcher, Near, PriorityBased, RejectSend
from stretto.scheduling.strategy import Strategy
from stretto.scheduling.tokens import TokenRate

STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "auto": Auto,
    "reject": RejectSend,
    "direct": DirectSend,
    "near": Near,
    "priority": PriorityBased,
    "queue-direct": QueueBasedDirect,
    "laxity-direct": LaxityBasedDirect,
    "1rtt-reject-send": RejectLate,
    "1rtt-accept-and-check": AcceptAndCheck,
    "anticipate": Anticipate,
    "2rtt-sequential": CheckFirst,
    "2rtt-pipelined": Pipelined,
    "2rtt-parallel": Parallel,
    "tokens": TokenRate,
    "dispatcher": Dispatcher,
}


def strategy_named(name: str) -> Strategy:
    """A strategy by its name, or a user's own by `module:Class`."""
    return named(name, STRATEGIES, Strategy, "strategy")
