"""Variants of blame and stopping with one bug each, which `simulate neighbours` must catch."""

from __future__ import annotations

from typing import Any

from stretto.coordinator.blame import Blame
from stretto.coordinator.events import Death
from stretto.coordinator.machine import CoordinatorParts
from stretto.coordinator.records import Job
from stretto.coordinator.stopping import Stopping
from stretto.simulator.checking.mutations import mutation_name
from stretto.simulator.engine.durable import Parts


class NobodyBlamed(Blame):
    """Deaths are not counted: a deadly function is recovered for ever."""

    def judge(self, member: str, death: Death) -> None:
        pass


class NoQuarantine(Blame):
    """A suspect resumes among the others."""

    def is_quarantined(self, job: Job) -> bool:
        return False

    def workers_for(self, job: Job) -> list[str]:
        return self._hosts.workers()


class NoteBelieved(Blame):
    """The job in the note is convicted, also when another one may have ended the worker."""

    def _culprit(self, present: list[Job], suspects: list[Job], noted: Job | None) -> Job | None:
        return noted if noted in suspects else super()._culprit(present, suspects, noted)


class NeverReplaced(Stopping):
    """A worker whose function does not return is waited for."""

    def tick(self) -> None:
        pass


def _parts(mutation: type[Any]) -> Parts:
    if issubclass(mutation, Blame):
        return Parts(coordinator=CoordinatorParts(blame=mutation))
    return Parts(coordinator=CoordinatorParts(stopping=mutation))


MUTATIONS: dict[str, Parts] = {
    mutation_name(mutation): _parts(mutation) for base in (Blame, Stopping) for mutation in base.__subclasses__()
}
