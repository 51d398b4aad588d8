"""What tests do with a browser that measuring does not: keys, the preferred colours, pictures."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from stretto.bench.page.browser import Browser

PICTURES = os.environ.get("PAGE_PICTURES")
"""A directory in which the tests leave pictures of the page, for people who want to look at it."""
_CODES = {"Enter": 13, "Tab": 9}


def prefer(chromium: Browser, scheme: str) -> None:
    """Has the page find that its user prefers `dark` or `light`."""
    chromium.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])


def press(chromium: Browser, key: str) -> None:
    """Presses a key."""
    text = {"text": "\r"} if key == "Enter" else {}
    for kind in ("keyDown", "keyUp"):
        code = {"key": key, "code": key, "windowsVirtualKeyCode": _CODES[key]}
        chromium.ask("Input.dispatchKeyEvent", type=kind, **code, **text)


def picture(chromium: Browser, name: str) -> bytes:
    """Returns a picture of the whole page as PNG, and leaves it where it is wanted."""
    found = chromium.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
    content = base64.b64decode(found["data"])
    if PICTURES:
        Path(PICTURES).mkdir(parents=True, exist_ok=True)
        (Path(PICTURES) / f"{name}.png").write_bytes(content)
    return content
