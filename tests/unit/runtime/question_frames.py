"""Strategies for the frames of questions, one for each type (see test_codec.py)."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from stretto.protocol.queries import (
    Ask,
    AskState,
    Held,
    Hold,
    LiveAnswer,
    LivePart,
    Part,
    Piece,
    PiecesCut,
    StatePart,
    TableClosed,
    TableOpened,
    TellTables,
    Waits,
)

counts = st.integers(0, 2**63 - 1)
ints = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
names = st.lists(texts, max_size=3)
content = st.binary(max_size=20)
pieces = st.lists(st.builds(Piece, texts, ints, ints, counts, names), max_size=3)
live = st.lists(st.builds(LivePart, counts, texts, counts), max_size=3)
answers = st.lists(st.builds(LiveAnswer, counts, ints), max_size=3)
maybe_texts = st.none() | texts


def question_frames(failures: st.SearchStrategy[Any]) -> dict[type, st.SearchStrategy[Any]]:
    """Returns a strategy for each type."""
    maybe_failures = st.none() | failures
    return {
        TableOpened: st.builds(TableOpened, texts, texts, counts, counts, counts, maybe_texts, pieces),
        PiecesCut: st.builds(PiecesCut, texts, texts, counts, counts, pieces, names),
        TableClosed: st.builds(TableClosed, texts, texts, counts),
        TellTables: st.builds(TellTables),
        Ask: st.builds(
            Ask,
            counts,
            texts,
            texts,
            texts,
            maybe_texts,
            content,
            st.none() | content,
            ints,
            ints,
            counts,
            maybe_texts,
            live,
            pieces,
            counts,
            st.none() | ints,
        ),
        Waits: st.builds(Waits, counts, st.lists(st.tuples(counts, texts), max_size=3)),
        Part: st.builds(Part, counts, st.none() | content, answers, counts, maybe_failures, maybe_texts),
        Hold: st.builds(Hold, texts, texts, pieces, names),
        Held: st.builds(Held, texts, names, names, names, maybe_texts),
        AskState: st.builds(AskState, counts, texts, maybe_texts),
        StatePart: st.builds(
            StatePart,
            counts,
            st.lists(st.tuples(counts, texts, content), max_size=3),
            counts,
            st.lists(counts, max_size=3),
            st.lists(st.tuples(counts, texts), max_size=3),
            maybe_failures,
        ),
    }
