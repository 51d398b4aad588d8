"""Reads the documents of the project: their fenced blocks, their links, their headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
GUIDES = sorted((ROOT / "docs").glob("*.md"))
DOCUMENTS = [ROOT / "README.md", *GUIDES]

_FENCE = re.compile(r"^```(?P<info>.*)$")
_HEADING = re.compile(r"^#+ (?P<text>.+)$")
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_INLINE = re.compile(r"`(?P<code>[^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block: what stands after its fence, its text, and the line of the document on which the text begins."""

    info: str
    text: str
    line: int

    @property
    def language(self) -> str:
        return self.info.split()[0] if self.info else ""

    @property
    def marks(self) -> list[str]:
        """What follows the language, such as `no-run` or `file=app.py`."""
        return self.info.split()[1:]


def blocks_of(document: Path) -> list[Block]:
    """The fenced blocks in their order."""
    found: list[Block] = []
    opened: tuple[str, int] | None = None
    lines = document.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if opened is None:
            opened = fence["info"].strip(), number
        else:
            info, start = opened
            found.append(Block(info, "\n".join(lines[start : number - 1]) + "\n", start + 1))
            opened = None
    assert opened is None, f"{document.name}: the block of line {opened and opened[1]} is not closed"
    return found


def prose_of(document: Path) -> str:
    """The text without its fenced blocks."""
    kept, is_code = [], False
    for line in document.read_text().splitlines():
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code:
            kept.append(line)
    return "\n".join(kept)


def links_of(document: Path) -> list[str]:
    """The targets of all links."""
    return [link["target"] for link in _LINK.finditer(prose_of(document))]


def inline_code_of(document: Path) -> list[str]:
    """Code inside of sentences and tables."""
    return [code["code"] for code in _INLINE.finditer(prose_of(document))]


def anchors_of(document: Path) -> set[str]:
    """The names by which headings can be linked to, as GitHub makes them."""
    headings = (_HEADING.match(line) for line in prose_of(document).splitlines())
    texts = [heading["text"].lower() for heading in headings if heading]
    return {re.sub(r"[^\w\- ]", "", text).replace(" ", "-") for text in texts}
