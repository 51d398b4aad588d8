"""A standalone Spark cluster, which the test starts itself: a whole Spark worker dies."""

from __future__ import annotations

from stretto.bench import chaos
from stretto.bench.chaos import Chaos, Fault
from stretto.bench.standalone import standalone_cluster
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import spark_session


def test_a_query_survives_the_death_of_a_spark_worker() -> None:
    told: list[str] = []
    # Either Spark worker has enough slots for all three workers and for Spark's own query.
    with (
        standalone_cluster(2, slots=5) as master,
        spark_session("stretto-tests", master) as spark,
        Cluster.on_spark(spark, workers=2, parked=1, lost_after="5 s") as cluster,
    ):
        asked = Chaos("q5", kills=3, faults=(Fault.KILL, Fault.STOP), once=(Fault.NODE,))
        report = chaos.run(spark, cluster, asked, told.append)
    assert report.match, report.complaint
    assert report.blows[Fault.NODE.value] == 1, told
    assert report.kills == 3, told
