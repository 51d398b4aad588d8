"""A Redis of one's own on a free loopback port, for as long as it is used."""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from stretto.errors import UserError

STARTS_WITHIN_S = 300.0


class OwnRedis:
    """`with OwnRedis(directory) as server:` has `server.url`, with a password that nobody else knows."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.password = secrets.token_hex(16)
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def __enter__(self) -> OwnRedis:
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if program is None:
            raise UserError("there is no redis-server", None, "Run scripts/ensure_redis, or pass the URL of a server.")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = taken.getsockname()[1]
        self._program = program
        self.start()
        return self

    def start(self) -> None:
        """Starts it, with nothing in it."""
        settings = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no", "--dir", "."]
        # The password comes on its input: whoever lists processes sees arguments.
        self._process = subprocess.Popen(
            [self._program, "-", *settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._directory,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(f"requirepass {self.password}\n".encode())
        self._process.stdin.close()
        ends_s = time.monotonic() + STARTS_WITHIN_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > ends_s:
                raise UserError("redis-server did not start", f"its exit code is {self._process.poll()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Ends it, with all that is in it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1.0).close()
        except OSError:
            return False
        return True
