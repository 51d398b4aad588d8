"""Slots that workers hold: who needs one of Spark's own is told, and does not wait for ever."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from stretto import App, sinks, sources
from stretto.api.engines import Engine, EngineChoice
from stretto.errors import ClusterError
from stretto.runtime.job import Execution, Job
from stretto.runtime.slots import free_slots, hold_slots, release_slots, require_free_slots
from stretto.runtime.triggers import measure_trigger_s


def spark_with(slots: int, application: str = "application-1", **settings: str) -> SparkSession:
    """Returns a stand-in for a local session; any use of it beyond its slots is an error."""
    conf = {name.replace("_", "."): value for name, value in settings.items()}
    context = SimpleNamespace(
        master=f"local[{slots}]", getConf=lambda: SimpleNamespace(get=conf.get), applicationId=application
    )
    session = SimpleNamespace(get=lambda key: "UTC")
    return cast(SparkSession, SimpleNamespace(sparkContext=context, conf=session))


@pytest.fixture
def full() -> Iterator[SparkSession]:
    """A session whose three slots are held by the workers of two clusters."""
    spark = spark_with(3)
    hold_slots(spark, "one", 2)
    hold_slots(spark, "two", 1)
    yield spark
    release_slots("one")
    release_slots("two")


def an_app() -> App:
    app = App("counts")
    app.source("rows", sources.memory([{"n": 1}])).sink(sinks.collect(), name="out")
    return app


def test_the_slots_of_all_clusters_of_an_application_count(full: SparkSession) -> None:
    assert free_slots(full) == 0
    assert free_slots(spark_with(5)) == 2
    assert free_slots(spark_with(3, "application-2")) == 3
    assert free_slots(spark_with(3, spark_dynamicAllocation_enabled="true")) is None
    release_slots("two")
    assert free_slots(full) == 1


def test_a_cluster_needs_slots_that_others_do_not_hold(full: SparkSession) -> None:
    require_free_slots(spark_with(5), 2)
    require_free_slots(spark_with(3, spark_dynamicAllocation_enabled="true"), 9)
    with pytest.raises(ClusterError, match=r"3 workers were asked for, and 2 of Spark's 5 slots are free") as caught:
        require_free_slots(spark_with(5), 3)
    assert "local[6]" in str(caught.value)


@pytest.mark.parametrize("what", ["job.dataframe() of job 'counts'", "the batch twin of app 'counts'", "measuring"])
def test_who_needs_a_slot_and_has_none_is_told(full: SparkSession, what: str) -> None:
    app = an_app()
    job = Job("counts", app.plan(), EngineChoice(Engine.ACTORS, ""), cast(Execution, SimpleNamespace()), full)
    act = {"job": job.dataframe, "the": lambda: app.to_spark(full), "mea": lambda: measure_trigger_s(full)}[what[:3]]
    with pytest.raises(ClusterError) as caught:
        act()
    assert str(caught.value).startswith(what)
    assert "the 3 workers hold all 3 slots" in str(caught.value)
    assert "local[4]" in str(caught.value)
