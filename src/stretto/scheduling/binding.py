"""Dynamic binding: the sender asks two places, drawn by lot, before each batch, and takes the better (thesis 6.6.2).

A worker answers between two runs, so whoever is busy with a long one answers late. The first answer decides, if no
other could be better: a worker that says nothing for so long has more to do.
"""

from __future__ import annotations

from typing import Any

from stretto.actors.address import Address
from stretto.actors.channel import OutChannel
from stretto.scheduling.strategy import Desk, Pending, Strategy, seeded_random


class Question:
    """A batch, the places that were asked about it, and what they have said."""

    __slots__ = ("answers", "decided", "pending", "places")

    def __init__(self, pending: Pending, places: dict[int, OutChannel]) -> None:
        self.pending = pending
        self.places = places
        self.answers: list[tuple[Any, OutChannel]] = []
        self.decided = False


class QueueBasedDirect(Strategy):
    """The power of two choices: the place with fewer messages waiting on its worker."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._questions: dict[int, Question] = {}

    def bind(self, desk: Desk) -> None:
        super().bind(desk)
        self._random = seeded_random(desk, self._seed)

    def wants_direct(self, channel: OutChannel) -> bool:
        return True

    def prepare_send(self, channel: OutChannel, direct: list[OutChannel], pending: Pending) -> OutChannel | None:
        places = self._random.sample([channel, *direct], 2)
        wish = self.wish(pending)
        question = Question(pending, {})
        for place in places:
            number = self.desk.request(place.peer or self.desk.member, channel.receiver, wish)
            question.places[number] = place
            self._questions[number] = question
        return None

    def wish(self, pending: Pending) -> Any:
        """What is asked."""
        return None

    def on_request(self, sender: str, address: Address, content: Any) -> Any:
        return self.desk.waiting()

    def on_reply(self, sender: str, number: int, content: Any) -> None:
        question = self._questions.pop(number)
        if question.decided:
            return
        question.answers.append((content, question.places[number]))
        if self.suffices(content) or len(question.answers) == len(question.places):
            question.decided = True
            _, best = min(question.answers, key=lambda answer: self.rank(answer[0]))
            fallback = question.pending.channel
            self.desk.send(question.pending, best if best.credits > 0 else fallback)

    def suffices(self, answer: Any) -> bool:
        """Whether the other place need not be heard."""
        return bool(answer == 0)

    def rank(self, answer: Any) -> Any:
        """The least wins."""
        return answer


class LaxityBasedDirect(QueueBasedDirect):
    """The place that can run it in time without making others late; by the queue if both can, or neither."""

    tracks = True

    def wish(self, pending: Pending) -> Any:
        return [pending.deadline_ns, pending.channel.cost_ns]

    def on_request(self, sender: str, address: Address, content: Any) -> Any:
        return [not self.desk.admits(*content), self.desk.waiting()]

    def suffices(self, answer: Any) -> bool:
        late, waiting = answer
        return not late and waiting == 0
