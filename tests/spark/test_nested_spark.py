"""Arrays, maps and structs against Spark itself; the pure twin is tests/unit/expressions/test_nested.py."""

from __future__ import annotations

from pyspark.sql import SparkSession
from tests.nested_cases import recorded, sparks_answers


def test_the_recorded_answers_are_sparks(spark: SparkSession) -> None:
    wanted = {text: answer for text, answer in recorded().items() if answer is not None}
    answers = dict(zip(wanted, sparks_answers(spark, list(wanted)), strict=True))
    assert {text: answer for text, answer in answers.items() if answer != wanted[text]} == {}
