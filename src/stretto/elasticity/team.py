"""Several controllers together: who is due, and who waits for whom.

A slower controller leaves an actor alone while the last decision of a faster one about it is younger than the faster
one's effect window: what it would see is half old and half new, and the faster one may have absorbed it already. A
faster one that never comes to rest does not keep the slower ones away for ever: after `HOLD_NS` it is their turn.

A controller whose decisions do not depend on where shards are (`asked_first`) waits for nobody, and those after it see
the workers that it has just allotted: shards can go there in the same round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from stretto.actors.address import Address
from stretto.elasticity.controller import Controller
from stretto.elasticity.decisions import SetWorkers
from stretto.elasticity.rationing import Rationing
from stretto.elasticity.records import DecisionRecord
from stretto.elasticity.subjects import EVERYTHING, Running, Subject
from stretto.elasticity.view import ElasticView

HOLD_NS = 10_000_000_000


class Team(Controller):
    """Controllers by their periods, the fastest first. It rations the records of those that decide nothing."""

    def __init__(self, controllers: Sequence[Controller], hold_ns: int = HOLD_NS) -> None:
        self.controllers = tuple(sorted(controllers, key=lambda controller: controller.every_ns))
        self.every_ns = min((controller.every_ns for controller in self.controllers), default=self.every_ns)
        self._subjects = {controller.looks_at for controller in self.controllers}
        self._hold_ns = hold_ns
        self._due_ns = [0] * len(self.controllers)
        self._decided_ns: list[dict[Address, int]] = [{} for _ in self.controllers]
        self._held_since_ns: list[dict[Address, int]] = [{} for _ in self.controllers]
        self._rationing = Rationing()
        self.given_up: dict[str, Exception] = {}
        """Controllers that raised, with what they raised."""

    def subjects_in(self, jobs: Iterable[Running]) -> set[Subject]:
        """Returns what the controllers look at, as far as some of these jobs have it."""
        if not self._subjects:
            return set()
        running = list(jobs)
        return {subject for subject in self._subjects if any(subject.is_in(job) for job in running)}

    def next_ns(self, present: AbstractSet[Subject] = EVERYTHING) -> int | None:
        """Returns when some controller is due next that looks at something present; None if there are none."""
        return min((self._due_ns[place] for place in self._looking(present)), default=None)

    def _looking(self, present: AbstractSet[Subject]) -> list[int]:
        return [place for place, each in enumerate(self.controllers) if each.looks_at in present]

    def decide(
        self, view: ElasticView, now_ns: int, present: AbstractSet[Subject] = EVERYTHING
    ) -> list[DecisionRecord]:
        """Returns the decisions of all controllers that are due and look at something present: at most one per actor,
        but for moves of shards that follow from an allotment."""
        due = [place for place in self._looking(present) if now_ns >= self._due_ns[place]]
        due.sort(key=lambda place: not self.controllers[place].asked_first)
        overdue = {place: self._overdue(place, now_ns) for place in due}
        found: list[DecisionRecord] = []
        decided: list[set[Address]] = [set() for _ in self.controllers]
        for place in due:
            self._due_ns[place] = now_ns + self.controllers[place].every_ns
            left_to_slower = {address for slower in due if slower > place for address in overdue[slower]}
            now = {address for faster in self._faster(place) for address in decided[faster]}
            left_to_faster = (self._recent(place, now_ns) - overdue[place]) | now
            since_ns = self._held_since_ns[place]
            self._held_since_ns[place] = {address: since_ns.get(address, now_ns) for address in left_to_faster}
            records = self._asked(place, view.holding(left_to_slower | left_to_faster), now_ns)
            for record in records:
                if record.decision is not None:
                    about = _about(view, record)
                    decided[place].update(about)
                    self._decided_ns[place].update(dict.fromkeys(about, now_ns))
            if self.controllers[place].asked_first:
                view = view.allotted(_allotments(records))
            found += records
        self._forget(view)
        return self._rationing.admitted(found, now_ns)

    def _faster(self, place: int) -> list[int]:
        """Returns the faster controllers whose decisions a controller waits for."""
        alone = self.controllers[place].asked_first
        return [faster for faster in range(place) if self.controllers[faster].asked_first or not alone]

    def _asked(self, place: int, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        """Returns the decisions of one controller. One that raises is given up: it decides nothing any more."""
        controller = self.controllers[place]
        if controller.name in self.given_up:
            return []
        try:
            return controller.decide(view, now_ns)
        except Exception as error:
            self.given_up[controller.name] = error
            return []

    def _recent(self, place: int, now_ns: int) -> set[Address]:
        """Returns the actors about which a faster controller has decided within its effect window."""
        return {
            address
            for faster in self._faster(place)
            for address, at_ns in self._decided_ns[faster].items()
            if now_ns - at_ns < self.controllers[faster].effect_ns
        }

    def _overdue(self, place: int, now_ns: int) -> set[Address]:
        """Returns the actors that a controller has left to faster ones for too long."""
        held = self._held_since_ns[place].items()
        return {address for address, since_ns in held if now_ns - since_ns >= self._hold_ns}

    def _forget(self, view: ElasticView) -> None:
        """Drops what is known of actors that are gone."""
        for decided_ns in (*self._decided_ns, *self._held_since_ns):
            for address in [address for address in decided_ns if address not in view.by_address]:
                del decided_ns[address]


def _allotments(records: list[DecisionRecord]) -> dict[Address, tuple[str, ...]]:
    decisions = [record.decision for record in records]
    return {each.address: each.workers for each in decisions if isinstance(each, SetWorkers)}


def _about(view: ElasticView, record: DecisionRecord) -> list[Address]:
    return [
        actor.address
        for actor in view.actors
        if (actor.address.job, actor.address.function) == (record.job, record.function)
        and record.partition in (None, actor.address.partition)
    ]
