"""A custom controller: twice as many workers for an actor that cannot keep up, and its home alone when it is idle.

Use it for a cluster beside the one that balances shards,
`Cluster.on_spark(spark, workers=8, elasticity="shards,examples.own_controller:Doubling")`.
"""

from stretto.elasticity import Controller, DecisionRecord, ElasticView, SetWorkers


class Doubling(Controller):
    """Looks at what waits, and at nothing else. It is called every 2 s; each decision shows its effect after 4 s."""

    every_ns = 2_000_000_000
    effect_ns = 4_000_000_000

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        """Returns a record per actor whose workers change; idle workers come first."""
        idlest = sorted(view.workers, key=lambda name: (view.workers[name].busy_share, name))
        found = []
        for actor in view.actors:
            others = [*actor.workers[1:], *(name for name in idlest if name not in actor.workers)]
            many = min(2 * len(actor.workers), actor.workers_max) if actor.waiting > 20 else len(actor.workers)
            few = 1 if actor.load < 0.1 else many
            workers = (actor.home, *others[: few - 1])
            if actor.may_change and workers != actor.workers:
                why = "messages wait" if len(workers) > len(actor.workers) else "it is idle"
                found.append(self.record(actor, now_ns, why, SetWorkers(*actor.address, workers)))
        return found
