"""Starts a Kafka broker on this machine, from the jars that scripts/ensure_kafka fetches: one process, on loopback.

The broker is its own controller (KRaft mode) and has a small heap. It ends with the process that started it, however
that ends: it runs under a shell that waits for the end of its input.
"""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from stretto.bench.kafka.topics import wait_for_partitions
from stretto.bench.standalone import kill_tree
from stretto.errors import ClusterError, UserError
from stretto.runtime.connectors.kafka.client import admin_client, library

VERSION = "4.1.1"
"""As in scripts/ensure_kafka."""

STARTED_WITHIN_S = 600.0
POLL_S = 0.05
_JVM = ("-Xmx256m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_UNDER_WATCH = '"$@" & broker=$!; read -r _; kill -9 $broker; wait $broker'


def jars() -> Path:
    """Returns the directory of Kafka's jars: that of KAFKA_HOME, or of this project's cache."""
    roots = [Path(os.environ["KAFKA_HOME"])] if "KAFKA_HOME" in os.environ else []
    roots += [parent / ".cache" / f"kafka-{VERSION}" for parent in Path(__file__).parents[4:5]]
    for root in roots:
        if any((root / "libs").glob("kafka_*.jar")):
            return root / "libs"
    raise UserError(
        "there is no Kafka broker to start",
        f"no jars in {', '.join(str(root / 'libs') for root in roots)}",
        "Run scripts/ensure_kafka, or set KAFKA_HOME to an unpacked Kafka.",
    )


class Broker:
    """A broker with its data in a directory; `address` is what clients are given. It can be stopped and started again
    at the same address."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory).absolute()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._port, self._controller_port = _free_ports()
        self.address = f"127.0.0.1:{self._port}"
        self._properties = self.directory / "server.properties"
        self._properties.write_text(self._settings())
        self._process: subprocess.Popen[bytes] | None = None
        identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._run_to_the_end("kafka.tools.StorageTool", "format", "-t", identity, "-c", str(self._properties))

    def start(self) -> Broker:
        """Starts the broker, and returns when it answers."""
        command = ["sh", "-c", _UNDER_WATCH, "sh", *self._java("kafka.Kafka", str(self._properties))]
        with open(self.directory / "broker.log", "ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        deadline, has_run = time.monotonic() + STARTED_WITHIN_S, False
        while not self._answers():
            runs = self._runs()
            has_run = has_run or runs
            if (has_run and not runs) or time.monotonic() > deadline:
                self.stop()
                raise ClusterError("the Kafka broker did not start", self._last_words())
            time.sleep(POLL_S)
        return self

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Ends the broker: at once, or in order with SIGTERM."""
        process, self._process = self._process, None
        if process is None:
            return
        if how is not signal.SIGKILL:
            with suppress(psutil.NoSuchProcess):
                children = psutil.Process(process.pid).children()
                for child in children:
                    child.send_signal(how)
                psutil.wait_procs(children, timeout=STARTED_WITHIN_S)
        kill_tree(process.pid)
        assert process.stdin is not None
        process.stdin.close()
        process.wait()

    def create_topic(self, name: str, partitions: int, **settings: str) -> None:
        """Creates a topic, and returns when it can be used."""
        admin, made = admin_client({"bootstrap.servers": self.address}), library().admin
        admin.create_topics([made.NewTopic(name, partitions, 1, config=settings)])[name].result()
        wait_for_partitions(self.address, name, partitions)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError:
            return False
        with suppress(library().KafkaException):
            return bool(admin_client({"bootstrap.servers": self.address}).list_topics(timeout=10).brokers)
        return False

    def _runs(self) -> bool:
        """Whether the shell has its child, the broker."""
        assert self._process is not None
        with suppress(psutil.NoSuchProcess):
            return bool(psutil.Process(self._process.pid).children())
        return False

    def _java(self, main: str, *arguments: str) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        java = f"{home}/bin/java" if home else "java"
        return [java, *_JVM, "-cp", f"{jars()}/*", main, *arguments]

    def _run_to_the_end(self, main: str, *arguments: str) -> None:
        done = subprocess.run(self._java(main, *arguments), capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError("the directory of a Kafka broker could not be made", (done.stderr or done.stdout)[-500:])

    def _last_words(self) -> str:
        return " / ".join((self.directory / "broker.log").read_text(errors="replace").splitlines()[-3:])

    def _settings(self) -> str:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.directory / "logs"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "2",
            "group.initial.rebalance.delay.ms": "0",
            # A broker that was killed may come back after this.
            "broker.session.timeout.ms": "1500",
            "broker.heartbeat.interval.ms": "300",
            "log.cleaner.enable": "false",  # Its buffer is half of the heap.
            "log.index.size.max.bytes": "1048576",
            "num.network.threads": "2",
            "num.io.threads": "4",
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())


@contextmanager
def broker() -> Iterator[Broker]:
    """Starts a broker with its data in a temporary directory, for the time of a `with` block."""
    with tempfile.TemporaryDirectory(prefix="stretto-kafka-", ignore_cleanup_errors=True) as directory:
        made = Broker(directory)
        try:
            yield made.start()
        finally:
            made.stop()


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]
