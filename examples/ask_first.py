"""A scheduling strategy of one's own: ask another worker before sending it what would start late here.

Name it for a cluster, `Cluster.on_spark(spark, workers=4, strategy="examples.ask_first:AskFirst")`, or for the
functions of one app, `app.spread(lessees=3, strategy="examples.ask_first:AskFirst")`; or try it in virtual time:

stretto simulate barriers --strategy examples.ask_first:AskFirst
"""

from stretto.scheduling import Address, Desk, Message, Seat, Strategy, Work, seeded_random


class AskFirst(Strategy):
    """What would be late here goes to a worker that has less to do, if it says so when it is asked."""

    tracks = True  # So that the worker can tell who would be late.

    def __init__(self) -> None:
        self.asked: dict[int, Message] = {}

    def bind(self, desk: Desk) -> None:
        """Random choices come from a seeded generator, so that a simulated run can be replayed."""
        super().bind(desk)
        self.random = seeded_random(desk)

    def post_apply(self, seat: Seat, work: Work, cost_ns: int) -> None:
        """After each run: ask about each message that would be late, unless it was asked about already."""
        pending = {message.ticket for message in self.asked.values()}
        for message in self.desk.late(seat):
            lessor = message.channel.seat
            candidates = self.desk.candidates(lessor)
            if candidates and message.ticket not in pending:
                number = self.desk.request(self.random.choice(candidates), lessor.address, self.desk.waiting())
                self.asked[number] = message

    def on_request(self, sender: str, address: Address, content: int) -> bool:
        """Another worker tells how many messages wait there: do fewer wait here?"""
        return self.desk.waiting() < content

    def on_reply(self, sender: str, number: int, content: bool) -> None:
        """Send it, if it has not run meanwhile; `forward` knows whether a barrier forbids it."""
        message = self.asked.pop(number)
        if content:
            self.desk.forward(message, sender)
