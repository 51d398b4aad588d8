"""The record of a decision: when, by whom, why, what was seen, what else was possible, and what came of it.

A record is immutable. Whoever carries the decision out replaces it: by `finished`, later by `measured`, and with
another `reverted_ns` where the decision was taken back. To decide nothing for a reason is a record too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from stretto.elasticity.decisions import Decision


class Outcome(Enum):
    """What became of a decision."""

    PENDING = "pending"
    DONE = "done"
    REFUSED = "refused"
    """The enactor did not begin: it conflicts with another decision, or with the job's state."""
    FAILED = "failed"
    """It was begun, and everything is as before."""
    NOTHING = "nothing"
    """There was nothing to carry out."""


class Trigger(Enum):
    """What triggered a controller. A decision about nothing has one too."""

    IMBALANCE = "imbalance"
    LEAVING = "a worker is to be emptied"
    LOAD = "load"
    OBJECTIVE = "objective"
    IDLE_WORKERS = "idle workers"
    LOCALITY = "locality"
    ROBBED = "its worker is needed by another actor"
    HOME_ROUTING = "routing at home"
    HOME_NETWORK = "network at home"
    SKEW = "skew"
    LONG_RUNS = "runs that are longer than what neighbours have promised"
    UTILITY_FELL = "total utility fell"
    BURST = "a burst"
    BURST_OVER = "the burst is over"
    LASTING = "the burst lasts"
    POPULARITY = "what questions ask for"
    OWN = "a controller of the user's"
    ASKED = "the user"
    REVERTED = "a decision that made it worse"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that could be done, its predicted effect, and why it was not chosen (None: it was)."""

    what: str
    predicted: Mapping[str, float] = field(default_factory=dict)
    lost_because: str | None = None

    def plain(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {"what": self.what, "predicted": plain_values(self.predicted), "lost_because": self.lost_because}


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One decision of one controller. `decision` is None where nothing was decided, for the reason in `because`. A
    decision about the workers of the cluster has no job and no function, one about a whole job has no function.

    `because` has no numbers: they are in `seen`, so that equal reasons are equal texts."""

    at_ns: int
    controller: str
    job: str
    function: str
    partition: int | None
    trigger: Trigger
    because: str
    seen: Mapping[str, float] = field(default_factory=dict)
    candidates: tuple[Candidate, ...] = ()
    decision: Decision | None = None
    measure_at_ns: int | None = None
    """When its effect is to be measured (`effects.py`)."""
    outcome: Outcome = Outcome.PENDING
    outcome_reason: str | None = None
    spent: Mapping[str, float] | None = None
    """What carrying it out took, such as the time in which rows of moving shards waited."""
    effect: Mapping[str, float] | None = None
    """The values of `seen` some seconds later."""
    reverted_ns: int | None = None
    """When it was taken back."""
    number: int = 0
    """Its number, given by whoever carries it out."""
    reverts: int | None = None
    """The number of the decision that this one takes back."""

    def __post_init__(self) -> None:
        if self.decision is None:
            object.__setattr__(self, "outcome", Outcome.NOTHING)

    def finished(
        self, outcome: Outcome, reason: str | None = None, spent: Mapping[str, float] | None = None
    ) -> DecisionRecord:
        """Returns the record with what became of it; a refusal and a failure need a reason."""
        if outcome in (Outcome.REFUSED, Outcome.FAILED) and not reason:
            raise ValueError(f"A decision was {outcome.value} without a reason: say why.")
        return replace(self, outcome=outcome, outcome_reason=reason, spent=spent)

    def measured(self, effect: Mapping[str, float]) -> DecisionRecord:
        """Returns the record with the effect that was measured."""
        return replace(self, effect=dict(effect))

    @property
    def where(self) -> str:
        """Returns the actor, or the function if it concerns all partitions, or the job, or the cluster."""
        if not self.function:
            return self.job or "cluster"
        return f"{self.job}/{self.function}" + ("" if self.partition is None else f"/{self.partition}")

    def plain(self) -> dict[str, Any]:
        """Returns plain data for JSON; values that JSON does not have (infinity) are null."""
        return {
            "at_ns": self.at_ns,
            "controller": self.controller,
            "job": self.job,
            "function": self.function,
            "partition": self.partition,
            "trigger": self.trigger.value,
            "because": self.because,
            "seen": plain_values(self.seen),
            "candidates": [candidate.plain() for candidate in self.candidates],
            "decision": None if self.decision is None else self.decision.plain(),
            "outcome": self.outcome.value,
            "outcome_reason": self.outcome_reason,
            "spent": None if self.spent is None else plain_values(self.spent),
            "effect": None if self.effect is None else plain_values(self.effect),
            "reverted_ns": self.reverted_ns,
            "number": self.number,
            "reverts": self.reverts,
        }

    def __str__(self) -> str:
        """Returns one line for people."""
        what = "nothing" if self.decision is None else str(self.decision)
        parts = [f"{self.where}: {what}, because {self.because} ({_values(self.seen)})"]
        if self.outcome not in (Outcome.PENDING, Outcome.NOTHING):
            parts.append(self.outcome.value + (f" ({self.outcome_reason})" if self.outcome_reason else ""))
        if self.spent:
            parts.append(_values(self.spent))
        if self.effect is not None:
            parts.append(f"then {_values(self.effect)}")
        if self.reverted_ns is not None:
            parts.append("reverted")
        return f"[{self.controller}] " + "; ".join(parts)


def plain_values(values: Mapping[str, float]) -> dict[str, float | None]:
    """Returns the values for JSON, which has no infinity."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _values(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in values.items())
