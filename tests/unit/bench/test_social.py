"""The model of the social network finds wrong answers."""

from __future__ import annotations

from typing import Any

import pytest

from stretto.bench.social.model import Model
from stretto.bench.social.network import Ask, Network, looks, network, requests

FOLLOWED = Network(((1,), (), ()))
"""User 1 follows user 0."""


def asked(number: int, ask: Ask, user: int, posts: list[int] | None = None) -> dict[str, Any]:
    row = {"request": number, "ask": int(ask), "user": user}
    return row if posts is None else {**row, "posts": posts}


REQUESTS = [asked(0, Ask.COMPOSE, 0), asked(1, Ask.HOME_TIMELINE, 1), asked(2, Ask.USER_TIMELINE, 2)]
RIGHT = [asked(0, Ask.COMPOSE, 0, [0]), asked(1, Ask.HOME_TIMELINE, 1, [0]), asked(2, Ask.USER_TIMELINE, 2, [])]


def test_right_answers_are_right() -> None:
    model = Model(FOLLOWED, REQUESTS)
    assert model.wrong_answers(RIGHT) == []
    assert model.wrong_answers([RIGHT[0], asked(1, Ask.HOME_TIMELINE, 1, []), RIGHT[2]]) == []  # It came before.
    assert model.timeline(Ask.HOME_TIMELINE, 1) == {0}


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (RIGHT[:2], "missing for [2]"),
        ([*RIGHT, RIGHT[0]], "too many for [0]"),
        ([*RIGHT[:2], asked(2, Ask.USER_TIMELINE, 2, [0])], "posts of others: [0]"),
        ([RIGHT[0], asked(1, Ask.HOME_TIMELINE, 1, [0, 0]), RIGHT[2]], "a post twice"),
        ([asked(0, Ask.COMPOSE, 0, [5]), *RIGHT[1:]], "another post"),
        ([RIGHT[0], asked(1, Ask.USER_TIMELINE, 1, []), RIGHT[2]], "answers another request"),
    ],
)
def test_wrong_answers_are_found(answers: list[dict[str, Any]], said: str) -> None:
    assert any(said in each for each in Model(FOLLOWED, REQUESTS).wrong_answers(answers))


def test_in_the_end_nothing_may_be_missing() -> None:
    model = Model(FOLLOWED, REQUESTS)
    assert model.wrong_looks([asked(0, Ask.HOME_TIMELINE, 1, [0])]) == []
    assert model.wrong_looks([asked(0, Ask.HOME_TIMELINE, 1, [])])
    assert model.wrong_looks([asked(0, Ask.HOME_TIMELINE, 1, [0, 0])])


def test_the_network_is_skewed_and_by_seed() -> None:
    made = network(100, 5, seed=1)
    assert made == network(100, 5, seed=1) != network(100, 5, seed=2)
    assert sum(map(len, made.followers)) == 500
    assert max(map(len, made.followers)) > 25
    assert requests(100, 50, 1).equals(requests(100, 50, 1))
    assert looks(3).num_rows == 6
