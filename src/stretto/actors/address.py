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
