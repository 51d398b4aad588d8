"""Who follows whom, and what users ask for: both with skew, both by seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate

import pyarrow as pa


class Ask(IntEnum):
    """What a request asks for."""

    COMPOSE = 0
    USER_TIMELINE = 1
    HOME_TIMELINE = 2


SHARES = {Ask.COMPOSE: 0.1, Ask.USER_TIMELINE: 0.3, Ask.HOME_TIMELINE: 0.6}
"""How often each is asked for, as in DeathStarBench's mixed workload."""
SCHEMA = pa.schema([("request", pa.int64()), ("ask", pa.int64()), ("user", pa.int64())])
EXPONENT = 1.0


@dataclass(frozen=True)
class Network:
    """`followers` of each user. Popular users have many, as Zipf's law has it."""

    followers: tuple[tuple[int, ...], ...]

    @property
    def users(self) -> int:
        return len(self.followers)


def network(users: int, follows: int, seed: int) -> Network:
    """Returns a network in which each user follows so many others, more often popular ones."""
    chance = random.Random(seed)
    weights = list(accumulate(1 / rank**EXPONENT for rank in range(1, users + 1)))
    followers: list[list[int]] = [[] for _ in range(users)]
    for user in range(users):
        chosen: set[int] = set()
        while len(chosen) < min(follows, users - 1):
            chosen.update(chance.choices(range(users), cum_weights=weights, k=follows))
            chosen.discard(user)
        for other in sorted(chosen)[:follows]:
            followers[other].append(user)
    return Network(tuple(tuple(each) for each in followers))


def requests(users: int, count: int, seed: int) -> pa.Table:
    """Returns requests of users, more often of popular ones; the number of a request that composes is its post's."""
    chance = random.Random(seed + 1)
    weights = list(accumulate(1 / rank**EXPONENT for rank in range(1, users + 1)))
    asks = chance.choices(list(SHARES), list(SHARES.values()), k=count)
    asking = chance.choices(range(users), cum_weights=weights, k=count)
    return pa.table([list(range(count)), [int(ask) for ask in asks], asking], schema=SCHEMA)


def looks(users: int) -> pa.Table:
    """Returns a request for each timeline of each user."""
    asks = [int(ask) for ask in (Ask.USER_TIMELINE, Ask.HOME_TIMELINE) for _ in range(users)]
    return pa.table([list(range(2 * users)), asks, [*range(users), *range(users)]], schema=SCHEMA)
