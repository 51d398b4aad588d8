"""Logs as JSON: an object on each line, whatever is logged."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from stretto.cli.logs import OWN, JsonFormatter, log_as_json


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    root, own = logging.getLogger(), logging.getLogger(OWN)
    before = root.handlers[:], root.level, own.level
    written = io.StringIO()
    log_as_json(written)
    yield written
    root.handlers[:], root.level = before[0], before[1]
    own.setLevel(before[2])


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_is_an_object_with_the_moment_and_the_text(out: io.StringIO) -> None:
    logging.getLogger("stretto.cluster").warning("worker %s ended:\n%s", "w0~1", 'with "quotes"')
    (line,) = lines(out)
    assert line["message"] == 'worker w0~1 ended:\nwith "quotes"'
    assert (line["level"], line["logger"]) == ("warning", "stretto.cluster")
    assert line["time"].endswith("Z")


def test_an_exception_and_fields_are_in_the_object(out: io.StringIO) -> None:
    try:
        raise ValueError("no such price")
    except ValueError:
        logging.getLogger("stretto.x").exception("it failed", extra={"fields": {"decision": {"number": 3}}})
    (line,) = lines(out)
    assert line["exception"].endswith("ValueError: no such price")
    assert line["decision"] == {"number": 3}


def test_information_is_logged_of_this_package_alone(out: io.StringIO) -> None:
    logging.getLogger("stretto.page").info("ours")
    logging.getLogger("somebody").info("theirs")
    logging.getLogger("somebody").warning("theirs, and it matters")
    assert [line["message"] for line in lines(out)] == ["ours", "theirs, and it matters"]


def test_a_text_without_an_encoding_is_logged_too() -> None:
    # Not logged: what pytest catches of it could not be sent from one of its processes to the other.
    record = logging.makeLogRecord({"msg": "\ud800"})
    assert json.loads(JsonFormatter().format(record))["message"] == "\\ud800"
