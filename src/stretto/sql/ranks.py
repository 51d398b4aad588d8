"""Reads ranks: ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...), as an item and in QUALIFY; and bounds on them."""

from __future__ import annotations

from itertools import pairwise

from stretto.sql.cursor import Cursor
from stretto.sql.script import Piece, Script
from stretto.sql.tree import RankBound, Ranked
from stretto.sql.words import Word, words_of

FUNCTIONS = {"ROW_NUMBER": "row_number", "RANK": "rank", "DENSE_RANK": "dense_rank"}
RANK = "__rank"
"""The name of a rank that has none."""
_FIX = "Only ROW_NUMBER(), RANK() and DENSE_RANK() with a bound, as in QUALIFY ROW_NUMBER() OVER (...) <= 10. " + (
    "For others, aggregate in a window and join with the result."
)


def read_ranked(script: Script, piece: Piece) -> tuple[Ranked, str | None] | None:
    """Returns the rank that an item is, and its alias; None for an ordinary expression."""
    words = _words(piece)
    over = _over(words)
    if over is None:
        return None
    cursor = Cursor(script, words)
    ranked = _ranked(cursor)
    alias = cursor.alias()
    if not cursor.ended:
        raise cursor.unexpected("the end of the rank", "Compute with a rank in a query around this one.")
    return ranked, alias


def rank_bound(script: Script, piece: Piece) -> RankBound | None:
    """Returns a condition with a rank that is written out, with a name in its place; None if there is no such rank."""
    words = _words(piece)
    over = _over(words)
    if over is None:
        return None
    # The call begins three words before OVER: name ( ).
    begin = max(over - 3, 0)
    cursor = Cursor(script, words[begin:])
    ranked = _ranked(cursor)
    offset = piece.start
    first, last = words[begin].start - offset, _end(words, over) - offset
    condition = f"{piece.text[:first]}{RANK}{piece.text[last:]}"
    if _over(_words(Piece(condition, offset))) is not None:
        raise script.error(piece.start, "two ranks in one QUALIFY are not supported", "Rank twice, in two queries.")
    return RankBound(ranked, Piece(condition, offset), RANK)


def _words(piece: Piece) -> list[Word]:
    """Returns the words of a piece, at their places in the script."""
    moved = piece.start
    return [Word(w.kind, w.text, w.start + moved, w.end + moved) for w in words_of(Script(piece.text))]


def _over(words: list[Word]) -> int | None:
    """Returns the place of OVER before a parenthesis."""
    pairs = enumerate(pairwise(words))
    return next((place for place, (word, after) in pairs if word.key == "OVER" and after.key == "("), None)


def _end(words: list[Word], over: int) -> int:
    depth = 0
    for word in words[over + 1 :]:
        depth += (word.key == "(") - (word.key == ")")
        if not depth:
            return word.end
    return words[-1].end


def _ranked(cursor: Cursor) -> Ranked:
    start = cursor.start
    function = next((name for name in FUNCTIONS if cursor.at(name, "(", ")", "OVER")), None)
    if function is None:
        raise cursor.script.error(start, "this function with OVER is not supported", _FIX)
    cursor.accept(function, "(", ")", "OVER")
    cursor.expect("(")
    keys: list[Piece] = []
    if cursor.accept("PARTITION", "BY"):
        keys = cursor.expressions("a column", ("ORDER", "ROWS", "RANGE"))
    cursor.expect("ORDER", "BY", fix="A rank needs an order: OVER (PARTITION BY k ORDER BY x DESC).")
    orders = cursor.expressions("a column", ("ROWS", "RANGE"))
    if cursor.at_any(("ROWS", "RANGE")):
        raise cursor.script.error(cursor.start, "a frame of rows is not supported", "A rank has none: leave it out.")
    cursor.expect(")")
    return Ranked(FUNCTIONS[function], tuple(keys), tuple(orders), start)
