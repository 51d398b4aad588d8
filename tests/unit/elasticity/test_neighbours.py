"""Jobs that have promised a latency and jobs with long runs are parted: who moves, from where, and what comes next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stretto.api.slo import SLO
from stretto.elasticity.decisions import MoveHomes
from stretto.elasticity.disturbance import disturbance_of, disturbing
from stretto.elasticity.effects import measured_effect
from stretto.elasticity.neighbours import LEAVES, MAKES_ROOM, NO_WAY, Neighbours
from stretto.elasticity.records import DecisionRecord
from stretto.elasticity.view import RUNNING, ElasticView
from stretto.observation.model import JobObserved, LongRunsObserved, Observation, WorkerObserved
from stretto.protocol.membership import Member

MS = 1_000_000
SECOND_NS = 1_000_000_000


def view(
    workers: list[str], jobs: dict[str, tuple[float | None, list[str]]], runs: list[tuple[str, str, int]]
) -> ElasticView:
    """A cluster with jobs by their objectives in ms and their homes, and long runs: the job, the worker, the ms."""
    members = {name: WorkerObserved(Member(name, "", name, "host", 1), False, 0.5, 0, 0) for name in workers}
    observed = {
        name: JobObserved(
            name,
            RUNNING,
            name,
            tuple(homes),
            {"f": tuple(homes)},
            {},
            None if latency_ms is None else SLO(latency_ms=latency_ms),
        )
        for name, (latency_ms, homes) in jobs.items()
    }
    found = tuple(LongRunsObserved(job, "f", worker, run_ms * MS) for job, worker, run_ms in runs)
    return ElasticView.of(Observation(0, observed, members, {}, found))


def decided(controller: Neighbours, seen: ElasticView, at_s: float = 0) -> DecisionRecord:
    (record,) = controller.decide(seen, int(at_s * SECOND_NS))
    return record


BOTH = {"urgent": (100.0, ["w0", "w1"]), "bulk": (None, ["w0", "w1"])}


def test_the_urgent_job_leaves_workers_with_long_runs() -> None:
    seen = view(["w0", "w1", "w2"], BOTH, [("bulk", "w0", 900)])
    record = decided(Neighbours(), seen)
    assert record.decision == MoveHomes("urgent", ("w0",))
    assert (record.because, record.where) == (LEAVES, "urgent")
    assert record.seen == {"workers": 1.0, "run_ms": 900.0, "objective_ms": 100.0}
    assert record.candidates[0].lost_because is not None
    assert [each.what for each in record.candidates if each.lost_because is None] == ["urgent: leave w0"]


def test_where_all_workers_have_long_runs_the_other_job_makes_room() -> None:
    seen = view(["w0", "w1"], BOTH, [("bulk", "w0", 900), ("bulk", "w1", 900)])
    record = decided(Neighbours(), seen)
    assert (record.decision, record.because) == (MoveHomes("bulk", ("w0",)), MAKES_ROOM)


def test_the_worker_with_the_fewest_such_jobs_is_cleared() -> None:
    jobs = {**BOTH, "other": (None, ["w0"])}
    seen = view(["w0", "w1"], jobs, [("bulk", "w0", 900), ("bulk", "w1", 900), ("other", "w0", 500)])
    assert decided(Neighbours(), seen).decision == MoveHomes("bulk", ("w1",))


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [("bulk", "w0", 50)],  # Shorter than the objective.
        [("urgent", "w0", 900)],  # Its own.
        [("bulk", "w2", 900)],  # Elsewhere.
    ],
    ids=["none", "short", "own", "elsewhere"],
)
def test_who_is_not_disturbed_stays(runs: list[tuple[str, str, int]]) -> None:
    assert Neighbours().decide(view(["w0", "w1", "w2"], BOTH, runs), 0) == []


def test_a_job_without_an_objective_is_not_disturbed() -> None:
    jobs = {"lax": (None, ["w0"]), "bulk": (None, ["w0"])}
    assert Neighbours().decide(view(["w0", "w1"], jobs, [("bulk", "w0", 900)]), 0) == []


def test_nobody_can_move_on_a_single_worker() -> None:
    jobs = {"urgent": (100.0, ["w0"]), "bulk": (None, ["w0"])}
    record = decided(Neighbours(), view(["w0"], jobs, [("bulk", "w0", 900)]))
    assert (record.decision, record.because) == (None, NO_WAY)


def test_a_job_that_has_promised_less_time_does_not_make_room() -> None:
    jobs = {"urgent": (100.0, ["w0", "w1"]), "strict": (50.0, ["w0", "w1"])}
    seen = view(["w0", "w1"], jobs, [("strict", "w0", 900), ("strict", "w1", 900)])
    assert decided(Neighbours(), seen).decision is None


def test_what_did_not_help_is_not_repeated_soon_but_the_next_best_is_tried() -> None:
    controller = Neighbours()
    seen = view(["w0", "w1", "w2"], BOTH, [("bulk", "w0", 900)])
    assert decided(controller, seen).decision == MoveHomes("urgent", ("w0",))
    assert controller.decide(seen, 5 * SECOND_NS) == []  # Its effect is not known yet.
    assert decided(controller, seen, 11).decision == MoveHomes("bulk", ("w0",))
    assert decided(controller, seen, 22).because == NO_WAY
    assert decided(controller, seen, 61).decision == MoveHomes("urgent", ("w0",))


def test_the_most_urgent_job_comes_first() -> None:
    jobs = {"a": (500.0, ["w0"]), "z": (100.0, ["w0"]), "bulk": (None, ["w0"])}
    assert decided(Neighbours(), view(["w0", "w1"], jobs, [("bulk", "w0", 900)])).job == "z"


def test_the_effect_is_how_much_is_left_of_it() -> None:
    before = view(["w0", "w1", "w2"], BOTH, [("bulk", "w0", 900), ("bulk", "w1", 700)])
    record = decided(Neighbours(), before)
    assert {name: record.seen[name] for name in ("workers", "run_ms")} == {"workers": 2.0, "run_ms": 900.0}
    after = view(["w0", "w1", "w2"], {**BOTH, "urgent": (100.0, ["w2"])}, [("bulk", "w0", 900), ("bulk", "w1", 700)])
    assert measured_effect(after, record) == {"workers": 0.0, "run_ms": 0.0}
    assert measured_effect(replace(after, jobs={}), record) is None


def test_disturbance_counts_for_who_disturbs_too() -> None:
    seen = view(["w0", "w1"], BOTH, [("bulk", "w0", 900)])
    assert disturbance_of(seen, "bulk") == disturbance_of(seen, "urgent") == {"workers": 1.0, "run_ms": 900.0}
    assert disturbing(seen, "bulk") == []
