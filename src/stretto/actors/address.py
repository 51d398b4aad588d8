"""Where an actor lives in the name space: app, function, partition. Workers come and go; addresses stay."""

from __future__ import annotations

from typing import NamedTuple


class Address(NamedTuple):
    """One virtual actor: a static partition of a function of a job."""

    job: str
    function: str
    partition: int

    def __str__(self) -> str:
        return f"{self.job}/{self.function}/{self.partition}"


class Attempt(NamedTuple):
    """One run of a job with checkpoints: of so many drivers that owned them the so manyth, its so manyth attempt. A
    later one is greater, so whoever finds traces of a greater one than itself knows that it was replaced. `lineage`
    stands for the directory of the checkpoints, wherever that is moved."""

    lineage: str
    owner: int
    number: int


def job_of(run: str) -> str:
    """The name of a job, from that of one of its runs: after a failure it runs again as `job~2`."""
    return run.partition("~")[0]


def attempt_of(run: str) -> int:
    """Which run of its job it is."""
    return int(run.partition("~")[2] or 1)
