"""The resource-centric controller: when it deals keys anew, and over how many partitions."""

from __future__ import annotations

import pytest

from stretto.bench.elastic.repartitioning import hottest, next_parallelism


@pytest.mark.parametrize(
    ("busy", "wanted"),
    [
        ([], None),
        ([0.5], None),
        ([0.95], 4),  # One partition, and it is saturated.
        ([0.95, 0.9, 0.95, 0.9], None),  # All are busy: other keys would not help.
        ([0.95, 0.2, 0.3, 0.1], 5),
        ([0.95, *[0.1] * 7], 4),  # Two per worker have been tried.
    ],
)
def test_it_repartitions_what_is_saturated_and_uneven(busy: list[float], wanted: int | None) -> None:
    assert next_parallelism(busy, workers=4) == wanted


def test_the_hottest_function_has_the_busiest_partition() -> None:
    assert hottest({"a": [0.5, 0.5], "b": [0.1, 0.9], "c": []}) == ("b", [0.1, 0.9])
    assert hottest({}) == ("", ())
