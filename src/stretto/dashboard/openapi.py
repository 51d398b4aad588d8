"""The API of the page as an OpenAPI document, and as the list of its paths."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import msgspec

from stretto.dashboard.controls import ACTIONS, Action
from stretto.dashboard.questions import Answered, Question, Tables
from stretto.queries.sent import ARROW
from stretto.serving.refusals import Why

_REF = "#/components/schemas/{name}"
_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}


def document_of(needs_token: bool) -> dict[str, Any]:
    """Returns the OpenAPI document of the page."""
    kinds = [Action, Question, Answered, Tables, *ACTIONS]
    (control, question, answer, tables, *_), schemas = msgspec.json.schema_components(kinds, ref_template=_REF)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "stretto",
            "version": version("stretto"),
            "description": "What happens on a cluster and why. Times are in seconds of Unix, names end in their unit.",
        },
        "paths": {
            "/api/overview": _get("Jobs with their objectives and figures, and workers with their load.", "overview"),
            "/api/jobs/{job}": _get("A job: its functions, edges, causes of congestion, checkpoints.", "job", [_JOB]),
            "/api/jobs/{job}/rows": _get(
                "The figures of a job over time: five minutes by the second, an hour by ten seconds.",
                "rows",
                [_JOB, _query("since", "Only rows after this time.", _NUMBER)],
            ),
            "/api/decisions": _get(
                "Records of decisions, the latest first: trigger, values seen, candidates, choice, effect.",
                "decisions",
                [
                    _query("job", "Only those about this job."),
                    _query("controller", "Only those of this controller."),
                    _query("outcome", "Only those with this outcome."),
                ],
            ),
            "/api/events": _get(
                "Server-sent events `overview`, `job` and `decisions`, as they change.",
                "events",
                [_query("job", "With this job and its rows.")],
                "text/event-stream",
                (Why.BUSY,),
            ),
            "/api/tables": _get("Published tables, and functions whose state can be asked.", "tables", answer=tables),
            "/api/query": {"post": _question(question, answer)},
            "/api/control": {"post": _control(control)},
            "/metrics": _get("Figures for Prometheus.", "metrics", kind="text/plain"),
        },
        "components": {
            "schemas": {**schemas, "Error": _error()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    if needs_token:
        document["security"] = [{"token": []}]
    return document


def _query(name: str, text: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": text, "schema": schema or _TEXT}


_JOB = {"name": "job", "in": "path", "required": True, "schema": _TEXT}


def _get(
    text: str,
    name: str,
    parameters: list[dict[str, Any]] | None = None,
    kind: str = "application/json",
    more: tuple[Why, ...] = (),
    answer: dict[str, Any] | None = None,
) -> dict[str, Any]:
    refused = (Why.MALFORMED, Why.NO_TOKEN, Why.OTHER_SITE, Why.OTHER_HOST, *more)
    refused += (Why.NOTHING_HERE,) if parameters and _JOB in parameters else ()
    schema = {} if answer is None else {"schema": answer}
    return {
        "get": {
            "operationId": name,
            "summary": text,
            "parameters": parameters or [],
            "responses": {"200": {"description": text, "content": {kind: schema}}, **_refusals(refused)},
        }
    }


_ON_POST = (
    *(Why.MALFORMED, Why.NO_TOKEN, Why.OTHER_SITE, Why.OTHER_HOST, Why.TOO_SLOW, Why.TOO_LARGE, Why.NOT_JSON),
    *(Why.WRONG_ARGUMENTS, Why.BUSY, Why.FAILED),
)


def _question(question: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    more = (Why.NO_CLUSTER, Why.WRONG_QUESTION, Why.ANSWER_TOO_LARGE, Why.NO_ANSWER)
    text = "The answer; as an Arrow stream, the metadata `stretto` of its schema has all but columns and rows, as JSON."
    content = {"application/json": {"schema": answer}, ARROW: {}}
    return {
        "operationId": "query",
        "summary": "Answers a SELECT over published tables or over the state of functions. It needs the token.",
        "security": [{"token": []}],
        "requestBody": {"required": True, "content": {"application/json": {"schema": question}}},
        "responses": {"200": {"description": text, "content": content}, **_refusals((*_ON_POST, *more))},
    }


def _control(schema: dict[str, Any]) -> dict[str, Any]:
    done = {"type": "object", "properties": {"done": _TEXT}, "required": ["done"]}
    return {
        "operationId": "control",
        "summary": "Has something changed. The request needs the token, and an Origin header of this server.",
        "security": [{"token": []}],
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {
            "200": {"description": "What has happened.", "content": {"application/json": {"schema": done}}},
            **_refusals((*_ON_POST, Why.NOT_DONE)),
        },
    }


def _refusals(whys: tuple[Why, ...]) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": _REF.format(name="Error")}}}
    meanings: dict[int, list[str]] = {}
    for why in whys:
        meanings.setdefault(why.status, []).append(f"`{why.code}`: {why.meaning}")
    return {str(status): {"description": " ".join(texts), "content": content} for status, texts in meanings.items()}


def _error() -> dict[str, Any]:
    error = {"type": "object", "properties": {"code": _TEXT, "text": _TEXT}, "required": ["code", "text"]}
    return {"type": "object", "properties": {"error": error}, "required": ["error"]}
