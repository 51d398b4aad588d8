"""The libraries of others are those that the table says, with their licences, and nothing else is there."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

from stretto.dashboard import assets

VENDOR = Path(assets.__file__).parent / "vendor"


def test_every_library_is_unchanged_and_has_its_licence() -> None:
    rows = re.findall(
        r"^\| (\S+) \| (\S+) \| (\S+) \| .* \| ([0-9a-f]{64}) \|$", (VENDOR / "README.md").read_text(), re.M
    )
    listed = {name: digest for name, _, _, digest in rows}
    files = {path.name for path in VENDOR.iterdir() if path.suffix in (".js", ".css")}
    assert listed.keys() == files
    for name, digest in listed.items():
        assert sha256((VENDOR / name).read_bytes()).hexdigest() == digest
    for licence in re.findall(r"\]\((\S+LICENSE)\)", (VENDOR / "README.md").read_text()):
        assert len((VENDOR / licence).read_text()) > 500


def test_our_scripts_load_nothing_and_make_no_html_of_texts() -> None:
    for path in Path(assets.__file__).parent.glob("*.js"):
        text = path.read_text()
        assert (
            re.findall(r"https?://|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function", text) == []
        )
        assert "dangerouslySetInnerHTML" not in text
