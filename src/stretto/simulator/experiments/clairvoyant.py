"""A bound for every scheduler: how many outputs could come in time if all arrivals and costs were known beforehand.

All workers are pooled into one that is as fast as all together, an output's work may begin with the first message of
its window, nothing has overheads: whatever a cluster does in time, this one can. On it an output is a task with a
release, an amount of work and a deadline. Windows end in the order in which they begin, so the greatest number of
tasks in time is found as by Moore and Hodgson: take the tasks by their deadlines, and when one would be late, give up
the one without which the rest is done soonest (Kise, Ibaraki and Mine, 1978); of one release, that is the longest.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Task:
    """An output: from when it can be worked on, until when it must be done, and what it needs of one worker.

    `alone_ns` is when it would be done if it had a worker for each of its messages."""

    release_ns: int
    deadline_ns: int
    work_ns: int
    alone_ns: int = 0


@dataclass
class _Release:
    """The tasks of one release that are in the schedule, as a heap of their works, the longest first."""

    at_ns: int
    work_ns: int
    longest: list[int]


def in_time(tasks: Sequence[Task], workers: int) -> int:
    """How many tasks the pooled workers could do in time, at most."""
    releases: list[_Release] = []
    kept, latest_ns = 0, 0
    for task in sorted(tasks):
        if task.alone_ns > task.deadline_ns:
            continue
        # Whoever is released later is due later; where that is not so, it gets the time, and a bound stays one.
        latest_ns = max(latest_ns, task.deadline_ns)
        if not releases or releases[-1].at_ns != task.release_ns:
            releases.append(_Release(task.release_ns, 0, []))
        releases[-1].work_ns += task.work_ns
        heapq.heappush(releases[-1].longest, -task.work_ns)
        kept += 1
        if _done_ns(releases, workers) > latest_ns:
            _give_up(releases, workers)
            kept -= 1
    return kept


def _done_ns(releases: list[_Release], workers: int, without: _Release | None = None) -> float:
    """When all that was taken is done, perhaps without the longest task of one release."""
    done_ns = 0.0
    for release in releases:
        work_ns = release.work_ns + (release.longest[0] if release is without else 0)
        done_ns = max(done_ns, release.at_ns) + work_ns / workers
    return done_ns


def _give_up(releases: list[_Release], workers: int) -> None:
    """Of all releases' longest tasks, the one without which the rest is done soonest; of equals, the longest."""
    candidates = [release for release in releases if release.longest]
    chosen = min(candidates, key=lambda release: (_done_ns(releases, workers, release), release.longest[0]))
    chosen.work_ns += heapq.heappop(chosen.longest)
