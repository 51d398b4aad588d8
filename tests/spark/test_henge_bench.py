"""The benchmark of the controller of objectives, small: it decides, rows are right, and figures are there."""

from __future__ import annotations

from pyspark.sql import SparkSession

from stretto.api.slo import objective
from stretto.bench.henge.comparison import compare
from stretto.bench.henge.conflict import Conflict, Intent

INTENTS = (
    # However fast the machine is, one worker needs three seconds for what is due in one.
    Intent("urgent", objective(latency="100 ms", priority=5), 3.0),
    Intent("large", objective(throughput=1.0, priority=3), 2.0),
    Intent("modest", objective(latency="1 minute"), 0.2),
)


def test_jobs_whose_objectives_conflict_are_judged_and_decided_about(spark: SparkSession) -> None:
    asked = Conflict(
        INTENTS,
        workers=4,
        seconds=3.0,
        slice_s=1.0,
        row_ms=20.0,
        controller="tests.spark.quick_intents:QuickIntents",
        decisions_min=1,
    )
    done = []
    found = compare(spark, asked, slice_done=lambda: done.append(1)).as_dict()
    assert found["match"], found["wrong"]
    assert len(done) == 2 * asked.slices
    assert found["most"] == 9
    assert found["utility"].keys() == found["jobs"].keys() == found["over_time"].keys() == {"nobody", "henge"}
    for way, over_time in found["over_time"].items():
        assert [each["until_s"] for each in over_time] == [1.0, 2.0, 3.0]
        for each in over_time:
            assert each["jobs"].keys() == {"urgent", "large", "modest"}
            assert 0 <= each["total"] <= 9
        assert found["utility"][way] == over_time[-1]["total"]
    assert {job["partitions"] for job in found["jobs"]["nobody"].values()} == {1}
    assert found["jobs"]["nobody"]["urgent"]["juice"] < 0.9, "it cannot be faster than its worker"
    carried_out = [record for record in found["decisions"] if record["outcome"] == "done"]
    assert carried_out
    for record in carried_out:
        assert record["controller"] == "quick"
        assert record["decision"]["kind"] in ("give capacity", "take capacity")
        assert record["seen"].keys() >= {"utility", "total", "load", "units"}
        assert [each["what"] for each in record["candidates"]].count("stay") == 1
