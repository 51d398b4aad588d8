"""The parameters of the stock exchange: how long orders are valid, and when analytics close, alarm and halt."""

from __future__ import annotations

from dataclasses import dataclass

from stretto.errors import UserError


@dataclass(frozen=True)
class Rules:
    """Of the transactor, the statistics and the events. Times are event time."""

    valid_us: int = 60_000_000
    """How long an order may wait."""
    interval_us: int = 1_000_000
    """The length of bars and of the other statistics per interval."""
    average_trades: int = 20
    """Over how many trades prices are averaged."""
    sectors: int = 8
    """A stock's sector is the remainder of its number by this."""
    alarm_percent: int = 1
    """How far above its first price a stock raises an alarm."""
    spike_factor: int = 3
    """A spike is an interval with more than this many times the mean volume ..."""
    spike_intervals: int = 3
    """... of this many intervals before it."""
    wash_us: int = 2_000_000
    """Within what time the same two users may not trade a stock back."""
    halt_percent: int = 1
    """By how much a price may move ..."""
    halt_us: int = 1_000_000
    """... within this time."""
    large_cash: int = 50_000_000
    """What an order must bring about to be a large one, in cents."""

    def __post_init__(self) -> None:
        least = min(vars(self).values())
        if least < 1:
            raise UserError("the rules of the exchange are positive numbers", f"one of them is {least}")
