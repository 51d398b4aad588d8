"""The deployment of a running job at another parallelism: its plan is lowered again, as if it were submitted so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stretto.actors.deployment import Deployment
from stretto.actors.shards import ShardMap
from stretto.api.lowering import lowered
from stretto.api.plan import Node, Plan, SinkNode
from stretto.errors import PlanError


@dataclass(frozen=True, slots=True)
class Submitted:
    """What a job was lowered from, and the deployment that it began with."""

    plan: Plan
    parallelism: int
    batch_rows: int
    batch_delay_us: int
    deployment: Deployment
    is_durable: bool

    def rescaled(
        self, current: Mapping[str, int], wanted: Mapping[str, int], shards: Mapping[str, ShardMap]
    ) -> Deployment:
        """Returns the deployment with the `wanted` parallelism of some functions; the others keep their current one.
        `shards` says how keys are dealt, where it is not evenly. Raises a PlanError if that is not possible.

        A sink that has no parallelism of its own follows who feeds it if the job has checkpoints. Without them it stays
        as it is, since only its own writer can publish what it has written."""
        nodes = {name: self._pinned(name, current, wanted) for name in self.plan.nodes}
        plan = replace(self.plan, nodes=nodes)
        job = self.deployment.job
        deployment = lowered(plan, job, self.parallelism, self.batch_rows, self.batch_delay_us)
        self._check(deployment, current, wanted)
        for name, spec in deployment.functions.items():
            spec.dealt = shards.get(name)
            if spec.on_driver:
                # It knows what this process has written already.
                spec.function = self.deployment.functions[name].function
        return deployment

    def _pinned(self, name: str, current: Mapping[str, int], wanted: Mapping[str, int]) -> Node:
        node = self.plan.nodes[name]
        if name in wanted:
            return replace(node, parallelism=wanted[name])
        follows = isinstance(node, SinkNode) and node.parallelism is None and self.is_durable
        return node if follows or name not in current else replace(node, parallelism=current[name])

    def _check(self, deployment: Deployment, current: Mapping[str, int], wanted: Mapping[str, int]) -> None:
        if deployment.functions.keys() != current.keys():
            raise PlanError(
                f"app '{self.plan.app}' would have other functions",
                f"{', '.join(sorted(deployment.functions.keys() ^ current.keys()))}",
            )
        for name, parallelism in wanted.items():
            found = deployment.functions[name].parallelism
            if found != parallelism:
                raise PlanError(
                    f"function '{name}' cannot have a parallelism of {parallelism}",
                    f"its rows are not partitioned by a key, so it has {found}",
                    "Rescale a function that is grouped or joined by keys.",
                )
