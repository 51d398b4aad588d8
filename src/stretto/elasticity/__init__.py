"""Elasticity: how much of the cluster each function gets, and which shard is where. Pure.

A controller gets a view of the cluster and returns records of decisions; the enactor in the coordinator carries them
out. Most look at keyed actors only: what is stateless or combines is spread by strategies, message by message. The
controller of objectives looks at jobs and asks for capacity; scaling strategies say who gets new workers. They must
never know the clock, a machine, or how a decision is carried out.

Read next: `view.py` (what controllers see), `decisions.py` and `records.py` (what they say), `controller.py` and
`team.py` (how they are called); then the controllers `shard_balancer.py`, `worker_allocator.py` and
`home_bottleneck.py`, and what they compute with: `balancing.py`, `queueing.py`, `assignment.py`, `skew.py`. For
objectives: `intent_controller.py`, `utility_controller.py`, `transfers.py`, `intents.py`, `capacity.py`. For workers
that come and go: `scaling_strategies.py`, `effective_throughput.py`, `topology.py`, `measured_rates.py`. For bursts:
`burst_controller.py`, `burst_plan.py`, `burst_memory.py`, `burst_view.py`, `offloading.py`, `burst_prices.py`.
`reverting.py` judges what has been decided.
"""

from stretto.elasticity.controller import Controller
from stretto.elasticity.decisions import Decision, MoveShards, Repartition, SetWorkers, ShardMove
from stretto.elasticity.effects import measured_effect
from stretto.elasticity.naming import CONTROLLERS, controllers_named
from stretto.elasticity.records import Candidate, DecisionRecord, Outcome, Trigger
from stretto.elasticity.subjects import Subject
from stretto.elasticity.team import Team
from stretto.elasticity.view import ActorView, ElasticView, JobView, WorkerView

__all__ = [
    "CONTROLLERS",
    "ActorView",
    "Candidate",
    "Controller",
    "Decision",
    "DecisionRecord",
    "ElasticView",
    "JobView",
    "MoveShards",
    "Outcome",
    "Repartition",
    "SetWorkers",
    "ShardMove",
    "Subject",
    "Team",
    "Trigger",
    "WorkerView",
    "controllers_named",
    "measured_effect",
]
