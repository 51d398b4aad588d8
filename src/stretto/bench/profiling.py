"""Profiles workers: py-spy samples the workers of a running query from outside, so they are not slowed down.

The collapsed stacks can be kept and opened with any flame graph viewer.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from stretto.api.memory import NullSink
from stretto.bench.nexmark.queries import Workload, build
from stretto.errors import ClusterError, UserError
from stretto.runtime.cluster import Cluster
from stretto.runtime.scratch import scratch_directory

SAMPLES_PER_S = 200
TOP_FUNCTIONS = 25


@dataclass(frozen=True)
class FunctionShare:
    """The percentage of samples with a function on top of the stack, and with it anywhere on the stack."""

    function: str
    self_percent: float
    total_percent: float


@dataclass(frozen=True)
class Profile:
    """Shares of the workers' busy time, by room (innermost stretto frame) and by function."""

    query: str
    seconds: float
    samples: int
    events_per_s: float
    rooms_percent: dict[str, float]
    functions: list[FunctionShare]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def profile(cluster: Cluster, query: str, workload: Workload, seconds: float, stacks: Path | None) -> Profile:
    """Run an endless query, sample all workers for `seconds`, and stop it."""
    tool = _tool()
    endless = replace(workload.config, events=None)
    app = build(query, replace(workload, config=endless, sink=NullSink))
    job = cluster.submit(app, engine="actors")
    directory = scratch_directory("profile")
    try:
        before = job.metrics().elapsed_s, job.metrics().rows_in
        samplers = [
            subprocess.Popen(
                _command(tool, member.pid, seconds, directory / member.name),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            for member in cluster.workers
        ]
        for sampler in samplers:
            _, output = sampler.communicate()
            if sampler.returncode:
                raise ClusterError("a worker could not be profiled", output.decode(errors="replace").strip()[-300:])
        if job.error is not None:
            raise job.error
        metrics = job.metrics()
        rate = (metrics.rows_in - before[1]) / max(1e-9, metrics.elapsed_s - before[0])
        collected = "".join((directory / member.name).read_text() for member in cluster.workers)
    finally:
        job.stop()
        shutil.rmtree(directory, ignore_errors=True)
    if stacks is not None:
        stacks.write_text(collected)
    return summed(query, seconds, rate, collected)


def summed(query: str, seconds: float, events_per_s: float, stacks: str) -> Profile:
    """Turn collapsed stacks ("outer;inner count" per line) into shares."""
    own: Counter[str] = Counter()
    anywhere: Counter[str] = Counter()
    rooms: Counter[str] = Counter()
    for line in stacks.splitlines():
        path, _, count = line.rpartition(" ")
        frames = [frame for frame in path.split(";") if "stretto-pulse" not in frame]
        if not frames or not count.isdigit() or "worker_loop.py" not in path:
            continue  # Not the thread of the worker's loop.
        own[frames[-1]] += int(count)
        for frame in set(frames):
            anywhere[frame] += int(count)
        rooms[_room(frames)] += int(count)
    samples = sum(own.values())
    if not samples:
        raise UserError("the profile is empty", None, "Sample for longer with --seconds.")
    percent = 100 / samples
    functions = [
        FunctionShare(frame, count * percent, anywhere[frame] * percent)
        for frame, count in own.most_common(TOP_FUNCTIONS)
    ]
    return Profile(
        query, seconds, samples, events_per_s, {room: n * percent for room, n in rooms.most_common()}, functions
    )


def _room(frames: list[str]) -> str:
    """Returns the room of the innermost stretto frame."""
    for frame in reversed(frames):
        _, found, path = frame.partition("(stretto/")
        if found:
            return path.partition("/")[0].partition(".py")[0]
    return "others"


def _command(tool: str, pid: int, seconds: float, output: Path) -> list[str]:
    rate = str(SAMPLES_PER_S)
    return [tool, "record", "--pid", str(pid), "--duration", str(max(1, round(seconds))), "--rate", rate,
            "--function", "--format", "raw", "--output", str(output)]  # fmt: skip


def _tool() -> str:
    local = Path(sys.executable).with_name("py-spy")
    found = str(local) if local.exists() else shutil.which("py-spy")
    if found is None:
        raise UserError("py-spy is not installed", None, "Install it with: pip install py-spy")
    return found
