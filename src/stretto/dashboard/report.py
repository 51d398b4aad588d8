"""The page of a run that has ended, as one file: the same scripts and views, with what was kept inside.

It is opened from disk and asks for nothing: its policy forbids every connection, and allows just the scripts that are
in it, by their digests. What users have named stands in a block of JSON, in which no text can end the block.
"""

from __future__ import annotations

import base64
import re
from hashlib import sha256
from html import escape
from pathlib import Path

import msgspec

from stretto.dashboard.assets import ORDER, STYLES, asset, page_text
from stretto.dashboard.history import History
from stretto.dashboard.views import report_view
from stretto.errors import StorageError

_LINKS = re.compile(r"<(?:script|link)[^>]*/assets/[^>]*>(?:</script>)?\s*")


def report_text(history: History, title: str, clock: str = "unix") -> str:
    """Returns the file of a run. `clock` is `unix`, or `run` where times count from the beginning of the run."""
    scripts = [asset(name)[0] for name in ORDER]
    styles = [asset(name)[0] for name in STYLES]
    data = msgspec.json.encode(report_view(history, title, clock)).decode()
    # A `</script>` or `<!--` in a text would end or change the block; in JSON, an escape says the same.
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_digest, scripts))}; "
        f"style-src {' '.join(map(_digest, styles))}; img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = [
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        *(f"<style>{text}</style>" for text in styles),
    ]
    body = [
        f'<script type="application/json" id="recorded">{data}</script>',
        *(f"<script>{text}</script>" for text in scripts),
    ]
    text = _LINKS.sub("", page_text())
    text = text.replace("<!-- head -->", "\n".join(head)).replace(
        "<title>stretto</title>", f"<title>{escape(title)}</title>"
    )
    return text.replace("<!-- body -->", "\n".join(body))


def write_report(path: str, history: History, title: str, clock: str = "unix") -> None:
    """Writes the file of a run."""
    try:
        Path(path).write_text(report_text(history, title, clock), "utf-8")
    except OSError as error:
        raise StorageError(f"the report cannot be written to {path}", str(error), "Choose another file.") from error


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"
