# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over its own pipe (Chrome DevTools Protocol): sizes, keys, pointer, paper, requests."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-headless-shell", "google-chrome"))), None)


class Browser:
    """One page at a time."""

    def __init__(self, to: int, of: int) -> None:
        self._to, self._of, self._number, self._session = to, of, 0, ""
        self._rest = b""
        #: Addresses that pages asked for.
        self.requests: list[str] = []
        #: What their scripts complained of, refused ones too.
        self.complaints: list[str] = []

    def ask(self, method: str, **given: Any) -> dict[str, Any]:
        """A command and its answer; what happens meanwhile is kept."""
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        os.write(
            self._to, json.dumps({"id": self._number, "method": method, "params": given, **session}).encode() + b"\0"
        )
        while (found := self._next()).get("id") != self._number:
            self._keep(found)
        assert "error" not in found, (method, found)
        result: dict[str, Any] = found["result"]
        return result

    def open(self, page: Path, width: int, *, dark: bool = False, scripts: bool = True) -> None:
        """Show a page, as wide as that."""
        self._session = ""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.ask("Page.navigate", url=page.as_uri())
        while (found := self._next()).get("method") != "Page.loadEventFired":
            self._keep(found)

    def tell(self, script: str) -> Any:
        """The value of an expression in the page, as JSON."""
        given = {"expression": script, "returnByValue": True, "awaitPromise": True}
        found = self.ask("Runtime.evaluate", **given)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def key(self, name: str) -> None:
        text = {"text": name} if len(name) == 1 else {"text": "\r"} if name == "Enter" else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=name, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=name)

    def mouse(self, *steps: tuple[str, float, float], clicks: int = 1) -> None:
        """`pressed`, `moved` and `released`, where."""
        for what, x, y in steps:
            button = {"button": "none"} if what == "moved" else {"button": "left", "clickCount": clicks}
            self.ask("Input.dispatchMouseEvent", type=f"mouse{what.capitalize()}", x=x, y=y, **button)

    def picture(self, path: Path) -> None:
        """All of the page, as PNG."""
        found = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def paper(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.ask("Page.printToPDF")["data"]))

    def _keep(self, event: dict[str, Any]) -> None:
        given = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif event.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
            self.complaints.append(json.dumps(given))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            got = os.read(self._of, 1 << 20)
            assert got, "the browser has ended"
            self._rest += got
        text, self._rest = self._rest.split(b"\0", 1)
        found: dict[str, Any] = json.loads(text)
        return found


@contextmanager
def browser() -> Iterator[Browser]:
    """One, with a profile of its own that is gone with it."""
    assert PROGRAM
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        commands_out, commands_in = os.pipe()
        answers_out, answers_in = os.pipe()
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe")
        command = [PROGRAM, *options, f"--user-data-dir={profile}", "about:blank"]
        redirected = ["bash", "-c", f'exec "$@" 3<&{commands_out} 4>&{answers_in}', "bash", *command]
        fds = (commands_out, answers_in)
        process = subprocess.Popen(redirected, pass_fds=fds, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for each in fds:
            os.close(each)
        found = Browser(commands_in, answers_out)
        try:
            yield found
        finally:
            with suppress(OSError, AssertionError):
                found._session = ""
                found.ask("Browser.close")
            for each in (commands_in, answers_out):
                os.close(each)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
