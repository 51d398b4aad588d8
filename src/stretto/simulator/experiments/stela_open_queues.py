"""The scale-in of the thesis with queues that have no bounds, as in its Storm: a model, not a run.

Nobody waits for credits there. A source reads at its own rate, whatever becomes of it. A machine divides its processor
evenly among the executors that have work: one that needs less than its part keeps up, and at one that needs more the
queue grows until tuples are so late that they are of no use (Storm gives them up after 30 s and has them read again).
A tuple is in time if it meets none of those on its way, and which executor of an operator it meets is random. So one
executor too many on a machine is paid by all tuples that pass it, and not by a lower rate for all. What is in time is
then much less for most choices of machines, which is how the thesis' 2 to 5 times can come about; it does not say what
its throughput counts. Its rate is not known either: here it is a tenth below what all machines could process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from stretto.elasticity.topology import Placement

INPUT = 0.9
"""The rate of the input, as a share of what was processed before machines left."""
ROUNDING = 1e-9


@dataclass(frozen=True)
class OpenQueuesFigure:
    """The share of the input that is in time after Stela's choice and after random ones, and how many times the mean
    of those the first is; None if nothing is in time after them."""

    stela: float
    random: list[float]
    by_random_mean: float | None


def open_queues_figure(
    stela: Placement, groups: Sequence[Placement], work: Mapping[str, float], before: float
) -> OpenQueuesFigure:
    """Returns the figure for some placements. `work` is what a batch that is read costs an executor of each operator,
    and `before` the batches that were processed, both by the same unit of time."""
    kept, *others = (in_time(placement, work, INPUT * before) for placement in (stela, *groups))
    average = mean(others)
    gain = round(kept / average, 2) if average else None
    return OpenQueuesFigure(round(kept, 3), [round(each, 3) for each in others], gain)


def in_time(homes: Placement, work: Mapping[str, float], rate: float) -> float:
    """Returns the share of the batches that meet no executor that cannot keep up."""
    share = 1.0
    slow = late_executors(homes, work, rate)
    for name, places in homes.items():
        share *= 1 - len(slow[name]) / len(places)
    return share


def late_executors(homes: Placement, work: Mapping[str, float], rate: float) -> dict[str, list[int]]:
    """Returns the executors of each operator that cannot keep up with a rate where they are."""
    on_machine: dict[str, list[tuple[float, str, int]]] = {}
    for name, places in homes.items():
        for place, machine in enumerate(places):
            on_machine.setdefault(machine, []).append((rate * work[name], name, place))
    found: dict[str, list[int]] = {name: [] for name in homes}
    for executors in on_machine.values():
        left = 1.0
        # Those that need least first: what they leave of their part is for the others.
        for done, (needs, name, place) in enumerate(sorted(executors)):
            part = left / (len(executors) - done)
            if needs > part + ROUNDING:
                found[name].append(place)
            left -= min(needs, part)
    return found
