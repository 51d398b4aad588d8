"""What a user reads when a function fails: the user's part of the traceback, the name, and a sample."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto import errors
from stretto.actors.address import Address
from stretto.actors.channel import InChannel, Message
from stretto.actors.deployment import FunctionSpec
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.actors.resuming import read_from
from stretto.actors.routing import StepFailed
from stretto.actors.snapshot import Origin
from stretto.actors.work import OPEN, POLL
from stretto.errors import FunctionError, SourceError, StorageError, StrettoError
from stretto.operators.stateless import PythonStep
from stretto.protocol.jobs import Failed, Failure
from stretto.rendering import ROWS_CHARS_MAX
from stretto.runtime.codec import Decoder, encode
from stretto.runtime.failures import error_of, failure_of

SCHEMA = pa.schema([("n", pa.int64())])


def batch(rows: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(rows), pa.int64())], schema=SCHEMA)


def instance() -> Instance:
    return Instance(Address("job", "counts", 0), FunctionSpec("counts", Function(), 1), False, False)


def message(payload: pa.RecordBatch) -> Message:
    receiver = instance()
    return Message(InChannel(Address("job", "before", 0), receiver, "in"), 1, payload, 0)


def users_function(given: pa.RecordBatch) -> pa.RecordBatch:
    return users_helper(given)


def users_helper(given: pa.RecordBatch) -> pa.RecordBatch:
    raise LookupError("nothing under that name")


def raised_by(function: object) -> Exception:
    step = PythonStep("enrich", function, SCHEMA, rows_kept=True)  # type: ignore[arg-type]
    with pytest.raises(LookupError) as caught:
        step(batch(5))
    return caught.value


def test_the_traceback_begins_in_the_users_function() -> None:
    failure = failure_of(raised_by(users_function), instance(), message(batch(5)))
    assert failure.error == "FunctionError"
    assert failure.fact == "function 'counts' raised LookupError"
    assert failure.detail == "nothing under that name"
    assert failure.traceback is not None
    lines = failure.traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    called = [line.rpartition(" in ")[2] for line in lines if line.startswith("  File ")]
    assert called[-2:] == ["users_function", "users_helper"]
    assert "PythonStep" not in failure.traceback
    assert lines[-1] == "LookupError: nothing under that name"


def test_an_error_inside_stretto_keeps_its_whole_traceback() -> None:
    try:
        PythonStep("enrich", None, SCHEMA, rows_kept=True)(batch(1))  # type: ignore[arg-type]
    except TypeError as error:
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next  # As the worker's loop sees it.
        failure = failure_of(error, instance(), POLL)
    assert failure.traceback is not None
    assert "stateless.py" in failure.traceback


def test_the_sample_shows_the_first_rows_and_how_many_follow() -> None:
    failure = failure_of(ValueError("x"), instance(), message(batch(5)))
    assert failure.sample == "    {'n': 0}\n    {'n': 1}\n    {'n': 2}\n    ... 2 more rows"
    assert (
        failure_of(ValueError("x"), instance(), message(batch(3))).sample == "    {'n': 0}\n    {'n': 1}\n    {'n': 2}"
    )
    assert failure_of(ValueError("x"), instance(), message(batch(0))).sample is None
    assert failure_of(ValueError("x"), instance(), POLL).sample is None


def test_a_sample_of_long_values_is_cut() -> None:
    wide = pa.record_batch({"s": ["x" * 100_000] * 10})
    sample = failure_of(ValueError("x"), instance(), message(wide)).sample
    assert sample is not None
    assert len(sample) < ROWS_CHARS_MAX + 50
    assert sample.endswith("... 7 more rows")


def test_a_fused_step_is_named_with_the_batch_that_it_was_given() -> None:
    error = StepFailed("enrich", batch(1))
    error.__cause__ = raised_by(users_function)
    failure = failure_of(error, instance(), POLL)
    assert failure.function == "enrich"
    assert failure.fact == "function 'enrich' raised LookupError"
    assert failure.sample == "    {'n': 0}"


def test_an_error_of_our_own_keeps_its_kind_and_words() -> None:
    failure = failure_of(SourceError("a file is broken", "row 7 of x.jsonl", "Correct it."), instance(), POLL)
    error = error_of(failure)
    assert type(error) is SourceError
    assert str(error) == "a file is broken: row 7 of x.jsonl\n  Correct it."


def test_what_the_user_sees_has_traceback_and_sample() -> None:
    error = error_of(failure_of(raised_by(users_function), instance(), message(batch(1))))
    assert type(error) is FunctionError
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    text = str(error)
    assert text.startswith("function 'counts' raised LookupError: nothing under that name\nTraceback")
    assert "raise LookupError" in text
    assert text.endswith("  the batch began with:\n    {'n': 0}")


def test_a_text_that_has_no_encoding_still_crosses_the_wire() -> None:
    failure = failure_of(OSError("cannot read caf\udce9.txt"), instance(), message(pa.record_batch({"n": [1]})))
    assert failure.detail == "cannot read caf\\udce9.txt"
    parts = [bytes(part) for part in encode(Failed("job", failure))]
    assert Decoder().decode("w0~1", parts) == Failed("job", failure)


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit("no text")


@pytest.mark.parametrize("time_us", [253_402_300_800_000_000, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize(
    "error",
    [
        ValueError("x" * 50_000_000),
        Mute(),
        FunctionError(Mute(), 5, ["caf\udce9.txt"]),  # type: ignore[arg-type]
        SourceError("x" * 50_000_000),
    ],
)
def test_no_error_and_no_batch_keeps_a_failure_from_being_sent(error: Exception, time_us: int) -> None:
    rows = pa.record_batch([pa.array([time_us], pa.timestamp("us", "UTC"))], names=["t"])
    failure = failure_of(error, instance(), message(rows))
    (part,) = encode(Failed("job", failure))
    assert len(part) < 100_000
    assert Decoder().decode("w0~1", [bytes(part)]) == Failed("job", failure)
    assert failure.sample is not None
    assert failure.sample.startswith("    {'t': ")
    assert str(error_of(failure))


@given(st.sampled_from(["KeyError", "annotations", "Any", "", "__name__", "StrettoError", "NoSuchError"]))
def test_a_peer_cannot_name_an_error_that_is_not_ours(name: str) -> None:
    error = error_of(Failure(name, "fact"))
    assert type(error) is StrettoError
    assert str(error) == "fact"


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, StrettoError)]
)
def test_every_error_of_ours_comes_back_as_itself(kind: type[StrettoError]) -> None:
    assert type(error_of(Failure(kind.__name__, "fact", "detail", "fix"))) is kind


def test_a_checkpoint_that_a_users_function_cannot_read_shows_where() -> None:
    class Forgetful(Function):
        def recall(self, remembered: object) -> None:
            users_function(batch(1))

    one = Instance(Address("job", "counts", 0), FunctionSpec("counts", Forgetful(), 1), False, False)
    with pytest.raises(StorageError) as refused, read_from(one, Origin(1, {})):
        one.function.recall(None)
    failure = failure_of(refused.value, one, OPEN)
    assert failure.error == "StorageError"
    assert failure.fact == "function 'counts' cannot resume from checkpoint 1"
    assert failure.traceback is not None
    assert "in users_helper" in failure.traceback
    assert failure_of(StorageError("no room"), one, OPEN).traceback is None
