"""Live lines of decisions: one when something is decided, one when it is known what that brought."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from stretto.cli import running
from stretto.cli.deciding import DecisionNews, Moment, news_line, print_news_json
from stretto.coordinator.records import JobStatus
from stretto.elasticity import DecisionRecord, MoveShards, Outcome, SetWorkers, ShardMove, Trigger

MOVE = DecisionRecord(
    1,
    "shards",
    "q8",
    "Jumps",
    3,
    Trigger.IMBALANCE,
    "the most loaded worker has too many shards",
    {"imbalance": 2.5, "waiting": 40.0},
    decision=MoveShards("q8", "Jumps", 3, (ShardMove(7, "w1", "w2"),)),
    number=4,
)
DONE = MOVE.finished(Outcome.DONE, spent={"wait_ms": 1.5})
MEASURED = DONE.measured({"imbalance": 1.125, "waiting": 0.0})


def test_a_decision_is_told_when_it_is_made_and_when_its_effect_is_known() -> None:
    records: list[DecisionRecord] = []
    news = DecisionNews(lambda: records)
    told = []
    for now in ([], [MOVE], [MOVE], [DONE], [MEASURED], [MEASURED], [replace(MEASURED, reverted_ns=9)]):
        records[:] = now
        told.append([moment for moment, _ in news.news()])
    assert told == [[], [Moment.DECIDED], [], [], [Moment.EFFECT], [], [Moment.REVERTED]]


def test_an_effect_that_is_measured_before_the_moves_are_done_waits_for_them() -> None:
    news = DecisionNews(lambda: [MOVE.measured({"imbalance": 1.125})])
    assert [moment for moment, _ in news.news()] == [Moment.DECIDED]


def test_one_that_is_refused_at_once_is_told_with_its_reason() -> None:
    refused = MOVE.finished(Outcome.REFUSED, "the job does not run")
    lines = [news_line(moment, record) for moment, record in DecisionNews(lambda: [refused]).news()]
    assert lines[1] == "#4 effect   [shards] q8/Jumps/3: refused: the job does not run"


def test_the_lines_say_who_what_why_and_what_it_brought() -> None:
    assert news_line(Moment.DECIDED, MOVE) == (
        "#4 decided  [shards] q8/Jumps/3: move 1 shards: 7 w1 -> w2, "
        "because the most loaded worker has too many shards (imbalance 2.5, waiting 40)"
    )
    assert news_line(Moment.EFFECT, MEASURED) == (
        "#4 effect   [shards] q8/Jumps/3: done, imbalance 2.5 -> 1.125, waiting 40 -> 0"
    )
    back = replace(MOVE, number=5, reverts=4, decision=SetWorkers("q8", "Jumps", 3, ("w1",)), seen={})
    assert "use 1 workers: w1 (takes #4 back), because" in news_line(Moment.DECIDED, back)


def test_as_json_each_is_one_line() -> None:
    out = io.StringIO()
    print_news_json(out, Moment.EFFECT, MEASURED)
    found = json.loads(out.getvalue())
    assert (found["event"], found["decision"]["number"]) == ("effect", 4)
    assert found["decision"]["effect"] == {"imbalance": 1.125, "waiting": 0.0}


@pytest.mark.parametrize("is_json", [False, True])
def test_a_run_prints_them_while_the_job_runs(monkeypatch: pytest.MonkeyPatch, is_json: bool) -> None:
    stages = iter([[MOVE], [MOVE], [MEASURED]])
    statuses = iter([JobStatus.RUNNING, JobStatus.RUNNING, JobStatus.FINISHED])

    class Running:
        name = "q8"

        @property
        def status(self) -> JobStatus:
            return next(statuses, JobStatus.FINISHED)

        def decisions(self) -> list[DecisionRecord]:
            return next(stages, [MEASURED])

    out, told = io.StringIO(), []
    monkeypatch.setattr(running, "errors", Console(file=out, width=200))
    monkeypatch.setattr(running, "POLL_S", 0.0)
    monkeypatch.setattr(running, "Watch", lambda name, job: SimpleNamespace())
    tell: Any = (lambda moment, record: told.append((moment, record))) if is_json else None
    running._watch(Running(), None, tell)  # type: ignore[arg-type]
    lines = out.getvalue().splitlines()
    if is_json:
        assert told == [(Moment.DECIDED, MOVE), (Moment.EFFECT, MEASURED)]
        assert not lines
    else:
        assert lines == [news_line(Moment.DECIDED, MOVE), news_line(Moment.EFFECT, MEASURED)]
