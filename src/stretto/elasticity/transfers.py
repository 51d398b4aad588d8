"""Which units go from one job to another: only where what the controller maximises rises (thesis 3.2).

For a job that misses its objective, bundles of 1, 2, 4, ... units are tried, up to all that it wants. Units come from
those whose utility falls least, one after the other. The bundle with the best sum is chosen, so that a job that gains
nothing by one unit, but much by four, gets four or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from stretto.elasticity.intents import IntentView, JobStanding


class Goal(Enum):
    """What the controller maximises."""

    TOTAL = "total"
    """The sum of all utilities."""
    FAIR = "fair"
    """The least utility, by the greatest that its job can have."""


def achieved(goal: Goal, view: IntentView) -> float:
    """Returns what is maximised, between 0 and 1."""
    if goal is Goal.FAIR:
        return view.least
    return view.total / view.total_max if view.total_max else 1.0


@dataclass(frozen=True, slots=True)
class Transfer:
    """The units of all functions that change, how all would stand then, and how much is gained."""

    units: Mapping[tuple[str, str], int]
    after: IntentView
    gain: float


def wanted_units(job: JobStanding, target: float) -> dict[str, int]:
    """Returns how many units more each function of a job wants, in proportion to its load, so that none is fuller than
    the target; but at most as many as it has. Where none is, the fullest wants one."""
    able = {name: each for name, each in job.functions.items() if each.changes}
    found = {}
    for name, each in able.items():
        more = -int(-each.units * each.load / target // 1) - each.units
        if more > 0:
            found[name] = min(more, each.units)
    if not found and able:
        found[max(able, key=lambda name: able[name].load)] = 1
    return found


def next_wanted(job: JobStanding, wants: Mapping[str, int]) -> str | None:
    """Returns the function of a job that gets the next unit: the fullest of those that want one."""
    left = [name for name, more in wants.items() if more > 0]
    return max(left, key=lambda name: job.functions[name].load, default=None)


def best_transfer(
    view: IntentView, receiver: str, wants: Mapping[str, int], goal: Goal, least_gain: float, units_max: int
) -> Transfer | None:
    """Returns the transfer to a job by which the goal gains most; None where none gains as much as `least_gain`."""
    total = min(sum(wants.values()), units_max)
    sizes = sorted({min(1 << power, total) for power in range(total.bit_length() + 1)} - {0})
    found = [transfer for size in sizes if (transfer := _bundle(view, receiver, wants, goal, size)) is not None]
    best = max(found, key=lambda each: each.gain, default=None)
    return best if best is not None and best.gain >= least_gain else None


def _bundle(view: IntentView, receiver: str, wants: Mapping[str, int], goal: Goal, size: int) -> Transfer | None:
    before = view.units
    now, left = view, dict(wants)
    for _ in range(size):
        if now.spare < 1:
            taken = _cheapest(now, receiver, goal)
            if taken is None:
                return None
            now = now.with_units({taken: now.units[taken] - 1})
        name = next_wanted(now.jobs[receiver], left)
        if name is None:
            return None
        left[name] -= 1
        now = now.with_units({(receiver, name): now.units[receiver, name] + 1})
    changed = {place: units for place, units in now.units.items() if units != before[place]}
    return Transfer(changed, now, _gain(view, now, receiver, goal))


def _gain(before: IntentView, after: IntentView, receiver: str, goal: Goal) -> float:
    """Returns by how much the goal rises. If somebody else has the least utility, the fair goal looks at those that are
    concerned: the receiver rises, and nobody falls below where it ends."""
    if goal is Goal.TOTAL:
        return achieved(goal, after) - achieved(goal, before)
    changed = [name for name, job in after.jobs.items() if job is not before.jobs[name]]
    return min(after.jobs[name].ratio for name in changed) - before.jobs[receiver].ratio


def _cheapest(view: IntentView, receiver: str, goal: Goal) -> tuple[str, str] | None:
    """Returns the function of another job whose unit is missed least; of equals, the least loaded one."""
    best: tuple[float, float] | None = None
    found = None
    for (name, function), units in view.units.items():
        job = view.jobs[name]
        if name == receiver or units <= 1:
            continue
        after = job.with_units({function: units - 1})
        loss = job.utility - after.utility if goal is Goal.TOTAL else -after.ratio
        key = (loss, after.functions[function].load)
        if best is None or key < best:
            best, found = key, (name, function)
    return found
