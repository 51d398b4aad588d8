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
    """One run of a job with checkpoints: attempt `number` of driver number `owner`. A later attempt is greater, so an
    attempt that finds traces of a greater one knows that it was replaced. `lineage` identifies the checkpoint
    directory, even if it is moved."""

    lineage: str
    owner: int
    number: int


def job_of(run: str) -> str:
    """Returns the job name from the name of one of its runs: after a failure, a job runs again as `job~2`."""
    return run.partition("~")[0]


def attempt_of(run: str) -> int:
    """Returns the number of the run, from 1."""
    return int(run.partition("~")[2] or 1)
