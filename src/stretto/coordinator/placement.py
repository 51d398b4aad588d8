"""Which actor runs on which worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from stretto.actors.shape import Shapes

Placement = dict[str, list[str]]
"""The member that hosts each partition, by function."""
Busy = Mapping[str, float]
"""How much of its time each worker is busy."""
UNKNOWN: Busy = MappingProxyType({})
EXPECTED = 0.5
"""How busy a new partition is expected to keep its worker, until that is observed."""


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
    before: Placement,
    shapes: Shapes,
    workers: list[str],
    driver: str | None,
    others: Iterable[Placement],
    busy: Busy = UNKNOWN,
) -> Placement:
    """Returns the placement of the next attempt of a running job: an actor stays where it is if it may, so that little
    has to move. New ones go to the least busy workers, of those to the ones with the fewest actors; those with the same
    partition number to the same one."""
    expected = dict(busy)
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
                chosen[partition] = min(workers, key=lambda worker: (_tenths(expected, worker), load[worker], worker))
                if busy:
                    expected[chosen[partition]] = expected.get(chosen[partition], 0.0) + EXPECTED
            load[chosen[partition]] += 1
            found[name].append(chosen[partition])
    return found


def arriving(before: Placement, after: Placement) -> list[str]:
    """Returns the workers that get partitions which were not there, once for each partition number."""
    found = {
        (home, partition)
        for name, homes in after.items()
        for partition, home in enumerate(homes)
        if before.get(name, [])[partition : partition + 1] != [home]
    }
    return sorted(home for home, _ in found)


def idlest_first(workers: Sequence[str], busy: Busy) -> list[str]:
    """Returns workers in the order in which they should get something more to do."""
    return sorted(workers, key=lambda worker: _tenths(busy, worker))


def _tenths(busy: Busy, worker: str) -> int:
    """Returns how busy a worker is. Less than a tenth is no difference."""
    return round(10 * busy.get(worker, 0.0))


def _add(load: dict[str, int], placement: Placement) -> None:
    for members in placement.values():
        for member in members:
            if member in load:
                load[member] += 1
