"""A headless Chromium for tests of pages, driven over a pipe by the DevTools protocol: no sockets, no driver.

Tests that need it are skipped where there is none; `ATCPY_CHROMIUM` names another one than that of the system.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_PATIENCE = 120.0  # seconds


def chromium_path() -> str | None:
    named = os.environ.get("ATCPY_CHROMIUM")
    return named or next((path for name in _NAMES if (path := shutil.which(name))), None)


need_chromium = pytest.mark.skipif(
    chromium_path() is None, reason="no Chromium: apt-get install chromium, or ATCPY_CHROMIUM names one"
)


class Page:
    """A page of a browser that runs; `problems` are errors of its console, exceptions and refused content."""

    def __init__(self, process: subprocess.Popen[bytes], write: int, read: int) -> None:
        self._process, self._write, self._read = process, write, read
        self._rest, self._number, self._session = b"", 0, ""
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "Accessibility"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + _PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"Chromium has not answered for {_PATIENCE} seconds"
            piece = os.read(self._read, 1 << 20)
            assert piece, "Chromium has ended"
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"])[:600])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.problems.append(json.dumps(parameters["args"])[:600])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def open(self, page: Path | str, *, dark: bool = False, width: int = 1400, height: int = 900) -> None:
        """Open a file or an address, and wait until it has been drawn."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        for url in (
            "about:blank",
            page if isinstance(page, str) else page.as_uri(),
        ):  # so that no answer is of the page before
            self.call("Page.navigate", url=url)
            self.wait(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")
        self.settle()

    def settle(self) -> None:
        """Wait until what was asked for has been drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def wait(self, condition: str) -> None:
        """Wait until an expression of JavaScript is true."""
        end = time.monotonic() + _PATIENCE
        while not self.run(condition):
            assert time.monotonic() < end, condition
            time.sleep(0.02)

    def run(self, expression: str) -> Any:
        """The value of an expression of JavaScript, awaited if it is a promise."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def press(self, key: str, *, shift: bool = False, character: str = "") -> None:
        codes = {
            "Enter": 13,
            "Tab": 9,
            "ArrowUp": 38,
            "ArrowDown": 40,
            "ArrowLeft": 37,
            "ArrowRight": 39,
            "End": 35,
            "Home": 36,
            "Backspace": 8,
        }
        common = {
            "key": key,
            "modifiers": 8 if shift else 0,
            "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper())),
        }
        text = {"text": character or key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def wheel(self, x: float, y: float, delta: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=delta)

    def mouse(self, kind: str, x: float, y: float) -> None:
        self.call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=x,
            y=y,
            button="left",
            buttons=int(kind != "mouseReleased"),
            clickCount=1,
        )

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browser() -> Iterator[Page]:
    """A page of a new browser, which ends with the block."""
    program = chromium_path()
    assert program is not None
    to_browser, from_browser = os.pipe(), os.pipe()
    inherited = (to_browser[0], from_browser[1])
    with tempfile.TemporaryDirectory(prefix="atcpy-chromium-", ignore_cleanup_errors=True) as profile:
        # The browser reads descriptor 3 and writes 4.
        shell = f'exec 3<&{inherited[0]} 4>&{inherited[1]}; exec "$@"'
        flags = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={profile}",
        ]  # fmt: skip
        process = subprocess.Popen(
            ["bash", "-c", shell, "bash", program, *flags],
            pass_fds=inherited, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for descriptor in inherited:
            os.close(descriptor)
        try:
            yield Page(process, to_browser[1], from_browser[0])
        finally:
            os.close(to_browser[1])
            os.close(from_browser[0])
            process.terminate()
            process.wait(timeout=30)
