"""What a caller is told when a request is refused: a status, a code that programs can tell apart, and a text."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any


class Why(Enum):
    """Each has the code in the answer, the status, and what it says in the document of the API.

    An abort is 409: the request was right, the state of the entities does not allow it, and a repetition is answered
    anew. Wrong arguments are 422, since 400 is for what cannot be read at all."""

    MALFORMED = "malformed", 400, "The path, the query or the body cannot be read."
    NO_TOKEN = "no_token", 401, "The token is missing or wrong."
    OTHER_SITE = "other_site", 403, "The request comes from a page of another site."
    NOTHING_HERE = "nothing_here", 404, "The path is not that of a method."
    UNKNOWN_ENTITY = "unknown_entity", 404, "The app has no such class of entities."
    UNKNOWN_METHOD = "unknown_method", 404, "The class has no such method."
    WRONG_VERB = "wrong_verb", 405, "Methods are called by POST, and those that only read also by GET."
    TOO_SLOW = "too_slow", 408, "The request did not arrive in time."
    ABORTED = "aborted", 409, "The method raised an exception. Nothing of the transaction took place."
    NOT_DONE = "not_done", 409, "What was asked for cannot be done, and the text says why. Everything is as it was."
    NO_CLUSTER = "no_cluster", 409, "This is a page without its cluster: it shows a run and answers no questions."
    TOO_LARGE = "too_large", 413, "The body or the arguments are too large."
    NOT_JSON = "not_json", 415, "The body is not declared as application/json."
    OTHER_HOST = "other_host", 421, "The request is for a host that this server is not."
    WRONG_ARGUMENTS = "wrong_arguments", 422, "The arguments do not fit the method."
    WRONG_QUESTION = "wrong_question", 422, "The question cannot be answered; the text says why, and where in it."
    ANSWER_TOO_LARGE = "answer_too_large", 422, "The answer has more rows or bytes than are sent."
    REFUSED = "refused", 422, "The call did not run: its Idempotency-Key belongs to another call."
    BUSY = "busy", 429, "As many calls of the entity as its class allows are under way. The call did not run."
    FAILED = "failed", 500, "The server failed. The call may have taken place."
    UNAVAILABLE = "unavailable", 503, "The app does not answer calls now. The call may have taken place."
    NO_ANSWER = "no_answer", 503, "The cluster does not answer questions now, or is closed."
    UNANSWERED = "unanswered", 504, "The call was not answered in time. It may still take place."

    def __init__(self, code: str, status: int, meaning: str) -> None:
        self.code = code
        self.status = status
        self.meaning = meaning


class Refused(Exception):
    """A request gets this answer. `more` are further fields of the answer."""

    def __init__(
        self, why: Why, text: str, headers: Mapping[str, str] | None = None, more: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(why.code, text)
        self.why = why
        self.text = text
        self.headers = dict(headers or {})
        self.more = dict(more or {})

    def content(self) -> dict[str, Any]:
        """Returns the body of the answer."""
        return {"error": {"code": self.why.code, "text": self.text, **self.more}}
