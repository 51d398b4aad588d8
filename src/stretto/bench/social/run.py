"""Serves the network's requests on a cluster, and has what comes out checked by the model."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from stretto import Cluster, Job, SharedState, sources
from stretto.bench.social.functions import app
from stretto.bench.social.model import Model
from stretto.bench.social.network import Network, looks, network, requests


@dataclass(frozen=True)
class Setting:
    """How large the network is, and how many requests there are."""

    users: int = 200
    follows: int = 10
    requests: int = 2_000
    seed: int = 1


@dataclass(frozen=True)
class Served:
    """One run: whether all answers were right, and what it took."""

    match: bool
    wrong: list[str]
    requests: int
    per_s: float
    latency_ms: dict[str, float | None]
    reads: int
    fetches: int


def serve(
    cluster: Cluster, name: str, setting: Setting, server: str | None, fresh: str, cached: int = 10_000
) -> Served:
    """Serves all requests. With a server, all timelines are then read by another app; objects in the workers' memory
    end with theirs."""
    made = network(setting.users, setting.follows, setting.seed)
    asked = requests(setting.users, setting.requests, setting.seed)
    model = Model(made, asked.to_pylist())
    shared = SharedState(server, space=f"social-{name}", fresh=fresh, cached=cached)
    began_s = time.perf_counter()
    job = cluster.submit(app(f"social-{name}", sources.memory(asked), shared, made))
    job.wait()
    took_s = time.perf_counter() - began_s
    wrong = model.wrong_answers(_answers(job))
    if server is not None:
        wrong += model.wrong_looks(_looked(cluster, f"look-{name}", shared, made))
    counts = _counts(job)
    quantiles = {name: job.metrics().latency_ms[name] for name in ("p50", "p99")}
    return Served(
        not wrong,
        wrong[:5],
        setting.requests,
        round(setting.requests / took_s, 1),
        quantiles,
        counts.get("shared_reads", 0),
        counts.get("shared_fetches", 0),
    )


def _looked(cluster: Cluster, name: str, shared: SharedState, made: Network) -> list[dict[str, Any]]:
    """Returns all timelines."""
    job = cluster.submit(app(name, sources.memory(looks(made.users)), shared, made))
    job.wait()
    return _answers(job)


def _answers(job: Job) -> list[dict[str, Any]]:
    steps = ("compose", "read_user", "read_home")
    return [row for step in steps for row in job.results(f"{step}_answers").to_pylist()]


def _counts(job: Job) -> dict[str, int]:
    found: dict[str, int] = {}
    for function in job.metrics().functions.values():
        for name, count in function.counts.items():
            found[name] = found.get(name, 0) + count
    return found


def as_json(served: Served) -> dict[str, Any]:
    """Returns the object that `--json` prints."""
    return asdict(served)
