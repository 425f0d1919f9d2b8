"""A headless Chromium that is told what to do through a pipe (the DevTools protocol)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

PLACES = ("chromium", "chromium-browser", "google-chrome", "chrome")
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


def found() -> str | None:
    """Where a Chromium is, if there is one."""
    return next((path for name in PLACES if (path := shutil.which(name))), None)


class Browser:
    """One page of one browser."""

    def __init__(self, path: str, folder: Path) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        self._process = subprocess.Popen(
            [
                "bash",
                "-c",
                f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}',
                path,
                *FLAGS,
                f"--user-data-dir={folder}",
                "about:blank",
            ],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._read = b""
        self._asked = 0
        self._session: str | None = None
        self.trouble: list[str] = []
        self.loaded: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask for something, and wait for the answer."""
        self._asked += 1
        message = {"id": self._asked, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._asked:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])
            self._heard(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            more = os.read(self._in, 1 << 16)
            assert more, "the browser has gone"
            self._read += more
        one, _, self._read = self._read.partition(b"\0")
        return dict(json.loads(one))

    def _heard(self, event: dict[str, Any]) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.trouble.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.trouble.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.loaded.append(params["request"]["url"])

    def open(self, url: str) -> None:
        """Go to a page."""
        self.call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """What an expression is on the page."""
        emitted = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return emitted["result"].get("value")

    def wait(self, expression: str, seconds: float = 30.0) -> None:
        """Wait until an expression is true on the page."""
        deadline = time.monotonic() + seconds
        while not self.value(f"Boolean({expression})"):
            assert time.monotonic() < deadline, f"never true: {expression}; {self.trouble}"
            time.sleep(0.1)

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(10)
        os.close(self._in)
        os.close(self._out)
