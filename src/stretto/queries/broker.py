"""Who is asked: the broker knows which worker has which partition and which copies of pieces, and gathers parts.

A question goes to all workers that have something of it, at the same time. Each partition is asked for the rows after
the pieces that the broker knows, and each piece is asked of one worker: the least busy one with a copy, or any, which
then reads it from storage. So every row is in one part. If a worker is lost or slow, its pieces are asked of another
one. If a partition is lost or has moved, the question is asked again as a whole, until its time is over. What cannot
answer then is named with its reason.

It has no clock and no IO: frames and times in, frames and gathered answers out (`sends`, `gathered`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from stretto.actors.address import attempt_of, job_of
from stretto.actors.deadlines import NEVER_NS
from stretto.operators.publishing import TIMELESS_US
from stretto.protocol.jobs import Failure
from stretto.protocol.queries import (
    Ask,
    Held,
    Hold,
    LivePart,
    Part,
    Piece,
    PiecesCut,
    TableClosed,
    TableOpened,
    TellTables,
    Waits,
)
from stretto.queries.answers import GATHERED_BYTES_MAX, Gathered, Missing, Question, too_large
from stretto.queries.moments import how_far_behind, is_behind
from stretto.queries.pruning import EARLIEST_US, Span
from stretto.segments.routing import least_busy

SLOW_NS = 1_000_000_000
"""A worker that has not answered for so long has its pieces asked of another one too."""
AGAIN_NS, AGAIN_NS_MAX = 5_000_000, 100_000_000
"""How long a question waits before it is asked again because somebody has moved, the first time and at most."""


@dataclass
class Home:
    """A partition of a table: where it is, and which pieces it has published up to a version."""

    member: str
    job: str
    version: int
    pieces: dict[str, Piece]


@dataclass
class Known:
    """A table, as its partitions have announced it. `holders` are the workers with a copy of each piece in memory."""

    partitions: int
    directory: str | None
    job: str
    homes: dict[int, Home] = field(default_factory=dict)
    holders: dict[str, set[str]] = field(default_factory=dict)

    @property
    def pieces(self) -> dict[str, Piece]:
        return {name: piece for home in self.homes.values() for name, piece in home.pieces.items()}


@dataclass
class Sent:
    """What one worker was asked for, and when."""

    member: str
    live: list[LivePart]
    pieces: list[Piece]
    at_ns: int
    doubled: bool = False
    """Whether its pieces were asked of others too, since it is slow."""
    instead_of: int | None = None
    """The number of the slow one in whose place it was asked."""
    waits: dict[int, str] = field(default_factory=dict)
    """The partitions that it waits for, as it has said, with their reasons."""


@dataclass
class Asking:
    """A question under way."""

    question: Question
    deadline_ns: int
    again_ns: int = AGAIN_NS
    waits_until_ns: int | None = None
    """When it is asked again; None while workers are asked."""
    reason: str = "nobody has it"
    sent: dict[int, Sent] = field(default_factory=dict)
    done: dict[int, Sent] = field(default_factory=dict)
    """Those that have answered: their answers are in `parts`."""
    parts: dict[int, Part] = field(default_factory=dict)
    as_of_us: dict[int, int] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    @property
    def gathered_bytes(self) -> int:
        """How long all parts are that are here."""
        return sum(len(part.part) for part in self.parts.values() if part.part is not None)


class Broker:
    """The tables and the questions of one cluster. `workers` are the members that can be asked."""

    def __init__(self, bytes_max: int = GATHERED_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self.tables: dict[str, Known] = {}
        self.workers: set[str] = set()
        self.sends: list[tuple[str, Ask | Hold | TellTables]] = []
        self.gathered: list[Gathered] = []
        self.counted: Counter[tuple[str, str]] = Counter()
        """How often pieces were asked for, by table and name, since somebody last looked."""
        self._askings: list[Asking] = []
        self._by_number: dict[int, Asking] = {}
        self._load: Counter[str] = Counter()
        """The bytes that each worker has before it."""
        self._made = 0

    # What workers have.

    def opened(self, sender: str, frame: TableOpened) -> None:
        """A partition is on a worker; one of an earlier run of the job counts no more."""
        known = self.tables.get(frame.table)
        if known is None or is_later(frame.job, known.job):
            if known is not None:
                self._drop_copies(frame.table, known)
            known = self.tables[frame.table] = Known(frame.partitions, frame.directory, frame.job)
        if frame.job != known.job:
            return
        pieces = {piece.name: piece for piece in frame.pieces}
        known.homes[frame.partition] = Home(sender, frame.job, frame.version, pieces)

    def _drop_copies(self, table: str, known: Known) -> None:
        """Frees the copies of an earlier run: who holds what is decided again."""
        for member in sorted(self.workers):
            names = sorted(name for name, holders in known.holders.items() if member in holders)
            if names and known.directory is not None:
                self.sends.append((member, Hold(table, known.directory, [], names)))

    def cut(self, sender: str, frame: PiecesCut) -> None:
        """A partition has published pieces, of which the sender has the rows."""
        known = self.tables.get(frame.table)
        home = None if known is None else known.homes.get(frame.partition)
        if known is None or home is None or home.member != sender or home.job != frame.job:
            return
        home.version = frame.version
        for piece in frame.pieces:
            home.pieces[piece.name] = piece
            known.holders.setdefault(piece.name, set()).add(sender)
        for name in frame.gone:
            home.pieces.pop(name, None)
            known.holders.pop(name, None)

    def closed(self, sender: str, frame: TableClosed) -> None:
        """A partition is on a worker no more."""
        known = self.tables.get(frame.table)
        home = None if known is None else known.homes.get(frame.partition)
        if known is not None and home is not None and home.member == sender and home.job == frame.job:
            del known.homes[frame.partition]

    def held(self, sender: str, frame: Held) -> None:
        """A worker has other copies now."""
        known = self.tables.get(frame.table)
        if known is None:
            return
        for name in frame.loaded:
            known.holders.setdefault(name, set()).add(sender)
        for name in (*frame.dropped, *frame.failed):
            known.holders.get(name, set()).discard(sender)

    def members(self, workers: Collection[str], now_ns: int) -> None:
        """These workers are there now."""
        lost = self.workers - set(workers)
        self.workers = set(workers)
        for member in sorted(lost):
            self._load.pop(member, None)
            for known in self.tables.values():
                for holders in known.holders.values():
                    holders.discard(member)
                for partition in [each for each, home in known.homes.items() if home.member == member]:
                    del known.homes[partition]
        for asking in list(self._askings):
            for number in [number for number, sent in asking.sent.items() if sent.member in lost]:
                if number in asking.sent:  # What was lost before may have had all of it asked again.
                    self._lost(asking, number, f"worker {asking.sent[number].member} was lost", now_ns)

    # Questions.

    def ask(self, question: Question, now_ns: int) -> None:
        """Begins with a question."""
        asking = Asking(question, now_ns + question.within_ns)
        self._askings.append(asking)
        self._begin(asking, now_ns)

    def _begin(self, asking: Asking, now_ns: int) -> None:
        """Asks all workers that have something of it."""
        self._forget(asking)
        question = asking.question
        known = self.tables.get(question.table.table)
        if known is None or len(known.homes) < known.partitions:
            self.sends += [(member, TellTables()) for member in sorted(self.workers)]
            self._again(asking, "no worker has it now", now_ns)
            return
        span = Span(question.first_us, question.last_us)
        live: dict[str, list[LivePart]] = {}
        for partition, home in sorted(known.homes.items()):
            live.setdefault(home.member, []).append(LivePart(partition, home.job, home.version))
        wanted = [piece for _, piece in sorted(known.pieces.items()) if meets(span, piece)]
        for piece in wanted:
            self.counted[question.table.table, piece.name] += 1
        pieces = self._placed(known, wanted, frozenset())
        if pieces is None:
            self._again(asking, "there is no worker", now_ns)
            return
        for member in sorted(live.keys() | pieces.keys()):
            self._send(asking, known, Sent(member, live.get(member, []), pieces.get(member, []), now_ns), now_ns)

    def _placed(self, known: Known, pieces: Iterable[Piece], without: frozenset[str]) -> dict[str, list[Piece]] | None:
        """Returns who is asked for which pieces; None if there is nobody. Pieces without a copy are read from
        storage."""
        found: dict[str, list[Piece]] = {}
        load = dict(self._load)
        for piece in pieces:
            holders = (known.holders.get(piece.name, set()) & self.workers) - without
            member = least_busy(holders or self.workers - without or self.workers, load, {})
            if member is None:
                return None
            found.setdefault(member, []).append(piece)
            load[member] = load.get(member, 0) + piece.size
        return found

    def _send(self, asking: Asking, known: Known, sent: Sent, now_ns: int) -> None:
        self._made += 1
        question = asking.question
        asking.sent[self._made] = sent
        asking.asked.add(sent.member)
        asking.waits_until_ns = None
        self._by_number[self._made] = asking
        self._load[sent.member] += sum(piece.size for piece in sent.pieces)
        self.sends.append(
            (
                sent.member,
                Ask(
                    self._made,
                    question.table.table,
                    question.text,
                    question.zone,
                    question.table.time,
                    question.schema,
                    question.small,
                    question.first_us,
                    question.last_us,
                    question.table.segment_us,
                    known.directory,
                    sent.live,
                    sent.pieces,
                    max(1, asking.deadline_ns - now_ns),
                    question.at_least_us,
                ),
            )
        )

    def answered(self, sender: str, part: Part, now_ns: int) -> None:
        """A part of an answer has come; one that nobody waits for any more does not matter."""
        asking = self._by_number.get(part.number)
        if asking is None or part.number not in asking.sent or asking.sent[part.number].member != sender:
            return
        if part.stale is not None:
            self._lost(asking, part.number, part.stale, now_ns)
            return
        if part.failure is not None:
            self._finish(asking, part.failure)
            return
        sent = asking.sent.pop(part.number)
        self._settle(part.number, sent)
        asking.parts[part.number], asking.done[part.number] = part, sent
        for each in part.live:
            asking.as_of_us[each.partition] = each.watermark_us
        # Of a slow worker and of those who were asked in its place, one side counts.
        self._drop_instead_of(asking, part.number)
        if sent.instead_of is not None:
            self._in_place(asking, sent.instead_of)
        if asking.gathered_bytes > self._bytes_max:
            self._finish(asking, too_large(asking.gathered_bytes, self._bytes_max))
        elif not asking.sent:
            self._complete(asking, now_ns)

    def waits(self, sender: str, frame: Waits) -> None:
        """A worker waits for partitions before it answers."""
        asking = self._by_number.get(frame.number)
        sent = None if asking is None else asking.sent.get(frame.number)
        if sent is not None and sent.member == sender:
            sent.waits = dict(frame.partitions)

    def _drop_instead_of(self, asking: Asking, slow: int) -> None:
        """Those that were asked in the place of a slow worker do not count."""
        for number in [number for number, other in asking.sent.items() if other.instead_of == slow]:
            self._settle(number, asking.sent.pop(number))
        for number in [number for number, other in asking.done.items() if other.instead_of == slow]:
            del asking.done[number], asking.parts[number]

    def _in_place(self, asking: Asking, slow: int) -> None:
        """One that was asked in the place of a slow worker has answered: the slow one is not needed when all have."""
        if any(other.instead_of == slow for other in asking.sent.values()):
            return
        sent = asking.sent.pop(slow, None)
        if sent is not None:
            self._settle(slow, sent)

    def _complete(self, asking: Asking, now_ns: int) -> None:
        least = asking.question.at_least_us
        behind = sorted(each for each, us in asking.as_of_us.items() if is_behind(us, least))
        if least is None or not behind:
            self._finish(asking, None)
            return
        self._again(asking, f"partition {behind[0]}: {how_far_behind(asking.as_of_us[behind[0]], least)}", now_ns)

    def _lost(self, asking: Asking, number: int, reason: str, now_ns: int) -> None:
        """A worker will not answer. What it has copies of, others are asked for."""
        sent = asking.sent.pop(number)
        self._settle(number, sent)
        known = self.tables.get(asking.question.table.table)
        if sent.instead_of is not None and sent.instead_of in asking.sent:
            self._drop_instead_of(asking, sent.instead_of)
            asking.sent[sent.instead_of].doubled = False  # It may still answer, or others may be asked again.
            return
        if sent.doubled and any(other.instead_of == number for other in (*asking.sent.values(), *asking.done.values())):
            return  # Others have been asked for all that it was.
        if sent.live or known is None:
            self._again(asking, reason, now_ns)
            return
        asking.reason = reason
        current = known.pieces
        if any(piece.name not in current for piece in sent.pieces):
            self._again(asking, reason, now_ns)  # It has expired meanwhile.
            return
        pieces = self._placed(known, sent.pieces, frozenset((sent.member,)))
        if pieces is None or now_ns >= asking.deadline_ns or sent.member in self.workers:
            self._again(asking, reason, now_ns)
            return
        for member, part in sorted(pieces.items()):
            self._send(asking, known, Sent(member, [], part, now_ns), now_ns)

    def _again(self, asking: Asking, reason: str, now_ns: int) -> None:
        """Asks the whole question again a little later."""
        self._forget(asking)
        asking.reason = reason
        asking.waits_until_ns = now_ns + asking.again_ns
        asking.again_ns = min(2 * asking.again_ns, AGAIN_NS_MAX)

    def _forget(self, asking: Asking) -> None:
        for number, sent in asking.sent.items():
            self._settle(number, sent)
        asking.sent, asking.done, asking.parts, asking.as_of_us = {}, {}, {}, {}

    def _settle(self, number: int, sent: Sent) -> None:
        self._by_number.pop(number, None)
        if sent.member in self._load:
            self._load[sent.member] -= sum(piece.size for piece in sent.pieces)

    # Time.

    @property
    def due_ns(self) -> int:
        """When it wants to be woken."""
        found = NEVER_NS
        for asking in self._askings:
            found = min(found, asking.deadline_ns)
            if asking.waits_until_ns is not None:
                found = min(found, asking.waits_until_ns)
            for sent in asking.sent.values():
                if self._may_double(sent):
                    found = min(found, sent.at_ns + SLOW_NS)
        return found

    def _may_double(self, sent: Sent) -> bool:
        return bool(sent.pieces) and not sent.live and not sent.doubled and sent.instead_of is None

    def tick(self, now_ns: int) -> None:
        """Time has passed."""
        for asking in list(self._askings):
            if now_ns >= asking.deadline_ns:
                self._out_of_time(asking)
            elif asking.waits_until_ns is not None and now_ns >= asking.waits_until_ns:
                self._begin(asking, now_ns)
            else:
                self._double_slow(asking, now_ns)

    def _double_slow(self, asking: Asking, now_ns: int) -> None:
        known = self.tables.get(asking.question.table.table)
        for number, sent in list(asking.sent.items()):
            if known is None or not self._may_double(sent) or now_ns < sent.at_ns + SLOW_NS:
                continue
            sent.doubled = True
            others = self.workers - {sent.member}
            pieces = self._placed(known, sent.pieces, frozenset((sent.member,))) if others else None
            for member, part in sorted((pieces or {}).items()):
                self._send(asking, known, Sent(member, [], part, now_ns, instead_of=number), now_ns)

    def _out_of_time(self, asking: Asking) -> None:
        """The time of a question is over. What has answered is in the answer, and what has not is named."""
        question = asking.question
        known = self.tables.get(question.table.table)
        if asking.sent and known is not None:
            missing = [each for sent in asking.sent.values() for each in _missing(sent)]
        else:
            count = known.partitions if known is not None else 0
            here = known.homes if known is not None else {}
            gone = [each for each in range(count) if each not in here] or list(range(count))
            missing = [Missing(f"partition {each}", asking.reason) for each in gone]
            missing = missing or [Missing(f"table {question.table.table}", asking.reason)]
        self._finish(asking, None, missing)

    def _finish(self, asking: Asking, failure: Failure | None, missing: Iterable[Missing] = ()) -> None:
        self._askings.remove(asking)
        parts, as_of_us = {} if failure is not None else asking.parts, asking.as_of_us
        for number, sent in asking.sent.items():
            self._settle(number, sent)
        least = min(as_of_us.values(), default=TIMELESS_US)
        self.gathered.append(
            Gathered(
                asking.question.ticket,
                tuple(part.part for part in parts.values() if part.part is not None),
                tuple(missing),
                None if least == TIMELESS_US else least,
                sum(part.rows for part in parts.values()),
                len(asking.asked),
                failure,
            )
        )


def meets(span: Span, piece: Piece) -> bool:
    """Whether a piece may have rows that a question is about."""
    return span == Span() if piece.start_us == EARLIEST_US else span.meets(piece.start_us, piece.end_us)


def is_later(job: str, than: str) -> bool:
    """Whether a run of a job is a later one than another, or of another job."""
    return job_of(job) != job_of(than) or attempt_of(job) > attempt_of(than)


def _missing(sent: Sent) -> list[Missing]:
    """Returns what a worker was asked for and has not answered. What others wait for comes first."""
    reason = f"worker {sent.member} has not answered in time"
    if sent.waits:
        reason = f"worker {sent.member} waits for partition {min(sent.waits)}"
    awaited = [Missing(f"partition {partition}", why) for partition, why in sorted(sent.waits.items())]
    others = [f"partition {part.partition}" for part in sent.live if part.partition not in sent.waits]
    others += [f"segment {piece.name}" for piece in sent.pieces]
    return [*awaited, *(Missing(what, reason) for what in others)]
