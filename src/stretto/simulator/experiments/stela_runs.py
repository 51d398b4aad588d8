"""Runs of Stela's experiments: a dataflow in a placement, what it reaches, and the topology that is measured of it."""

from __future__ import annotations

from collections.abc import Callable

from stretto.elasticity.measured_rates import operator_name, topology_of
from stretto.elasticity.topology import Placement, Topology
from stretto.simulator.experiments.dataflows import JOB, Dataflow, PhaseMeasured, run_phase

WARM_S = 1.0
WINDOW_S = 0.25

Done = Callable[[], None]


def run(flow: Dataflow, homes: Placement, workers: int, seconds: float, seed: int, done: Done) -> PhaseMeasured:
    """Runs a dataflow on so many workers."""
    found = run_phase(flow, homes, workers, seconds, seed, warm_s=WARM_S, window_s=WINDOW_S)
    done()
    return found


def rate(phase: PhaseMeasured) -> float:
    """Returns the rows per second after the warm-up."""
    return round(phase.throughput(int(WARM_S / WINDOW_S)))


def measured(phase: PhaseMeasured) -> Topology:
    """Returns the topology that the production code finds in the observation of a run."""
    return topology_of(phase.observation.jobs.values(), phase.observation.workers)[0]


def in_topology(homes: Placement) -> Placement:
    """Returns a placement with the names that operators have in a topology of jobs."""
    return {operator_name(JOB, name): workers for name, workers in homes.items()}


def in_job(placement: Placement) -> Placement:
    """Returns a placement with the names that operators have in their job."""
    return {name.removeprefix(operator_name(JOB, "")): workers for name, workers in placement.items()}
