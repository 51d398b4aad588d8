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


def _add(load: dict[str, int], placement: Placement) -> None:
    for members in placement.values():
        for member in members:
            if member in load:
                load[member] += 1
