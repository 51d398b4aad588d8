"""The batch twin of a plan: the same result as a DataFrame over all rows of its bounded sources."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from stretto.api.plan import Plan
from stretto.runtime.own_python import use_own_python
from stretto.runtime.relational import to_dataframes
from stretto.runtime.slots import require_free_slot
from stretto.runtime.spark_sources import batch_frame


def batch_twin(plan: Plan, spark: SparkSession) -> dict[str, DataFrame]:
    """Returns the DataFrame of each sink's rows, by name. Raises an EngineError that names what Spark cannot
    express."""
    require_free_slot(spark, f"the batch twin of app '{plan.app}'")
    use_own_python(spark)
    frames = {node.name: batch_frame(spark, node) for node in plan.sources}
    return to_dataframes(plan, spark, frames, streaming=False)
