"""Texts of errors, values and rows: whatever a user's code has made of them, there is a text, and it can be sent."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stretto.rendering import (
    MESSAGE_CHARS_MAX,
    ROWS_CHARS_MAX,
    VALUE_CHARS_MAX,
    error_text,
    message_of,
    rows_shown,
    shown,
    traceback_of,
    values_of,
)

TIME = pa.timestamp("us", "UTC")
EXTREMES_US = [253_402_300_800_000_000, 2**63 - 1, -(2**63)]


class Mute(Exception):
    """An exception that cannot even be printed."""

    def __init__(self, raises: BaseException) -> None:
        super().__init__("unheard")
        self.raises = raises

    def __str__(self) -> str:
        raise self.raises

    __repr__ = __str__


@pytest.mark.parametrize("raises", [ValueError("no"), RecursionError(), SystemExit(1), KeyboardInterrupt()])
def test_an_exception_that_cannot_be_shown_is_named(raises: BaseException) -> None:
    error = Mute(raises)
    assert message_of(error) == f"<Mute that cannot be shown: {type(raises).__name__}>"
    assert error_text(error).startswith("Mute: <Mute")
    assert shown(error) == message_of(error)
    assert "Mute" in traceback_of(error)


def test_a_text_that_is_no_text_is_named() -> None:
    class Wordless(Exception):
        def __str__(self) -> str:
            return 5  # type: ignore[return-value]

    assert message_of(Wordless()) == "<Wordless that cannot be shown: TypeError>"


def test_a_text_without_an_encoding_is_escaped() -> None:
    error = OSError("caf\udce9.txt")
    for text in (message_of(error), traceback_of(error), shown("caf\udce9.txt")):
        assert "caf\\udce9.txt" in text
        text.encode()


def test_long_texts_are_cut_in_the_middle() -> None:
    error = ValueError("first " + "x" * 50_000_000 + " last")
    text = message_of(error)
    assert text.startswith("first xxx")
    assert text.endswith("xxx last")
    assert "characters more" in text
    assert len(text) < MESSAGE_CHARS_MAX + 100
    assert len(traceback_of(error)) < MESSAGE_CHARS_MAX + 100
    assert len(shown("x" * 50_000_000)) < VALUE_CHARS_MAX + 100


@pytest.mark.parametrize("time_us", EXTREMES_US)
def test_rows_with_times_that_python_does_not_have_are_shown(time_us: int) -> None:
    batch = pa.record_batch([pa.array([time_us], TIME), pa.array(["a"])], names=["t", "s"])
    text = rows_shown(batch)
    assert text.startswith("{'t': ")
    assert text.endswith("'s': 'a'}")


def test_a_column_is_shown_whatever_its_values() -> None:
    times = pa.array([0, 2**63 - 1, None], TIME)
    epoch, late, nothing = values_of(times)
    assert (epoch.year, nothing) == (1970, None)
    assert "32103" in late
    assert values_of(pa.chunked_array([times]))[1] == late
    assert values_of(pa.array([1, 2])) == [1, 2]


def test_rows_with_bytes_that_are_no_text_are_shown() -> None:
    broken = pa.array([b"\xff"]).view(pa.string())
    assert rows_shown(pa.record_batch([broken], names=["s"])).startswith("{'s': ")


def test_only_the_first_rows_are_shown() -> None:
    text = rows_shown(pa.record_batch({"n": list(range(5))}), "  ")
    assert text == "  {'n': 0}\n  {'n': 1}\n  {'n': 2}\n  ... 2 more rows"
    assert len(rows_shown(pa.record_batch({"s": ["x" * 1_000_000] * 9}))) < ROWS_CHARS_MAX + 100
