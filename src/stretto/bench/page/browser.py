"""Chromium without a window, driven over a pipe by its own protocol: for tests of the page, and for measuring it.

A message is JSON that ends with a zero byte, on descriptors 3 and 4 of the process, so there is no port to find or to
guard. Whoever waits names a condition, which is looked at until it holds.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from stretto.errors import ClusterError

FLAGS = (
    "--headless",
    "--no-sandbox",  # Who runs tests may be root, who has no sandbox there.
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
PATIENCE_S = 120.0
LOOK_EVERY_S = 0.05
READ_BYTES = 1 << 20


class Browser:
    """A browser with one page. What the page wrote to the console, and requests that failed, are in `complaints`."""

    def __init__(self, directory: Path, width: int = 1280, height: int = 900) -> None:
        command = shutil.which("chromium")
        if command is None:
            raise ClusterError("there is no chromium", None, "Install it: scripts/ensure_chromium does on Debian.")
        self.complaints: list[str] = []
        self.requested: list[str] = []
        self._numbers = 0
        self._unread = b""
        down_read, self._down = os.pipe()
        self._up, up_write = os.pipe()
        flags = [*FLAGS, f"--user-data-dir={directory / 'profile'}", f"--window-size={width},{height}", "about:blank"]
        # The browser has its ends as 3 and 4. Bash puts them there; other shells know descriptors of one digit only.
        script = f'exec "$@" 3<&{down_read} 4>&{up_write}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", script, "bash", command, *flags],
            env={**os.environ, "HOME": str(directory)},
            pass_fds=(down_read, up_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(down_read)
        os.close(up_write)
        try:
            self._attach()
            self.resize(width, height)
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        """Has what follows concern a page of its own: the first one may not be there yet."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.ask("Performance.enable", timeDomain="threadTicks")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the browser and all its processes."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._down)
        os.close(self._up)

    # Messages.

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a request, and returns its result."""
        self._numbers += 1
        message = {"id": self._numbers, "method": method, "params": parameters}
        if hasattr(self, "_session"):
            message["sessionId"] = self._session
        os.write(self._down, json.dumps(message).encode() + b"\0")
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            found = self._next(deadline_s)
            if found.get("id") == self._numbers:
                if "error" in found:
                    raise ClusterError(f"the browser refused {method}", str(found["error"]))
                result: dict[str, Any] = found["result"]
                return result
            self._notice(found)

    def _next(self, deadline_s: float) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._up], [], [], max(0.0, deadline_s - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the browser has not answered for {PATIENCE_S:g} s")
            read = os.read(self._up, READ_BYTES)
            if not read:
                raise ClusterError("the browser has ended", f"exit code {self._process.wait()}")
            self._unread += read
        message, _, self._unread = self._unread.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _notice(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                self.complaints.append(str([each.get("value", each) for each in parameters["args"]]))
            case "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                self.complaints.append(details.get("exception", {}).get("description", details["text"]))
            case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
                self.complaints.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
            case "Network.requestWillBeSent":
                self.requested.append(parameters["request"]["url"])

    # The page.

    def open(self, url: str) -> None:
        """Opens an address, and returns when its document is there."""
        # From a page to itself with another fragment nothing would be loaded.
        for each in ("about:blank", url):
            self.ask("Page.navigate", url=each)
            blank = "===" if each == "about:blank" else "!=="
            self.until(f"document.readyState === 'complete' && location.href {blank} 'about:blank'")

    def run(self, script: str) -> Any:
        """Returns the value of an expression in the page."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise ClusterError("an expression failed in the page", str(found["exceptionDetails"]))
        return found["result"].get("value")

    def until(self, condition: str, patience_s: float = PATIENCE_S) -> None:
        """Waits until an expression in the page is true."""
        deadline_s = time.monotonic() + patience_s
        while True:
            if self.run(f"Boolean({condition})"):
                return
            if time.monotonic() >= deadline_s:
                text = self.run("document.body.innerText.slice(0, 2000)")
                raise TimeoutError(f"after {patience_s:g} s this is not true: {condition}\n{self.complaints}\n{text}")
            time.sleep(LOOK_EVERY_S)

    def busy_s(self) -> float:
        """Returns the processor time that the page's own thread has taken so far."""
        found = {each["name"]: each["value"] for each in self.ask("Performance.getMetrics")["metrics"]}
        return float(found["TaskDuration"])

    def resize(self, width: int, height: int) -> None:
        """Gives the page another size; narrower than a window can be."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)


@contextmanager
def browser(width: int = 1280, height: int = 900) -> Iterator[Browser]:
    """Starts a browser with a profile of its own for the time of a `with` block."""
    with (
        tempfile.TemporaryDirectory(prefix="stretto-browser-", ignore_cleanup_errors=True) as directory,
        Browser(Path(directory), width, height) as started,
    ):
        yield started
