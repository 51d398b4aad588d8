"""Which of Spark's slots are held by workers. Spark's own tasks need a free one, and would wait for it without a word.

Each cluster takes as many slots as it has workers, present and parked, from its start to its end, and more or fewer
when workers are added or leave. A worker that is lost keeps its slot here, because its replacement needs one.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from stretto.errors import ClusterError
from stretto.runtime.hosting import slots_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_held: dict[str, tuple[str, int]] = {}
"""The Spark application of each cluster, and how many of its slots the cluster holds."""
_lock = Lock()


def hold_slots(spark: SparkSession, cluster: str, workers: int) -> None:
    """Notes that a cluster's workers hold so many slots."""
    with _lock:
        _held[cluster] = _application(spark), workers


def take_slots(spark: SparkSession, cluster: str, more: int) -> bool:
    """Notes that a cluster holds so many slots more, or fewer; returns False, and notes nothing, if there are too
    few."""
    slots, application = slots_of(spark), _application(spark)
    with _lock:
        held = sum(workers for holder, workers in _held.values() if holder == application)
        if more > 0 and slots is not None and held + more > slots:
            return False
        if cluster in _held:
            _held[cluster] = application, _held[cluster][1] + more
        return True


def release_slots(cluster: str) -> None:
    """Notes that a cluster holds no slots any more."""
    with _lock:
        _held.pop(cluster, None)


def free_slots(spark: SparkSession) -> int | None:
    """Returns how many slots no worker holds; None if Spark can grow on demand."""
    slots = slots_of(spark)
    return None if slots is None else max(0, slots - _held_slots(spark))


def require_free_slot(spark: SparkSession, what: str) -> None:
    """Raises a ClusterError if workers hold all slots, so that a Spark query for `what` would wait for ever."""
    if free_slots(spark) == 0:
        slots, held = slots_of(spark), _held_slots(spark)
        raise ClusterError(
            f"{what} needs a free Spark slot, and there is none",
            f"the {held} workers hold all {slots} slots",
            f"Start Spark with more slots, such as local[{held + 1}], use fewer workers, or close the cluster first.",
        )


def require_free_slots(spark: SparkSession, workers: int) -> None:
    """Raises a ClusterError if other clusters leave too few slots for so many workers, which would never start."""
    free = free_slots(spark)
    if free is not None and workers > free:
        slots, held = slots_of(spark), _held_slots(spark)
        raise ClusterError(
            f"{workers} workers were asked for, and {free} of Spark's {slots} slots are free",
            f"the workers of other clusters hold {held}",
            f"Close another cluster first, or start Spark with more slots, such as local[{held + workers}].",
        )


def require_more_slots(spark: SparkSession, workers: int) -> None:
    """Raises a ClusterError if Spark has too few free slots for so many more workers, which would never start."""
    free = free_slots(spark)
    if free is not None and workers > free:
        slots, held = slots_of(spark), _held_slots(spark)
        raise ClusterError(
            f"{workers} more worker{'s were' if workers != 1 else ' was'} asked for, and {free} of Spark's {slots} "
            f"slots {'is' if free == 1 else 'are'} free",
            f"{held} are held by workers",
            f"Start Spark with more slots, such as local[{held + workers + 1}], or with dynamic allocation.",
        )


def _held_slots(spark: SparkSession) -> int:
    application = _application(spark)
    with _lock:
        return sum(workers for holder, workers in _held.values() if holder == application)


def _application(spark: SparkSession) -> str:
    return str(spark.sparkContext.applicationId)
