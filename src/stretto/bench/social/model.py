"""What the network must answer, by another way: sets, from the table of requests alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from stretto.bench.social.network import Ask, Network


class Model:
    """Which posts belong into which timeline, when all requests are served."""

    def __init__(self, network: Network, requests: Iterable[dict[str, Any]]) -> None:
        self.asked = {each["request"]: each for each in requests}
        self.posts = {number: each["user"] for number, each in self.asked.items() if each["ask"] == Ask.COMPOSE}
        self._network = network

    def belongs(self, post: int, ask: int, user: int) -> bool:
        """Whether a post belongs into a timeline of a user."""
        author = self.posts.get(post)
        if author is None:
            return False
        return author == user if ask == Ask.USER_TIMELINE else user in self._network.followers[author]

    def timeline(self, ask: int, user: int) -> set[int]:
        """Returns the posts of a timeline in the end."""
        return {post for post in self.posts if self.belongs(post, ask, user)}

    def wrong_answers(self, answers: list[dict[str, Any]]) -> list[str]:
        """Returns what is wrong with answers that were given while posts were composed: each request has one, and what
        it lists belongs there, once."""
        wrong = _not_once([each["request"] for each in answers], list(self.asked))
        for each in answers:
            asked = self.asked.get(each["request"])
            posts = each["posts"]
            if asked is None or (asked["ask"], asked["user"]) != (each["ask"], each["user"]):
                wrong.append(f"{each} answers another request: {asked}")
            elif len(set(posts)) < len(posts):
                wrong.append(f"{each} has a post twice")
            elif each["ask"] == Ask.COMPOSE:
                wrong += [f"{each} is another post"] if posts != [each["request"]] else []
            else:
                strange = [post for post in posts if not self.belongs(post, each["ask"], each["user"])]
                wrong += [f"{each} has posts of others: {strange}"] if strange else []
        return wrong

    def wrong_looks(self, looks: list[dict[str, Any]]) -> list[str]:
        """Returns what is wrong with answers that were given in the end."""
        wrong = []
        for each in looks:
            expected = self.timeline(each["ask"], each["user"])
            if Counter(each["posts"]) != Counter(expected):
                wrong.append(f"{each} should have {sorted(expected)}")
        return wrong


def _not_once(found: list[int], expected: list[int]) -> list[str]:
    missing, surplus = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    return (
        [f"answers are missing for {sorted(missing)[:9]}, and too many for {sorted(surplus)[:9]}"]
        if (missing or surplus)
        else []
    )
