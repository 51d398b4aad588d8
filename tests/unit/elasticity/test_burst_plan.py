"""Which cores a burst lacks: where the work of a function would be, while most of its rows run elsewhere."""

from __future__ import annotations

import pytest

from stretto.elasticity.burst_memory import Remembered
from stretto.elasticity.burst_plan import missing_cores, plan_burst
from stretto.elasticity.burst_view import FunctionLoad, JobLoad, SourceRead
from stretto.elasticity.view import WorkerView

SECOND_NS = 1_000_000_000
WORKERS = ("w0", "w1")


def load(home: dict[str, float], rows: dict[str, float], away_per_s: float) -> JobLoad:
    """A job whose rows cost a core 10 ms each, and of which 100 are read in a second."""
    work = FunctionLoad(
        "work", home, 0.0, sum(rows.values()), away_per_s, True, False, rows_total=100, rows_by_home=rows
    )
    sources = {("read", 0): SourceRead(100, SECOND_NS, 0.0, True, 100.0)}
    others = dict.fromkeys(WORKERS, 0.0)
    return JobLoad("job", "job~1", {"work": work}, sources, 100.0, 1.0, others, (), {})


@pytest.mark.parametrize("rest", [{"w0": 0.1, "w1": 0.0}, {"w0": 0.03, "w1": 0.07}])
def test_what_happens_to_run_at_home_does_not_say_where_all_would_run(rest: dict[str, float]) -> None:
    even = {"w0": 50.0, "w1": 50.0}
    known = Remembered()
    known.look(load({"w0": 0.5, "w1": 0.5}, even, 0.0), SECOND_NS)
    workers = {name: WorkerView(name, "node") for name in WORKERS}
    # All rows at home would keep each worker half busy: none is missing, whoever has done the few that have stayed.
    assert missing_cores(load(rest, even, 90.0), known, 100.0, 0.8, workers) == 0.0
    # Where rows come for one of them only, it alone has the work.
    uneven = {"w0": 100.0, "w1": 0.0}
    assert missing_cores(load(rest, uneven, 90.0), known, 100.0, 0.8, workers) == pytest.approx(0.2)


@pytest.mark.parametrize(("away_per_s", "kept_at_home"), [(4.0, 0.0), (80.0, 0.9)])
def test_what_few_rows_seem_to_cost_at_home_keeps_no_burst_there(away_per_s: float, kept_at_home: float) -> None:
    even = {"w0": 50.0, "w1": 50.0}
    known = Remembered()
    known.look(load({"w0": 0.5, "w1": 0.5}, even, 0.0), SECOND_NS)
    # With 4 rows elsewhere the work at home is 4 percent more than usual, by chance. With 80, what is left is handling.
    home = 0.5 if away_per_s < 10 else 0.1 + 0.5 * 0.8 * 0.9
    seen = load({"w0": home, "w1": home}, even, away_per_s)
    for look in range(2, 40):
        known.look(seen, look * SECOND_NS // 4)
    known.arriving = 500.0
    workers = {name: WorkerView(name, "node") for name in WORKERS}
    plan = plan_burst(seen, known, 0.7, workers, ["t0", "t1", "t2", "t3", "t4", "t5"])
    assert known.handling_of("work") == pytest.approx(kept_at_home / 100, abs=0.0005)
    assert bool(plan.redirections) == (not kept_at_home)  # Nothing is freed if handling costs nearly as much.
