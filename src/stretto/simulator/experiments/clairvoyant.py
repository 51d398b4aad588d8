"""An upper bound for every scheduler: how many outputs could be in time if all arrivals and costs were known.

All workers are pooled into one that is as fast as all together, the work of an output may begin with the first message
of its window, and nothing has overhead: outputs that a cluster finishes in time, this one does too. An output is a task
with a release time, an amount of work and a deadline. Windows end in the order in which they begin, so the maximum
number of tasks in time is found as by Moore and Hodgson: take the tasks by deadline, and when one would be late, drop
the one without which the rest is done soonest (Kise, Ibaraki and Mine, 1978); within one release time, the longest.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Task:
    """An output: its release time, its deadline, and its work in time of one worker.

    `alone_ns` is when it would be done with one worker for each of its messages."""

    release_ns: int
    deadline_ns: int
    work_ns: int
    alone_ns: int = 0


@dataclass
class _Release:
    """The scheduled tasks of one release time, as a heap of their work, the longest first."""

    at_ns: int
    work_ns: int
    longest: list[int]


def in_time(tasks: Sequence[Task], workers: int) -> int:
    """Returns the maximum number of tasks that the pooled workers can finish in time."""
    releases: list[_Release] = []
    kept, latest_ns = 0, 0
    for task in sorted(tasks):
        if task.alone_ns > task.deadline_ns:
            continue
        # A later release has a later deadline; where it does not, extending the deadline keeps the bound valid.
        latest_ns = max(latest_ns, task.deadline_ns)
        if not releases or releases[-1].at_ns != task.release_ns:
            releases.append(_Release(task.release_ns, 0, []))
        releases[-1].work_ns += task.work_ns
        heapq.heappush(releases[-1].longest, -task.work_ns)
        kept += 1
        if _done_ns(releases, workers) > latest_ns:
            _drop_one(releases, workers)
            kept -= 1
    return kept


def _done_ns(releases: list[_Release], workers: int, without: _Release | None = None) -> float:
    """Returns when all scheduled tasks are done, optionally without the longest task of one release time."""
    done_ns = 0.0
    for release in releases:
        work_ns = release.work_ns + (release.longest[0] if release is without else 0)
        done_ns = max(done_ns, release.at_ns) + work_ns / workers
    return done_ns


def _drop_one(releases: list[_Release], workers: int) -> None:
    """Drop the task without which the rest is done soonest: a longest one of its release; of equals, the longest."""
    candidates = [release for release in releases if release.longest]
    chosen = min(candidates, key=lambda release: (_done_ns(releases, workers, release), release.longest[0]))
    chosen.work_ns += heapq.heappop(chosen.longest)
