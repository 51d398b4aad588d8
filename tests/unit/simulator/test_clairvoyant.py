"""The clairvoyant bound against brute force: over all subsets of tasks, and over all schedules of real workers."""

from __future__ import annotations

import itertools
import random

import pytest

from stretto.simulator.experiments.clairvoyant import Task, in_time


def drawn(chance: random.Random, count: int) -> list[Task]:
    """Tasks whose deadlines come in the order of their releases, as windows' do."""
    tasks, release, deadline = [], 0, 0
    for _ in range(count):
        release += chance.choice((0, 0, 2, 5))
        deadline = max(deadline, release + chance.randint(1, 9))
        tasks.append(Task(release, deadline, chance.randint(1, 8)))
    return tasks


def most_of_subsets(tasks: list[Task], workers: int) -> int:
    """The largest subset that pooled workers do in time, in the order of deadlines, which is the best there is."""

    def fits(subset: tuple[Task, ...]) -> bool:
        now = 0.0
        for task in sorted(subset, key=lambda task: (task.deadline_ns, task.release_ns)):
            now = max(now, task.release_ns) + task.work_ns / workers
            if now > task.deadline_ns:
                return False
        return True

    sizes = range(len(tasks), 0, -1)
    return next((size for size in sizes if any(map(fits, itertools.combinations(tasks, size)))), 0)


def most_of_schedules(tasks: list[Task], workers: int) -> int:
    """The most in time over all orders and all assignments to workers that do one task at a time."""
    best = 0
    for order in itertools.permutations(tasks):
        for places in itertools.product(range(workers), repeat=len(tasks)):
            free, done = [0] * workers, 0
            for task, place in zip(order, places, strict=True):
                free[place] = max(free[place], task.release_ns) + task.work_ns
                done += free[place] <= task.deadline_ns
            best = max(best, done)
    return best


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_it_is_the_best_of_all_subsets(workers: int) -> None:
    chance = random.Random(workers)
    for _ in range(300):
        tasks = drawn(chance, chance.randint(1, 8))
        assert in_time(tasks, workers) == most_of_subsets(tasks, workers), tasks


def test_no_schedule_of_real_workers_does_more() -> None:
    chance = random.Random(5)
    reached = 0
    for _ in range(60):
        tasks = drawn(chance, 4)
        bound, best = in_time(tasks, 2), most_of_schedules(tasks, 2)
        assert bound >= best, tasks
        reached += bound == best
    assert reached > 20


def test_of_one_release_the_longest_is_given_up() -> None:
    assert in_time([Task(0, 10, 8), Task(0, 10, 4), Task(0, 10, 5)], 1) == 2


def test_what_cannot_be_done_even_alone_is_no_ones_loss() -> None:
    assert in_time([Task(0, 10, 1, alone_ns=11), Task(0, 10, 10)], 1) == 1


def test_a_deadline_out_of_order_loosens_the_bound() -> None:
    assert in_time([Task(0, 20, 5), Task(5, 10, 6)], 1) == 2
