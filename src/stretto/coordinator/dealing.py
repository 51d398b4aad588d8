"""How the keys of a running job's functions are dealt to their partitions at its next handover.

Usually each partition owns a range of shards. A decision may deal them otherwise, by what they cost. Functions that are
joined by forward edges have the same keys in the same partition, so they are dealt in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from stretto.actors.shape import Shapes
from stretto.actors.shards import ShardMap

EVEN: Mapping[str, ShardMap] = MappingProxyType({})
"""All functions have ranges of equal length."""


def undealt_because(shapes: Shapes, parallelism: Mapping[str, int], shards: Mapping[str, ShardMap]) -> str | None:
    """Returns why keys cannot be dealt like this; None if they can."""
    for function, dealt in sorted(shards.items()):
        if function not in parallelism:
            return f"nobody says how many partitions function '{function}' is to have"
        if shapes[function].shards is None:
            return f"the rows of function '{function}' are not partitioned by a key"
        if not ShardMap.is_possible(dealt.owners, parallelism[function]):
            return f"{parallelism[function]} partitions of function '{function}' cannot own shards like this"
    return None


def is_same(shapes: Shapes, parallelism: Mapping[str, int], shards: Mapping[str, ShardMap]) -> bool:
    """Whether functions have these partitions, and these shards, already."""
    if any(shapes[function].parallelism != count for function, count in parallelism.items()):
        return False
    current = {function: shapes[function].shards for function in shards}
    return all(known is not None and known.is_same(shards[function]) for function, known in current.items())


def dealt_by(shapes: Shapes, parallelism: Mapping[str, int], shards: Mapping[str, ShardMap]) -> dict[str, ShardMap]:
    """Returns how the keys of functions are dealt in the next attempt, where it is not evenly: as asked, and as they
    are where the number of partitions stays."""
    found = dict[str, ShardMap]()
    for function, dealt in sorted(shards.items()):
        found.update(dict.fromkeys(_joined_to(shapes, function), dealt))
    others = {name for name, count in parallelism.items() if shapes[name].parallelism != count}
    changed = {joined for name in others for joined in _joined_to(shapes, name)}
    for name, shape in shapes.items():
        if name in changed or shape.shards is None or shape.shards.is_same(ShardMap.even(shape.parallelism)):
            continue
        found.setdefault(name, shape.shards)
    return found


def _joined_to(shapes: Shapes, function: str) -> list[str]:
    """Returns a function and those that have the same keys in the same partition, by forward edges."""
    found, new = {function}, [function]
    while new:
        name = new.pop()
        near = {feed.sender for feed in shapes[name].feeds if feed.forward}
        near |= {other for other, shape in shapes.items() if any(f.forward and f.sender == name for f in shape.feeds)}
        more = sorted(each for each in near - found if shapes[each].shards is not None)
        found.update(more)
        new += more
    return sorted(found)
