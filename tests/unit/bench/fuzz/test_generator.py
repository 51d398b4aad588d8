"""The random terms of the fuzzer: what they are made of, and that a seed makes the same ones again."""

from __future__ import annotations

from random import Random

import pytest

from stretto.bench.fuzz import ours
from stretto.bench.fuzz.answers import Answered
from stretto.bench.fuzz.columns import random_rows, schema
from stretto.bench.fuzz.forms import MAKE_ROWS, NOT_COMPARED, Form, all_forms, calls_of
from stretto.bench.fuzz.generator import Generator
from stretto.bench.fuzz.plain import plain_values
from stretto.bench.fuzz.vocabulary import Vocabulary, explore
from stretto.expressions.functions import FUNCTIONS

SCHEMA = schema()


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    forms = [form for form in all_forms() if form.label in ("+", "=", "CASE", "cast as string", "||", "IN")]
    return explore(
        [*forms, *(form for name in ("abs", "upper", "date_trunc") for form in calls_of(name))], SCHEMA, Random(1)
    )


def test_every_function_of_the_registry_has_a_form() -> None:
    labels = {form.label for form in all_forms()}
    assert set(FUNCTIONS) - NOT_COMPARED - MAKE_ROWS <= labels


def test_arguments_are_found_by_trial(vocabulary: Vocabulary) -> None:
    taken = {slot.family for each in vocabulary.signatures[calls_of("abs")[0]] for slot in each.slots}
    assert {"int", "decimal", "double"} <= taken
    assert not {"boolean", "date", "array<int>"} & taken
    assert all(each.result == "string" for each in vocabulary.signatures[calls_of("upper")[0]])


def test_a_hinted_place_gets_only_its_constants(vocabulary: Vocabulary) -> None:
    places = {each.slots[0] for each in vocabulary.signatures[calls_of("date_trunc")[0]]}
    assert all("'month'" in slot.texts for slot in places)


def test_a_form_that_is_never_accepted_is_named() -> None:
    found = explore([Form("no_such_function", ("no_such_function(", ")"))], SCHEMA, Random(1))
    assert found.never == ["no_such_function"]
    assert "unknown function no_such_function" in found.refusals[0].reason


def test_most_terms_compile_and_none_is_deeper_than_four(vocabulary: Vocabulary) -> None:
    generator = Generator(vocabulary, Random(3))
    terms = [generator.term() for _ in range(300)]
    assert max(term.depth for term in terms) == 4
    assert sum(map(_compiles, (term.text for term in terms))) > 270


def _compiles(text: str) -> bool:
    return isinstance(ours.answer(text, random_rows(SCHEMA, 0, Random(1))), Answered)


def test_equal_seeds_make_equal_terms_and_rows(vocabulary: Vocabulary) -> None:
    again = explore(list(vocabulary.signatures), SCHEMA, Random(1))
    for seed in (1, 2):
        first, second = Generator(vocabulary, Random(seed)), Generator(vocabulary, Random(seed))
        assert [first.term().text for _ in range(50)] == [second.term().text for _ in range(50)]
    assert [form.label for form in again.signatures] == [form.label for form in vocabulary.signatures]
    for left, right in zip(random_rows(SCHEMA, 8, Random(5)), random_rows(SCHEMA, 8, Random(5)), strict=True):
        assert repr(plain_values(left)) == repr(plain_values(right))


def test_rows_have_the_values_that_break_code() -> None:
    rows = random_rows(SCHEMA, 400, Random(1))
    doubles = plain_values(rows.column("x"))
    shown = set(map(repr, doubles))
    assert {"nan", "inf", "-inf", "-0.0", "None"} <= shown
    assert {-128, 127} <= set(plain_values(rows.column("y")))
    assert "" in set(plain_values(rows.column("s")))
    assert max(each for each in plain_values(rows.column("t")) if each is not None) > 253_402_300_799_999_999
