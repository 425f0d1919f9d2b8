"""A headless Chromium that is controlled through a pipe (the DevTools protocol)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-pipe",
    "--window-size=1200,900",
)


def find_chromium() -> str | None:
    """Return the path of a Chromium, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of one browser."""

    def __init__(self, path: str, folder: Path) -> None:
        child_in, self._out = os.pipe()
        self._in, child_out = os.pipe()
        self._process = subprocess.Popen(
            [
                "bash",
                "-c",
                f'exec "$0" "$@" 3<&{child_in} 4>&{child_out}',
                path,
                *FLAGS,
                f"--user-data-dir={folder}",
                "about:blank",
            ],
            pass_fds=(child_in, child_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(child_in)
        os.close(child_out)
        self._read = b""
        self._calls = 0
        self._session: str | None = None
        self.errors: list[str] = []
        self.loaded: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol, and wait for the answer."""
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._calls:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])
            self._record_event(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            more = os.read(self._in, 1 << 16)
            assert more, "the browser has gone"
            self._read += more
        message, _, self._read = self._read.partition(b"\0")
        return dict(json.loads(message))

    def _record_event(self, event: dict[str, Any]) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.loaded.append(params["request"]["url"])

    def open(self, url: str) -> None:
        """Open a page."""
        self.call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """Return the value of an expression on the page."""
        emitted = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return emitted["result"].get("value")

    def wait(self, expression: str, seconds: float = 30.0) -> None:
        """Wait until an expression is true on the page."""
        deadline = time.monotonic() + seconds
        while not self.value(f"Boolean({expression})"):
            assert time.monotonic() < deadline, f"never true: {expression}; {self.errors}"
            time.sleep(0.1)

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(10)
        os.close(self._in)
        os.close(self._out)
