"""What a worker has asked of homes and servers and has no answer to: who waits for it, and when it is asked again."""

from __future__ import annotations

from collections.abc import Iterator

from stretto.actors.deadlines import NEVER_NS
from stretto.actors.seat import Seat
from stretto.actors.sharing import Slot
from stretto.sharing.contents import Kind, Ref
from stretto.sharing.freshness import Freshness

AGAIN_NS, AGAIN_NS_MAX = 50_000_000, 1_000_000_000
"""A home that does not answer is asked again after so long, and then after twice as long each time, up to the last."""

Waiting = tuple[Seat, Slot]


class Asked:
    """A question under way. Of a server, it has no partition. It was first asked at `asked_ns`: so old is the answer at
    most."""

    __slots__ = (
        "again_ns",
        "asked_ns",
        "job",
        "number",
        "partition",
        "pause_ns",
        "refs",
        "space",
        "superseded",
        "waiting",
    )

    def __init__(self, number: int, job: str, space: str, partition: int | None, refs: list[Ref], now_ns: int) -> None:
        self.number = number
        self.job = job
        self.space = space
        self.partition = partition
        self.refs = refs
        self.asked_ns = now_ns
        self.pause_ns = AGAIN_NS
        self.again_ns = now_ns + AGAIN_NS if partition is not None else NEVER_NS
        self.superseded: set[str] = set()
        """Names of objects that were written here since it was asked, where such a copy is not used any more."""
        self.waiting: dict[Ref, list[Waiting]] = {ref: [] for ref in refs}


class Asking:
    """All questions under way on one worker, by their numbers."""

    def __init__(self) -> None:
        self._asked: dict[int, Asked] = {}
        self._by_ref: dict[tuple[str, Ref], Asked] = {}
        """The last question for each object."""
        self._last = 0

    def ask(
        self, job: str, space: str, partition: int | None, refs: list[Ref], by: Waiting | None, now_ns: int
    ) -> Asked:
        """Returns a new question."""
        self._last += 1
        asked = self._asked[self._last] = Asked(self._last, job, space, partition, refs, now_ns)
        for ref in refs:
            self._by_ref[job, ref] = asked
            if by is not None:
                asked.waiting[ref].append(by)
        return asked

    def join(self, job: str, ref: Ref, by: Waiting, freshness: Freshness, taken_ns: int) -> bool:
        """Lets a batch wait for a question that is under way, if its answer will be fresh enough."""
        asked = self._by_ref.get((job, ref))
        if asked is None or not freshness.allows(asked.asked_ns, taken_ns):
            return False
        asked.waiting[ref].append(by)
        return True

    def supersede(self, job: str, space: str, name: str) -> None:
        """An object was written here: nobody else is to wait for the question that is under way."""
        for kind in Kind:
            asked = self._by_ref.pop((job, Ref(space, name, kind)), None)
            if asked is not None:
                asked.superseded.add(name)

    def answered(self, number: int, job: str) -> Asked | None:
        """Returns the question that an answer is to; None if it was answered before, or its job is gone."""
        asked = self._asked.get(number)
        if asked is None or asked.job != job:
            return None
        del self._asked[number]
        for ref in asked.refs:
            if self._by_ref.get((job, ref)) is asked:
                del self._by_ref[job, ref]
        return asked

    def confirms(self, job: str, space: str, partition: int) -> bool:
        """Whether a home is being asked which writes it has made, and nothing else."""
        return any(
            not asked.refs and (asked.job, asked.space, asked.partition) == (job, space, partition)
            for asked in self._asked.values()
        )

    def due(self, now_ns: int) -> Iterator[Asked]:
        """Yields what is to be asked again now."""
        for asked in self._asked.values():
            if asked.again_ns <= now_ns:
                asked.pause_ns = min(2 * asked.pause_ns, AGAIN_NS_MAX)
                asked.again_ns = now_ns + asked.pause_ns
                yield asked

    @property
    def next_ns(self) -> int:
        """When something is to be asked again."""
        return min((asked.again_ns for asked in self._asked.values()), default=NEVER_NS)

    def forget(self, job: str) -> None:
        """A job is gone."""
        self._asked = {number: asked for number, asked in self._asked.items() if asked.job != job}
        self._by_ref = {key: asked for key, asked in self._by_ref.items() if key[0] != job}
