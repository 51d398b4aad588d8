"""PySpark's names for what the verbs here do: an error says the word to write."""

from __future__ import annotations

from stretto.errors import PlanError

_STREAM = {
    "withColumn": 'with_column("twice", "2 * price")',
    "withColumns": 'with_columns({"twice": "2 * price"})',
    "withColumnRenamed": 'rename({"old": "new"})',
    "withColumnsRenamed": 'rename({"old": "new"})',
    "selectExpr": 'select("2 * price AS twice")',
    "where": 'filter("price > 10")',
    "groupBy": 'key_by("auction")',
    "groupby": 'key_by("auction")',
    "orderBy": 'top(10, by="price DESC")',
    "sort": 'top(10, by="price DESC")',
    "limit": 'top(10, by="price DESC")',
    "join_asof": 'asof_join(other, on="symbol")',
    "merge_asof": 'asof_join(other, on="symbol")',
    "crossJoin": 'join(other, on="id = auction")',
    "groupingSets": 'grouping_sets([["auction", "bidder"], []])',
    "unionAll": "union(other)",
    "unionByName": "union(other)",
    "mapInArrow": "flat_map(function)",
    "mapInPandas": "flat_map(function)",
    "withWatermark": 'app.source(..., time="at", delay="10 seconds")',
    "writeStream": "sink(sinks.parquet(...))",
    "write": "sink(sinks.parquet(...))",
    "foreachBatch": "sink(sinks.callback(function))",
    "toPandas": "sink(sinks.collect()), and job.results().to_pandas()",
    "collect": "sink(sinks.collect()), and job.results()",
    "show": "sink(sinks.console())",
    "columns": "schema.names",
    "printSchema": "schema",
    "alias": "a name= at any verb",
    "dropDuplicates": 'drop_duplicates("id")',
    "dropDuplicatesWithinWatermark": 'drop_duplicates("id", within="10 minutes")',
    "distinct": "drop_duplicates()",
    "agg": 'aggregate(n="count(*)")',
}
_GROUPS = {
    "agg": 'aggregate(n="count(*)")',
    "count": 'aggregate(n="count(*)")',
    "sum": 'aggregate(total="sum(price)")',
    "avg": 'aggregate(mean="avg(price)")',
    "mean": 'aggregate(mean="avg(price)")',
    "min": 'aggregate(low="min(price)")',
    "max": 'aggregate(high="max(price)")',
    "applyInPandas": "apply(function, schema)",
    "applyInPandasWithState": "apply(function, schema)",
    "transformWithState": "apply(function, schema)",
}


class UnknownVerbError(PlanError, AttributeError):
    """A verb that has another name here. Also an AttributeError, so that `hasattr` works."""


def stream_attribute(owner: object, name: str) -> AttributeError:
    """Returns the error for an attribute that a stream does not have."""
    return _missing(owner, name, _STREAM)


def group_attribute(owner: object, name: str) -> AttributeError:
    """Returns the error for an attribute that a stream with a key or windows does not have."""
    return _missing(owner, name, _GROUPS)


def _missing(owner: object, name: str, words: dict[str, str]) -> AttributeError:
    kind = type(owner).__name__
    if name not in words:
        return AttributeError(f"'{kind}' object has no attribute '{name}'", name=name, obj=owner)
    return UnknownVerbError(f"a stream has no '{name}'", "that is PySpark's name", f"Write {words[name]}.")
