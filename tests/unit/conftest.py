"""Unit tests are pure: starting Spark or making a socket raises, whatever the code under test imports."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest
import zmq
from pyspark import SparkContext
from pyspark.sql import SparkSession


class ImpureTestError(AssertionError):
    """A unit test reached for something that belongs in tests/spark."""


def _refuse(what: str) -> Callable[..., NoReturn]:
    def refuse(*_args: object, **_kwargs: object) -> NoReturn:
        raise ImpureTestError(f"A unit test tried to {what}: move it to tests/spark, or test the pure part.")

    return refuse


# Not `monkeypatch`: Hypothesis rightly warns of function-scoped fixtures that a property might change.
@pytest.fixture(autouse=True)
def _pure() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkSession.Builder, "getOrCreate", _refuse("start Spark"))
        patch.setattr(SparkSession.Builder, "create", _refuse("start Spark"))
        patch.setattr(SparkContext, "__init__", _refuse("start Spark"))
        patch.setattr(socket.socket, "__init__", _refuse("make a socket"))
        patch.setattr(zmq.Context, "socket", _refuse("make a ZeroMQ socket"))
        patch.setattr(zmq.Socket, "__init__", _refuse("make a ZeroMQ socket"))
        yield
