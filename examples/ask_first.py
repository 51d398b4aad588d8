"""A custom scheduling strategy: ask another worker before forwarding a message that would be late here.

Use it for a cluster, `Cluster.on_spark(spark, workers=4, strategy="examples.ask_first:AskFirst")`, or for the functions
of one app, `app.spread(lessees=3, strategy="examples.ask_first:AskFirst")`; or test it in virtual time:

stretto simulate barriers --strategy examples.ask_first:AskFirst
"""

from stretto.scheduling import Address, Desk, Message, Seat, Strategy, Work, seeded_random


class AskFirst(Strategy):
    """Forwards messages that would be late here to a worker that has fewer waiting messages and accepts them."""

    tracks = True  # The worker keeps a laxity queue, so that `late` knows which messages would be late.

    def __init__(self) -> None:
        self.asked: dict[int, Message] = {}

    def bind(self, desk: Desk) -> None:
        """Random choices use a seeded generator, so that a simulated run can be replayed."""
        super().bind(desk)
        self.random = seeded_random(desk)

    def post_apply(self, seat: Seat, work: Work, cost_ns: int) -> None:
        """After each run: ask a random worker about each message that would be late, once per message."""
        pending = {message.ticket for message in self.asked.values()}
        for message in self.desk.late(seat):
            lessor = message.channel.seat
            candidates = self.desk.candidates(lessor)
            if candidates and message.ticket not in pending:
                number = self.desk.request(self.random.choice(candidates), lessor.address, self.desk.waiting())
                self.asked[number] = message

    def on_request(self, sender: str, address: Address, content: int) -> bool:
        """Another worker sends its number of waiting messages; accept if fewer wait here."""
        return self.desk.waiting() < content

    def on_reply(self, sender: str, number: int, content: bool) -> None:
        """If accepted, forward the message; `forward` does nothing if it has run already or a barrier forbids it."""
        message = self.asked.pop(number)
        if content:
            self.desk.forward(message, sender)
