"""Which actor runs on which worker."""

from __future__ import annotations

from collections.abc import Iterable

from stretto.actors.shape import Shapes

Placement = dict[str, list[str]]
"""The member that hosts each partition, by function."""


def placed(shapes: Shapes, workers: list[str], driver: str | None, others: Iterable[Placement]) -> Placement:
    """Returns the placement of a job, given the placements of the other jobs.

    Partition i of each function of a job goes to the same worker, so that forward channels stay local; jobs, and
    functions of one partition, start at the least loaded worker. Without workers, functions are not placed."""
    load = dict.fromkeys(workers, 0)
    for placement in others:
        _add(load, placement)
    first = min(range(len(workers)), key=lambda i: (load[workers[i]], i), default=0)
    found: Placement = {}
    for name, shape in shapes.items():
        if shape.on_driver:
            found[name] = [driver] * shape.parallelism if driver is not None else []
        elif not workers:
            found[name] = []
        elif shape.parallelism == 1:
            found[name] = [min(workers, key=lambda worker: (load[worker], worker))]
        else:
            found[name] = [workers[(first + p) % len(workers)] for p in range(shape.parallelism)]
        _add(load, {name: found[name]})
    return found


def replaced(
    before: Placement, shapes: Shapes, workers: list[str], driver: str | None, others: Iterable[Placement]
) -> Placement:
    """Returns the placement of the next attempt of a running job: an actor stays where it is if it may, so that little
    has to move. New ones go to the least loaded workers, those with the same partition number to the same one."""
    load = dict.fromkeys(workers, 0)
    for placement in others:
        _add(load, placement)
    for name, homes in before.items():
        _add(load, {name: homes[: shapes[name].parallelism]})
    chosen: dict[int, str] = {}
    found: Placement = {}
    for name, shape in shapes.items():
        homes = before.get(name, [])
        if shape.on_driver:
            found[name] = [driver] * shape.parallelism if driver is not None else []
            continue
        found[name] = []
        for partition in range(shape.parallelism if workers else 0):
            if partition < len(homes) and homes[partition] in load:
                found[name].append(homes[partition])
                continue
            if partition not in chosen:
                chosen[partition] = min(workers, key=lambda worker: (load[worker], worker))
            load[chosen[partition]] += 1
            found[name].append(chosen[partition])
    return found


def _add(load: dict[str, int], placement: Placement) -> None:
    for members in placement.values():
        for member in members:
            if member in load:
                load[member] += 1
