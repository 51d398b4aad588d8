"""Who holds what: each expected set of segments goes to the node that has to load the least for it (thesis 4.3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment


def matched(
    expected: Sequence[Collection[str]], present: Mapping[str, Collection[str]], bytes_of: Mapping[str, int]
) -> dict[str, int]:
    """Returns the number of the expected set that each node is to hold, by the minimum-cost matching of a bipartite
    graph: what it costs a node to have a set is what it has to load. There are as many sets as nodes."""
    nodes = sorted(present)
    cost = np.zeros((len(nodes), len(expected)), np.int64)
    for row, node in enumerate(nodes):
        for column, segments in enumerate(expected):
            cost[row, column] = sum(bytes_of[segment] for segment in segments if segment not in present[node])
    rows, columns = linear_sum_assignment(cost)
    return {nodes[row]: int(column) for row, column in zip(rows, columns, strict=True)}
