"""Entities over HTTP on real sockets: in this process where it is about connections, on a cluster where workers die.

`tests/unit/serving` has the answers to requests.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from examples.bank import Account, app
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S, eventually

from stretto import App, Cluster, Entity, Job, UserError, reads
from stretto.protocol.transactions import Reply
from stretto.serving import Limits, Server, served
from stretto.serving.guard import new_secret

ROOT = Path(__file__).parents[2]
PATIENT = Limits(request_s=WAIT_S, call_s=WAIT_S)
SHORT = Limits(request_s=0.2, call_s=WAIT_S)


class Blob(Entity):
    @reads
    async def large(self, size: int) -> str:
        return "x" * size


class Loop(Entity):
    async def forever(self) -> None:
        while True:
            pass


def ask(
    server: Server | str, verb: str, path: str, arguments: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """Returns the status and the content of an answer."""
    address = urlsplit(server if isinstance(server, str) else server.url)
    body = None if arguments is None else json.dumps(arguments)
    with closing(http.client.HTTPConnection(address.hostname or "", address.port, timeout=WAIT_S)) as connection:
        connection.request(verb, path, body, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


@contextmanager
def connected(server: Server) -> Iterator[socket.socket]:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port or 0), WAIT_S) as connection:
        yield connection


def received(connection: socket.socket) -> bytes:
    """Returns all that comes until the other side ends the connection."""
    parts = []
    while True:
        try:
            part = connection.recv(65_536)
        except ConnectionResetError:
            part = b""
        if not part:
            return b"".join(parts)
        parts.append(part)


def is_ended(connection: socket.socket) -> bool:
    """Whether the other side has ended a connection, also if there is something left to read."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


@pytest.fixture(scope="module")
def local() -> Iterator[Server]:
    with served(App("local", entities=[Account, Blob]).in_process(), port=0, limits=PATIENT) as server:
        yield server


# Requests.


def test_requests_over_a_socket(local: Server) -> None:
    assert ask(local, "POST", "/Account/ann/deposit", {"amount": 10}) == (200, 10)
    status, content = ask(local, "POST", "/Account/ann/transfer", {"to": "bob", "amount": 50})
    assert (status, content["error"]["type"]) == (409, "NotEnough")
    assert ask(local, "GET", "/Account/ann/look") == (200, 10)
    assert ask(local, "GET", "/openapi.json")[1]["info"]["title"] == "local"
    assert ask(local, "POST", "/Account/%3Cscript%3E%2F..%2F/deposit", {"amount": 3}) == (200, 3)
    assert ask(local, "GET", "/Account/%3Cscript%3E%2F..%2F/look") == (200, 3)
    assert ask(local, "GET", "/Account/ann%2Flook")[0] == 404


def test_a_connection_is_used_again_also_after_a_refusal(local: Server) -> None:
    address = urlsplit(local.url)
    with closing(http.client.HTTPConnection(address.hostname or "", address.port, timeout=WAIT_S)) as connection:
        for path, status in (("/Account/kept/look", 200), ("/nothing", 404), ("/Account/kept/look", 200)):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status


def test_a_body_that_is_too_large_is_refused_while_it_comes(local: Server) -> None:
    with connected(local) as connection:
        connection.sendall(
            b"POST /Account/a/deposit HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        chunk = b"%x\r\n%s\r\n" % (1 << 16, b" " * (1 << 16))
        for _ in range(2 * PATIENT.body_bytes >> 16):
            connection.sendall(chunk)
            if select.select([connection], [], [], 0)[0]:
                break
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_head_that_is_too_large_is_refused(local: Server) -> None:
    with connected(local) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (1 << 17))
        assert received(connection)[:13] in (b"HTTP/1.1 400 ", b"")
    assert ask(local, "GET", "/Account/a/look")[0] == 200


# Clients that are slow, and clients that are many.


def test_a_client_that_is_slow_with_its_head_is_cut_off() -> None:
    with served(app.in_process(), port=0, limits=SHORT) as server, connected(server) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")

        def sends_more() -> bool:
            try:
                connection.sendall(b"X: x\r\n")  # Always a little, never all.
            except OSError:
                return False
            return not is_ended(connection)

        eventually(lambda: not sends_more())


def test_a_client_that_says_nothing_is_cut_off() -> None:
    with served(app.in_process(), port=0, limits=SHORT) as server, connected(server) as connection:
        assert received(connection) == b""


def test_a_client_that_is_slow_with_its_body_is_told_so() -> None:
    with served(app.in_process(), port=0, limits=SHORT) as server, connected(server) as connection:
        connection.sendall(
            b"POST /Account/a/deposit HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 20\r\n\r\n{"
        )
        answer = received(connection)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"too_slow" in answer
        assert ask(server, "GET", "/Account/a/look") == (200, 0)


def test_a_client_that_does_not_read_is_cut_off() -> None:
    blobs = App("blobs", entities=[Blob]).in_process()
    with served(blobs, port=0, limits=SHORT) as server, connected(server) as connection:
        request = b"GET /Blob/a/large?size=4000000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connection.sendall(4 * request)
        eventually(lambda: is_ended(connection))


def test_more_connections_than_allowed_are_refused_and_others_go_on() -> None:
    limits = Limits(connections=3, request_s=WAIT_S)
    with served(app.in_process(), port=0, limits=limits) as server:
        address = urlsplit(server.url)
        with connected(server) as first, connected(server) as second, connected(server):
            # uvicorn has them when it has answered something.
            first.sendall(b"GET /Account/a/look HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert first.recv(15) == b"HTTP/1.1 200 OK"
            with connected(server) as fourth:
                assert received(fourth).startswith(b"HTTP/1.1 503 ")
            second.sendall(b"GET /Account/a/look HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert second.recv(15) == b"HTTP/1.1 200 OK"

        def answered() -> bool:
            try:
                return ask(server, "GET", "/Account/a/look")[0] == 200
            except (OSError, http.client.HTTPException):
                return False  # Those that have ended are still counted.

        assert address.port
        eventually(answered)


# The end, and what cannot begin.


class Gated:
    """Entities that answer when they are told to."""

    name = "gated"

    def __init__(self) -> None:
        self._entities = app.in_process()
        self.catalog = self._entities.catalog
        self.waits = threading.Event()
        self.opened = threading.Event()
        self.loop: Any = None

    async def areply(self, made: Any, key: str | None = None) -> Reply:
        self.loop = asyncio.get_running_loop()
        self.waits.set()
        await asyncio.get_running_loop().run_in_executor(None, self.opened.wait, WAIT_S)
        return await self._entities.areply(made, key)


def test_at_its_end_calls_in_flight_are_answered_and_no_more_are_taken() -> None:
    gated = Gated()
    entered, leave = threading.Event(), threading.Event()
    servers: list[Server] = []

    def serve() -> None:
        with served(gated, port=0, limits=PATIENT) as server:  # type: ignore[arg-type]
            servers.append(server)
            entered.set()
            leave.wait(WAIT_S)

    with ThreadPoolExecutor(2) as pool:
        serving = pool.submit(serve)
        assert entered.wait(WAIT_S)
        call = pool.submit(ask, servers[0], "POST", "/Account/ann/deposit", {"amount": 7})
        assert gated.waits.wait(WAIT_S)
        leave.set()

        def is_closed() -> bool:
            try:
                with connected(servers[0]):
                    return False
            except OSError:
                return True

        try:
            eventually(is_closed)
            # In the server's own time: one that does not wait for calls ends its loop before.
            asyncio.run_coroutine_threadsafe(asyncio.sleep(1), gated.loop).result(WAIT_S)
            assert not call.done()
            assert not serving.done()
        finally:
            gated.opened.set()
        assert call.result(WAIT_S) == (200, 7)
        serving.result(WAIT_S)


def test_other_machines_need_a_token() -> None:
    with (
        pytest.raises(UserError, match="open to other machines needs a token"),
        served(app.in_process(), host="0.0.0.0", port=0),
    ):
        pass
    secret = new_secret()
    with served(app.in_process(), host="0.0.0.0", port=0, token=secret, limits=PATIENT) as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert ask(url, "GET", "/Account/a/look")[0] == 401
        assert ask(url, "GET", "/Account/a/look", None, {"Authorization": f"Bearer {secret[:-1]}"})[0] == 401
        assert ask(url, "GET", "/Account/a/look", None, {"Authorization": f"Bearer {secret}"}) == (200, 0)


def test_a_port_that_is_taken_is_said(local: Server) -> None:
    port = urlsplit(local.url).port or 0
    for host, wrong in (("127.0.0.1", port), ("no.such.host.invalid", 0)):
        with pytest.raises(UserError, match="nothing can listen on"), served(app.in_process(), host=host, port=wrong):
            pass


# The command.


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str, str | None]]:
    """Yields the process of `stretto serve`, its address, and its token if it has printed one."""
    command = [sys.executable, "-m", "stretto", "serve", "examples.bank:app", "--port", "0", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("Serving bank at http://127.0.0.1:"), (line, process.communicate()[1])
            token = process.stdout.readline().removeprefix("Token: ").strip() if "--token" in arguments else None
            yield process, line.split()[-1], token
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_told_to_end(number: signal.Signals) -> None:
    with serving("--in-process", "--token") as (process, url, token):
        assert token
        assert ask(url, "GET", "/Account/ann/look")[0] == 401
        own = {"Authorization": f"Bearer {token}"}
        assert ask(url, "POST", "/Account/ann/deposit", {"amount": 7}, own) == (200, 7)
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, err
        assert token not in out + err, "it is printed once"
        assert "Traceback" not in err
        assert "Served 2 requests." in err


def test_the_command_says_what_is_wrong() -> None:
    for target, text in (
        ("examples.highest_bid:app", "app 'highest-bid' has no entities"),
        ("examples.nothing:app", "there is no module 'examples.nothing'"),
    ):
        command = [sys.executable, "-m", "stretto", "serve", target, "--in-process", "--port", "0"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert done.returncode == 2
        assert f"error: {text}" in done.stderr


# On a cluster.


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=2) as made:
        yield made


def deposited(server: Server, name: str, number: int) -> int:
    """Deposits 1 under a key of its own, again until it is answered, as a client would."""
    while True:
        key = {"Idempotency-Key": f"{name}-{number}"}
        status, content = ask(server, "POST", f"/Account/{name}/deposit", {"amount": 1}, key)
        if status == 200:
            return int(content)
        assert status in (503, 504), content


def test_calls_are_answered_once_while_a_worker_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.submit(App("bank", entities=[Account]), checkpoint=tmp_path / "bank")
    with served(job, port=0, limits=PATIENT) as server, ThreadPoolExecutor(8) as pool:
        names = ["a/b", "<script>", "café", "d"]
        escaped = ["a%2Fb", "%3Cscript%3E", "caf%C3%A9", "d"]
        calls = {name: [pool.submit(deposited, server, name, n) for n in range(60)] for name in escaped}
        eventually(lambda: sum(call.done() for each in calls.values() for call in each) >= 60)
        os.kill(cluster.workers[0].pid, signal.SIGKILL)
        for each in calls.values():
            # Each balance is in one answer: every call took place once, one after another.
            assert sorted(call.result(WAIT_S) for call in each) == list(range(1, 61))
        assert [ask(server, "GET", f"/Account/{name}/look") for name in escaped] == [(200, 60)] * 4
        assert deposited(server, "d", 7) == calls["d"][7].result(), "a key has its reply again"
        assert job.map([Account(name).look() for name in names]) == [60] * 4
        assert job.checkpoints.recoveries >= 1
    job.stop()


def test_what_is_wrong_on_a_cluster_has_its_codes(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.submit(App("both", entities=[Account, Loop]), checkpoint=tmp_path / "both")
    with served(job, port=0, limits=PATIENT) as server:
        status, content = ask(server, "POST", "/Account/ann/transfer", {"to": "bob", "amount": 1})
        assert (status, content["error"]) == (
            409,
            {"code": "aborted", "text": "('ann', 0)", "type": "NotEnough", "entity": "Account/ann"},
        )
        status, content = ask(server, "POST", "/Loop/a/forever")
        assert (status, content["error"]["code"]) == (409, "aborted")
        assert "ran out of time" in content["error"]["text"]
        # Beyond what is encoded: it aborts, and the worker goes on.
        assert ask(server, "POST", "/Account/big/deposit", {"amount": 1 << 63}) == (200, 1 << 63)
        assert ask(server, "POST", "/Account/big/deposit", {"amount": 1 << 63})[0] == 409
        assert ask(server, "GET", "/Account/big/look") == (200, 1 << 63)
        first = {"Idempotency-Key": "one"}
        assert ask(server, "POST", "/Account/ann/deposit", {"amount": 1}, first) == (200, 1)
        status, content = ask(server, "POST", "/Account/ann/deposit", {"amount": 2}, first)
        assert (status, content["error"]["code"]) == (422, "refused")
        job.stop()
        status, content = ask(server, "GET", "/Account/ann/look")
        assert (status, content["error"]["code"]) == (503, "unavailable")


def test_the_command_keeps_what_it_has_answered(spark: SparkSession, tmp_path: Path) -> None:
    directory = str(tmp_path / "bank")
    with serving("--workers", "2", "--checkpoint", directory) as (process, url, _):
        assert ask(url, "POST", "/Account/ann/deposit", {"amount": 7}) == (200, 7)
        # As Ctrl-C in a terminal does: the whole group gets it.
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, err
    with Cluster.on_spark(spark, workers=2) as other:
        job: Job = other.submit(app, checkpoint=directory)
        assert job.call(Account("ann").look(), timeout=WAIT_S) == 7
