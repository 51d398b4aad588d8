"""The documents agree with the project: links resolve, commands parse, every command is documented."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from tests.markdown import DOCUMENTS, GUIDES, ROOT, anchors_of, blocks_of, inline_code_of, links_of
from typer.core import TyperCommand, TyperGroup

from stretto.cli.program import program

CHAPTERS = sorted((ROOT / "docs" / "design").glob("*.md"))
LINKED = [*DOCUMENTS, ROOT / "ARCHITECTURE.md", *CHAPTERS, ROOT / "src" / "stretto" / "bench" / "README.md"]
COMMAND = typer.main.get_command(program)
USAGE_ERROR = typer.BadParameter.__base__
"""The exception for a command line that cannot be parsed; typer does not export it."""
_REDIRECTION = re.compile(r"\s>>?\s.*")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def shown_commands(document: Path) -> list[str]:
    """Returns the `stretto` command lines of a document's blocks."""
    lines = [
        line.strip().removeprefix("$ ")
        for block in blocks_of(document)
        if block.language in ("", "sh", "console")
        for line in block.text.replace("\\\n", " ").splitlines()
    ]
    return [_REDIRECTION.sub("", line.split(" #")[0]).strip() for line in lines if line.startswith("stretto ")]


def leaf(arguments: list[str]) -> tuple[TyperCommand | TyperGroup, str, list[str]]:
    """Returns the command that a line names, its full name, and its arguments."""
    command, names, left = COMMAND, [], list(arguments)
    while isinstance(command, TyperGroup) and left and not left[0].startswith("-"):
        found = command.commands.get(left[0])
        assert found is not None, f"there is no command {' '.join([*names, left[0]])!r}"
        command, names, left = found, [*names, left[0]], left[1:]
    return command, " ".join(names), left


def parse(line: str) -> None:
    """Parse a command line without running it; raises a usage error if it is wrong."""
    command, name, arguments = leaf(shlex.split(line)[1:])
    if not isinstance(command, TyperGroup):
        command.make_context(name, arguments)


def leaves(command: TyperCommand | TyperGroup, *names: str) -> Iterator[str]:
    if not isinstance(command, TyperGroup):
        yield " ".join(names)
        return
    for name, each in command.commands.items():
        yield from leaves(each, *names, name)


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_commands_in_blocks_parse(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in shown_commands(document):
        for name in shlex.split(line):
            if name.endswith(".json"):
                Path(name).touch()  # `bench report` needs existing files.
        try:
            parse(line)
        except USAGE_ERROR as error:
            pytest.fail(f"{relative(document)}: {line}: {error.format_message()}")


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_commands_in_sentences_exist_and_have_the_options(document: Path) -> None:
    for code in inline_code_of(document):
        if not code.startswith("stretto "):
            continue
        try:
            parse(code)
        except USAGE_ERROR as error:
            # A command may be named without its arguments.
            if "Missing argument" not in error.format_message():
                pytest.fail(f"{relative(document)}: {code}: {error.format_message()}")


def test_a_wrong_option_and_a_wrong_command_are_noticed() -> None:
    with pytest.raises(USAGE_ERROR, match="--worker"):
        parse("stretto run examples.highest_bid:app --worker 2")
    with pytest.raises(AssertionError, match="no command 'bench speed'"):
        parse("stretto bench speed")


def test_every_command_is_shown_in_a_document() -> None:
    shown = {leaf(shlex.split(line)[1:])[1] for document in DOCUMENTS for line in shown_commands(document)}
    assert sorted(set(leaves(COMMAND)) - shown) == []


@pytest.mark.parametrize("document", LINKED, ids=relative)
def test_links_resolve(document: Path) -> None:
    for target in links_of(document):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        linked = (document.parent / path).resolve() if path else document
        assert linked.exists(), f"{relative(document)}: {target} is not there"
        if anchor:
            assert anchor in anchors_of(linked), f"{relative(document)}: {target} has no such heading"


def test_the_index_has_every_guide() -> None:
    index = ROOT / "docs" / "README.md"
    assert {guide.name for guide in GUIDES if guide != index} <= {link.partition("#")[0] for link in links_of(index)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_code_that_is_not_run_says_why(document: Path) -> None:
    blocks = [block for block in blocks_of(document) if "no-run" in block.marks]
    assert all(block.text.startswith("# Not run") for block in blocks)
    assert len(blocks) <= 1, f"{relative(document)}: make them runnable"
