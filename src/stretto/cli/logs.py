"""Logs as JSON: an object on each line, for programs that read them."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, TextIO

from stretto.rendering import sendable

OWN = "stretto"


class JsonFormatter(logging.Formatter):
    """Renders a record as an object: `time`, `level`, `logger`, `thread`, `message`; `exception` where there is one,
    and what was given as `extra={"fields": {...}}`, such as a decision."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "thread": record.threadName,
            "message": sendable(record.getMessage()),
        }
        if record.exc_info:
            line["exception"] = sendable(self.formatException(record.exc_info))
        line.update(getattr(record, "fields", {}))
        return json.dumps(line, default=str)


def log_as_json(out: TextIO) -> None:
    """Has everything that this package logs from now on written so, from the level of information on; of others,
    warnings."""
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(OWN).setLevel(logging.INFO)
