"""ETP, the effective throughput percentage: what share of the throughput depends on an operator (thesis 2.2.4).

It is the throughput of all sinks that the operator reaches by a path without a congested operator, by the throughput of
all sinks. Its own congestion does not count: that is what more instances would end.

Algorithm 2.1 adds up over children, so a sink that is reached on two ways counts twice. Equation 2.1 has each sink
once, and so has this.
"""

from __future__ import annotations

from collections.abc import Mapping

from stretto.elasticity.topology import Placement, Topology


def effective_sinks(topology: Topology, name: str) -> tuple[str, ...]:
    """Returns the sinks that an operator reaches without passing a congested one; a sink reaches itself."""
    seen = {name}
    left = [name]
    while left:
        for child in topology.children(left.pop()):
            if child not in seen and child not in topology.congested:
                seen.add(child)
                left.append(child)
    return tuple(sink for sink in topology.sinks if sink in seen)


def etp(topology: Topology, name: str) -> float:
    """Returns the ETP of an operator, between 0 and 1; 0 while nothing reaches any sink."""
    if topology.throughput <= 0:
        return 0.0
    return sum(topology.sink_throughput(sink) for sink in effective_sinks(topology, name)) / topology.throughput


def etps(topology: Topology) -> dict[str, float]:
    """Returns the ETP of all operators."""
    return {name: etp(topology, name) for name in topology.operators}


def ranked(topology: Topology) -> list[str]:
    """Returns the congested operators, the greatest ETP first; of equals, the one that comes first."""
    found = etps(topology)
    return sorted((name for name in topology.operators if name in topology.congested), key=lambda name: -found[name])


def etp_sums(etp_of: Mapping[str, float], placement: Placement, workers: tuple[str, ...]) -> dict[str, float]:
    """Returns the sum of the ETPs of all instances on each worker (equation 2.2)."""
    sums = dict.fromkeys(workers, 0.0)
    for name, homes in placement.items():
        for worker in homes:
            if worker in sums:
                sums[worker] += etp_of[name]
    return sums
