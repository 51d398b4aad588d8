"""What is supported of Spark's functions: the names, the syntax, and the words of a refusal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stretto.errors import ExpressionError
from stretto.expressions import compile_scalar, parse_schema
from stretto.expressions.refused import REFUSALS
from stretto.expressions.spark_functions import SPARK_FUNCTIONS
from stretto.expressions.support import SYNTAX, Support, entries, markdown

SCHEMA = parse_schema("b boolean, i int, s string")


@pytest.mark.parametrize("text", SYNTAX.values())
def test_syntax_compiles(text: str) -> None:
    compile_scalar(text, SCHEMA)


def test_every_name_has_an_entry() -> None:
    assert [entry.name for entry in entries()] == list(SPARK_FUNCTIONS)
    assert len(set(SPARK_FUNCTIONS)) == len(SPARK_FUNCTIONS) == 591


def test_groups_name_functions_of_spark() -> None:
    named = {name for refusal in REFUSALS for name in refusal.names.split()}
    assert named <= set(SPARK_FUNCTIONS)
    assert not [entry.name for entry in entries() if entry.name in named and entry.support is Support.FUNCTION]
    for refusal in REFUSALS:
        assert any(refusal.covers(name) for name in SPARK_FUNCTIONS), refusal


def test_a_refusal_says_why_and_what_to_use() -> None:
    refused = [entry.name for entry in entries() if entry.support is Support.REFUSED]
    assert {"rand", "current_timestamp", "row_number", "parse_json"} <= set(refused)
    for name in ("current_timestamp", "kll_merge_agg_bigint"):
        with pytest.raises(ExpressionError, match=f"the function {name} is not supported"):
            compile_scalar(f"{name}()", SCHEMA)


def test_every_name_is_supported_or_explained() -> None:
    assert [entry.name for entry in entries() if entry.support is Support.UNEXPLAINED] == []


def test_the_page_is_what_the_registry_says() -> None:
    page = Path(__file__).parents[3] / "docs" / "functions.md"
    assert page.read_text() == markdown(), "run: stretto functions --markdown > docs/functions.md"


def test_the_readme_counts_them() -> None:
    supported = sum(entry.support not in (Support.REFUSED, Support.UNEXPLAINED) for entry in entries())
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    counted = re.findall(r"(\d+) of Spark's (\d+) functions and operators", readme)
    assert counted == [(str(supported), str(len(SPARK_FUNCTIONS)))]
