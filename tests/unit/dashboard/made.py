"""A history of a made-up cluster, and its page as an application that is asked by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from tests.unit.serving.asgi import Answer, asked

from stretto.api.slo import SLO
from stretto.bench.page.feed import MadeUp, MadeUpCluster
from stretto.dashboard.history import Bounds, History
from stretto.dashboard.kept import Kept
from stretto.dashboard.web import DashboardWeb
from stretto.observation.model import Observation
from stretto.queries.answers import Answer as QuestionAnswer
from stretto.queries.askable import Askable, AskableState, AskableTable
from stretto.serving.guard import Guard, Token

TOKEN = "a-token-of-the-page-for-tests"
HOST = "127.0.0.1:4141"
OURS = {"host": HOST, "origin": f"http://{HOST}"}
ANSWER = QuestionAnswer(
    pa.table({"auction": pa.array([7, 2**60]), "price": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2))}),
    1_767_225_600_000_000,
    rows_read=3,
    workers=2,
)
HOSTILE = "<script>window.attacked = true</script><img src=x onerror='window.attacked = true'>\"'&</style>"


def history_of(
    seconds: int = 20, jobs: int = 3, decisions: int = 5, bounds: Bounds | None = None, banks: int = 0
) -> History:
    """Returns the history of some seconds; job-000 is congested."""
    cluster, history = MadeUpCluster(MadeUp(jobs, 4, banks=banks)), History(bounds=bounds)
    for second, observation in enumerate(cluster.observations(seconds)):
        history.observe(observation)
        if second < decisions:
            history.decide(cluster.decide())
    return history


def renamed(observation: Observation, before: str, after: str) -> Observation:
    """Returns an observation in which a job has another name."""
    jobs = {
        (after if name == before else name): replace(job, name=after) if name == before else job
        for name, job in observation.jobs.items()
    }
    return replace(observation, jobs=jobs)


class Driven:
    """A cluster that notes what it is asked to do."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.done: list[Any] = []
        self.answer = ANSWER
        self.fails = fails

    def _do(self, *what: Any) -> None:
        if self.fails is not None:
            raise self.fails
        self.done.append(what)

    def execution_of(self, job: str) -> Driven:
        self._do("job", job)
        return self

    def stop(self, drain: bool, savepoint: str | None) -> None:
        self._do("stop", drain, savepoint)

    def checkpoint(self, timeout_s: float) -> int:
        self._do("checkpoint")
        return 7

    def rescale(self, parallelism: Any, timeout_s: float) -> None:
        self._do("rescale", dict(parallelism))

    @property
    def objective(self) -> SLO:
        return SLO(500.0, share=3.0)

    def set_objective(self, slo: SLO, timeout_s: float) -> None:
        self._do("objective", slo)

    def scale_out(self, workers: int = 1, *, timeout: float) -> list[Any]:
        self._do("scale_out", workers)
        return []

    def scale_in(self, workers: int = 1, *, timeout: float) -> list[str]:
        self._do("scale_in", workers)
        return ["w1~1"]

    def drain(self, worker: str, *, timeout: float) -> None:
        self._do("drain", worker)

    def ask(self, text: str, *, timeout: float, at_least: datetime | None) -> QuestionAnswer:
        self._do("ask", text, timeout, at_least)
        return self.answer

    def askable(self) -> Askable:
        table = AskableTable("bids", "job-000", self.answer.table.schema, "at", 3_600_000_000)
        return Askable((table,), (AskableState("state.Jumps", "job-000", "Jumps", "counts"),))


async def at_once(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


class PageWeb:
    """The page as an application; with `open_to_all`, it listens to other machines."""

    def __init__(self, history: History | None = None, cluster: Any = None, open_to_all: bool = False) -> None:
        self.history = history or history_of(seconds=3, jobs=2, decisions=2)
        self.cluster = Driven() if cluster is None else cluster
        reading = Guard(Token(TOKEN) if open_to_all else None)
        kept = Kept(self.history, lambda: self.history.observation.time_ns)
        self.web = DashboardWeb(
            kept,
            "made up",
            reading,
            Guard(Token(TOKEN)),
            self.cluster,
            within=lambda seconds: nullcontext(),
            in_thread=at_once,
        )

    def ask(self, verb: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answer:
        return asked(self.web, verb, path, body, headers or {"host": HOST})

    def control(self, body: bytes, token: str | None = TOKEN, **headers: str) -> Answer:
        return self.post("/api/control", body, token, **{**OURS, **headers})

    def query(self, body: Any, token: str | None = TOKEN, **headers: str) -> Answer:
        return self.post("/api/query", body if isinstance(body, bytes) else json.dumps(body).encode(), token, **headers)

    def post(self, path: str, body: bytes, token: str | None, **headers: str) -> Answer:
        given = {"host": HOST, "content-type": "application/json", **headers}
        if token is not None:
            given["authorization"] = f"Bearer {token}"
        return self.ask("POST", path, body, given)
