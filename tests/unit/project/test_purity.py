"""The fixture that keeps unit tests pure refuses Spark and sockets."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession


def _zmq_socket() -> None:
    with zmq.Context() as context:
        context.socket(zmq.PAIR)


@pytest.mark.parametrize(
    "impure",
    [
        lambda: SparkSession.builder.master("local[1]").getOrCreate(),
        lambda: SparkContext(master="local[1]", appName="impure"),
        lambda: SparkContext.getOrCreate(SparkConf().setMaster("local[1]").setAppName("impure")),
        lambda: socket.socket(),
        lambda: socket.create_connection(("127.0.0.1", 9), timeout=1),
        _zmq_socket,
    ],
    ids=["session", "context", "context-or-create", "socket", "connection", "zmq"],
)
def test_a_unit_test_cannot_start_spark_or_make_a_socket(impure: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match="A unit test tried to"):
        impure()


@given(st.integers(1, 65535))
def test_properties_are_kept_pure_too(number: int) -> None:
    with pytest.raises(AssertionError, match="make a socket"):
        socket.create_connection(("127.0.0.1", number))
