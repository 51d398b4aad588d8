"""Idempotency keys of callers: the first call under a key runs, and all others get its reply.

A key belongs to the whole job. It has a worker by its own hash, and that one logs and begins the calls under it,
wherever their entities are: so two calls under one key always meet, also those of different clients, drivers and
entities. Whether a call is the first one is decided before it is logged, so a replay decides nothing again.

A key is kept for a time that begins when its call arrives. It may come again later than that, as another call.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b

import msgspec

from stretto.errors import UserError
from stretto.protocol.transactions import Origin, Reply, Request
from stretto.transactions.catalog import Catalog
from stretto.transactions.changes import Changes
from stretto.transactions.log import Logged

DAY_US = 86_400_000_000
KEPT_US = DAY_US
"""How long keys are kept, if the app does not say."""
KEYS_MAX = 1_000_000
"""The most keys that a worker keeps."""
WAITING_MAX = 100
"""The most calls that wait for the reply of the first one under their key. A client sends what is dropped again."""
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


class KeptKey(msgspec.Struct, array_like=True):
    """A key, and the first call under it: what it was, whose, when it arrived, and its reply if it is there."""

    key: str
    title: str
    fingerprint: bytes
    client: str
    number: int
    at_us: int
    reply: Reply | None = None


class Keys:
    """The idempotency keys of one worker."""

    def __init__(self, catalog: Catalog, kept_us: int, kept: Iterable[KeptKey] = ()) -> None:
        self._catalog = catalog
        self._kept_us = kept_us
        self._keys = {each.key: each for each in sorted(kept, key=lambda each: each.at_us)}
        """In the order in which their calls arrived."""
        self.changes: Changes[str] = Changes()
        self._unwritten: set[str | None] = set()
        """Those of calls that are not durable yet."""
        self.waiting: dict[str, list[Origin]] = {}
        """Calls that get the reply of the first one under their key, when it is there."""

    def __len__(self) -> int:
        return len(self._keys)

    # Calls that arrive.

    def is_new(self, request: Request, now_us: int) -> bool:
        """Returns whether a call is the first one under its key. Raises a UserError if it is another one than the
        first, or there is no room for its key. As long as a crash could still undo that a call is the first one, no
        other one is refused for it."""
        self._forget(now_us)
        key = self._name(request)
        assert key is not None
        known = self._known(key, now_us)
        if known is None:
            if len(self._keys) >= KEYS_MAX:
                raise UserError(
                    "there are too many idempotency keys",
                    f"{KEYS_MAX:,} are kept, each for {self._kept_us / 1e6:g} s",
                    "Keep them for a shorter time: App(..., keep_keys=...).",
                )
            return True
        if key not in self._unwritten and not self._is_same(known, request):
            raise UserError(
                f"another call has the idempotency key '{request.key}'",
                f"it was {known.title}, and this is {_title(request)}"
                if known.title != _title(request)
                else f"it was {known.title} with other arguments",
                "Use a key for one call only, and the same arguments when it is repeated.",
            )
        return False

    def reply(self, origin: Origin, request: Request) -> Reply | None:
        """Returns the reply of a call that is not the first one under its key. If that is not there yet, the call gets
        it when it is; if it is another one than the first, its client sends it again."""
        key = self._name(request)
        assert key is not None
        known = self._keys[key]
        if not self._is_same(known, request):
            return None
        if known.reply is not None:
            return _addressed(known.reply, origin)
        waiting = self.waiting.setdefault(key, [])
        if origin not in waiting and len(waiting) < WAITING_MAX:
            waiting.append(origin)
        return None

    # The first calls.

    def logged(self, call: Logged) -> None:
        """A call is in the log, and so the first one under its key."""
        key, origin = self._name(call.request), call.origin
        if key is not None:
            self._keys.pop(key, None)  # One that was kept for long enough. The new one is the last.
            self._keys[key] = KeptKey(
                key, _title(call.request), self._fingerprint(call.request), origin.client, origin.number, call.at_us
            )
            self.changes.add(key)
            self._unwritten.add(key)

    def written(self, call: Logged) -> None:
        """A call in the log is durable."""
        if call.is_refused:
            return
        self._unwritten.discard(self._name(call.request))

    def replied(self, request: Request, reply: Reply) -> list[Reply]:
        """A call has its reply. Returns those for the calls that have waited for it."""
        key = self._name(request)
        if key is None:
            return []
        known = self._keys.get(key)
        if known is None or (known.client, known.number) != (reply.client, reply.number):
            return []  # The key has been forgotten since, and used again perhaps.
        known.reply = reply
        self.changes.add(key)
        return [_addressed(reply, origin) for origin in self.waiting.pop(key, ())]

    # Snapshots.

    def kept(self, is_whole: bool, now_us: int) -> list[KeptKey]:
        """Returns what a snapshot keeps: all keys, or those that have changed since the last one."""
        self._forget(now_us)
        names = self._keys.keys() if is_whole else self.changes.unsaved & self._keys.keys()
        found = [self._keys[name] for name in sorted(names)]
        self.changes.saved()
        return found

    # Copies (see moving.py).

    def names(self) -> list[str]:
        return list(self._keys)

    def get(self, name: str) -> KeptKey | None:
        return self._keys.get(name)

    def put(self, name: str, kept: KeptKey | None) -> None:
        """Takes a key from a copy; None: it was forgotten since."""
        known = self._keys.get(name)
        if known is not None and (kept is None or kept.at_us != known.at_us):
            del self._keys[name]  # Used again: it is the last one now.
        if kept is not None:
            self._keys[name] = kept

    # Forgetting.

    def _known(self, key: str, now_us: int) -> KeptKey | None:
        known = self._keys.get(key)
        return None if known is None or self._is_over(known, now_us) else known

    def _forget(self, now_us: int) -> None:
        while self._keys:
            oldest = next(iter(self._keys.values()))
            if not self._is_over(oldest, now_us):
                return
            del self._keys[oldest.key]

    def _is_over(self, known: KeptKey, now_us: int) -> bool:
        """Whether a key has been kept for long enough. One whose call has no reply is still needed."""
        return known.reply is not None and known.at_us + self._kept_us <= now_us

    def _name(self, request: Request) -> str | None:
        """Returns the key of a call, as it is kept here."""
        if request.key is None or not self._catalog.has_limit(request.entity):
            return request.key
        return f"{request.entity}\0{request.key}"

    def _is_same(self, known: KeptKey, request: Request) -> bool:
        return known.fingerprint == self._fingerprint(request)

    def _fingerprint(self, request: Request) -> bytes:
        """Returns what is the same for calls that want the same, however their arguments were written."""
        arguments: object = request.arguments
        with suppress(UserError):  # The log may have a call that the app does not know any more.
            arguments = self._catalog.kind(request.entity.kind).method(request.method).decode(request.arguments)
        what = _ENCODER.encode([request.entity, request.method, arguments, request.after_us])
        return blake2b(what, digest_size=16).digest()


def _title(request: Request) -> str:
    return f"{request.entity}.{request.method}"


def _addressed(reply: Reply, origin: Origin) -> Reply:
    return Reply(origin.client, origin.number, reply.value, reply.failure, reply.place, reply.epoch)
