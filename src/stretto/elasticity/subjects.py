"""What controllers look at: a controller is asked only while a running job has some of it."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from stretto.actors.shape import Shapes
from stretto.api.slo import SLO


class Running(Protocol):
    """A job that runs, as far as it matters who looks at it."""

    @property
    def shapes(self) -> Shapes: ...

    @property
    def objective(self) -> SLO | None: ...


class Subject(Enum):
    """What a controller looks at."""

    ELASTIC_FUNCTIONS = "functions whose shards may move"
    OBJECTIVES = "objectives of jobs"
    REDIRECTABLE_FUNCTIONS = "functions whose batches may run on transient workers"
    JOBS = "all jobs"

    def is_in(self, job: Running) -> bool:
        """Whether a job has it."""
        match self:
            case Subject.ELASTIC_FUNCTIONS:
                return any(shape.workers_max for shape in job.shapes.values())
            case Subject.OBJECTIVES:
                return job.objective is not None
            case Subject.REDIRECTABLE_FUNCTIONS:
                return any(shape.redirects for shape in job.shapes.values())
            case Subject.JOBS:
                return True


EVERYTHING = frozenset(Subject)
