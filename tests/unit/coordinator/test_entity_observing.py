"""What is observed of entities: the figures of each place go on, whichever worker has it."""

from __future__ import annotations

from tests.unit.coordinator.test_entities import Scene

from stretto.coordinator.events import EntitiesStopRequested, Observed, WorkerEnded
from stretto.coordinator.observing import OBSERVE_EVERY_NS
from stretto.observation.transactions import EntitiesObserved
from stretto.protocol.entities import EntitiesDropped, EntitiesFailed, EntitiesHosted, EntityCounts
from stretto.protocol.jobs import Failure
from stretto.protocol.machines import Ticked
from stretto.protocol.transactions import TransactionTotals

SECOND_NS = 1_000_000_000


def running() -> Scene:
    scene = Scene("w0~1", "w1~1")
    scene.run("w0~1", "w1~1")
    return scene


def counts(place: int, committed: int, measured_ns: int = 0, **more: object) -> EntityCounts:
    return EntityCounts("bank", place, TransactionTotals(committed, {"Poor": committed // 10}, **more), measured_ns)  # type: ignore[arg-type]


def observed(scene: Scene) -> EntitiesObserved:
    return scene.coordinator.observed().entities["bank"]


def test_the_entities_of_a_job_are_announced_with_what_their_places_have_counted() -> None:
    scene = running()
    scene.announced(Observed)
    scene.hear("w0~1", counts(1, 100))
    scene.hear("w0~1", counts(1, 600, SECOND_NS, entities=7))
    scene.hear("w1~1", counts(2, 50, entities=2))
    scene.pass_time(OBSERVE_EVERY_NS)
    scene.tell(Ticked())
    (announced,) = scene.announced(Observed)
    found = announced.observation.entities["bank"]
    assert (found.status, found.attempt, found.members) == ("running", 1_001, ("w0~1", "w1~1"))
    assert (found.totals.committed, found.totals.aborted, found.totals.entities) == (650, {"Poor": 65}, 9)
    first, second = found.places
    assert first.per_second(first.interval.committed) == 500
    assert first.interval.aborted == {"Poor": 50}
    assert second.per_second(second.interval.committed) == 0, "a first report has no rate"
    assert announced.observation.jobs == {}, "controllers of streams do not see it"


def test_a_place_that_has_not_reported_for_a_second_does_nothing() -> None:
    scene = running()
    scene.hear("w0~1", counts(1, 100))
    scene.hear("w0~1", counts(1, 600, SECOND_NS))
    scene.pass_time(2 * SECOND_NS)
    scene.tell(Ticked())
    (place, _) = observed(scene).places
    assert (place.totals.committed, place.per_second(place.interval.committed)) == (600, 0)


def test_what_a_lost_worker_has_counted_stays_counted() -> None:
    scene = running()
    scene.hear("w0~1", counts(1, 100, entities=5))
    scene.tell(WorkerEnded("w0~1", "it was killed"))
    scene.join("w0~2")
    scene.hear("w0~1", counts(1, 1_000))  # Of a worker that is not there any more.
    scene.hear("w0~2", EntitiesHosted("bank", 1))
    assert observed(scene).places[0].totals.committed == 100
    scene.hear("w0~2", counts(1, 30, entities=5))
    place = observed(scene).places[0]
    assert (place.member, place.totals.committed, place.totals.entities) == ("w0~2", 130, 5)
    assert place.totals.aborted == {"Poor": 13}


def test_jobs_that_have_ended_are_observed_as_they_were() -> None:
    scene = running()
    scene.hear("w0~1", counts(1, 100))
    scene.tell(EntitiesStopRequested("bank"))
    assert observed(scene).status == "stopping"
    for member in ("w0~1", "w1~1"):
        scene.hear(member, EntitiesDropped("bank"))
    found = observed(scene)
    assert (found.status, found.totals.committed) == ("stopped", 100)


def test_a_failure_is_told() -> None:
    scene = running()
    scene.hear("w0~1", EntitiesFailed("bank", Failure("FunctionError", "it is broken", "in two")))
    found = observed(scene)
    assert (found.status, found.failure) == ("failed", "FunctionError: it is broken: in two")
