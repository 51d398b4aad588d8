"""Movie review, after Deathstar (styx.txt 9.2, table 2): 1,000 users review 1,000 movies, seven functions a review.

    Frontend.compose ── ReviewIds.draw, User.find, Title.find
                     └─ Review.store, MovieReviews.add, UserReviews.add

One user in a hundred is not registered, and that review is aborted when parts of it may have been written already.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from stretto.bench.transactions.replay import Aborted, differences
from stretto.bench.transactions.service import Done, Fields
from stretto.bench.transactions.workload import Rows
from stretto.transactions.entity import Entity

LATEST = 10
"""So many reviews of a user or a movie are listed."""
UNKNOWN_PERCENT = 1
FRONTENDS = 16


class NoSuchUser(Exception):
    """Nobody of this name is registered."""


class ReviewIds(Entity):
    async def draw(self) -> str:
        return self.uuid().hex


class User(Entity):
    number: int = 0

    async def register(self, number: int) -> None:
        self.number = number

    async def find(self) -> int:
        if not self.number:
            raise NoSuchUser(self.key)
        return self.number


class Title(Entity):
    movie: int = 0

    async def register(self, movie: int) -> None:
        self.movie = movie

    async def find(self) -> int:
        return self.movie


class Review(Entity):
    user: int = 0
    movie: int = 0
    text: str = ""
    stars: int = 0

    async def store(self, user: int, movie: int, text: str, stars: int) -> None:
        self.user, self.movie, self.text, self.stars = user, movie, text, stars


class MovieReviews(Entity):
    latest: list[str] = []  # noqa: RUF012
    count: int = 0
    stars: int = 0

    async def add(self, review: str, stars: int) -> None:
        self.latest = [*self.latest, review][-LATEST:]
        self.count += 1
        self.stars += stars


class UserReviews(Entity):
    latest: list[str] = []  # noqa: RUF012
    count: int = 0

    async def add(self, review: str) -> None:
        self.latest = [*self.latest, review][-LATEST:]
        self.count += 1


class Frontend(Entity):
    async def compose(self, user: str, title: str, text: str, stars: int) -> str:
        """Write a review. Returns its identifier."""
        drawn, number, movie = ReviewIds(self.key).draw(), User(user).find(), Title(title).find()
        review = await drawn
        of_movie = await movie
        _ = MovieReviews(str(of_movie)).add(review, stars)
        by_user = await number
        _ = UserReviews(str(by_user)).add(review)
        _ = Review(review).store(by_user, of_movie, text, stars)
        return review


@dataclass(frozen=True)
class Movie:
    """The workload."""

    users: int = 1_000
    movies: int = 1_000

    name: ClassVar[str] = "movie"
    entities: ClassVar[tuple[type[Entity], ...]] = (Frontend, ReviewIds, User, Title, Review, MovieReviews, UserReviews)

    def load(self) -> Iterator[Any]:
        for number in range(1, self.users + 1):
            yield User(f"user{number}").register(number)
        for number in range(1, self.movies + 1):
            yield Title(f"movie {number}").register(number)

    def calls(self, seed: int) -> Iterator[Any]:
        chance = random.Random(seed)
        while True:
            is_known = chance.randrange(100) >= UNKNOWN_PERCENT
            user = f"user{chance.randint(1, self.users)}" if is_known else "nobody"
            title = f"movie {chance.randint(1, self.movies)}"
            text = f"{chance.getrandbits(64):x}" * 16
            frontend: Any = Frontend(str(chance.randrange(FRONTENDS)))
            yield frontend.compose(user, title, text, chance.randint(0, 10))

    def verify(self, done: Sequence[Done], rows: Rows) -> Iterator[str]:
        """Returns what a sequential model has otherwise."""
        yield from differences(self.entities, done, Replay(), rows)


@dataclass
class Replay:
    """The reviews, one after another. Their identifiers are taken from the replies, and must be different."""

    users: dict[str, int] = field(default_factory=dict)
    titles: dict[str, int] = field(default_factory=dict)
    reviews: dict[str, Fields] = field(default_factory=dict)

    def answer(self, done: Done) -> str | None:
        arguments, key = done.arguments, done.made.key
        if done.made.kind == "User":
            self.users[key] = arguments["number"]
            return None
        if done.made.kind == "Title":
            self.titles[key] = arguments["movie"]
            return None
        if arguments["user"] not in self.users:
            raise Aborted("NoSuchUser")
        review = str(done.value)
        if review in self.reviews:
            raise Aborted("an identifier that is used already")
        self.reviews[review] = {
            "user": self.users[arguments["user"]],
            "movie": self.titles[arguments["title"]],
            "text": arguments["text"],
            "stars": arguments["stars"],
        }
        return review

    def rows(self) -> dict[str, dict[str, Fields]]:
        by_movie: dict[str, Fields] = {}
        by_user: dict[str, Fields] = {}
        for review, each in self.reviews.items():
            movie = by_movie.setdefault(str(each["movie"]), {"latest": [], "count": 0, "stars": 0})
            user = by_user.setdefault(str(each["user"]), {"latest": [], "count": 0})
            for one in (movie, user):
                one["latest"] = [*one["latest"], review][-LATEST:]
                one["count"] += 1
            movie["stars"] += each["stars"]
        return {
            "User": {key: {"number": number} for key, number in self.users.items()},
            "Title": {key: {"movie": movie} for key, movie in self.titles.items()},
            "Review": self.reviews,
            "MovieReviews": by_movie,
            "UserReviews": by_user,
        }
