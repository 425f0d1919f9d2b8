"""Takes the screenshots of the docs: MUNTIN_SCREENSHOTS=docs replaces them there."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from examples.flights.source import read_flights, sort_by_landing, write_replay
from tests.services.machine import free_port, listens, wait_until
from tests.web.browser import Browser, find_chromium

ROOT = Path(__file__).parents[2]
MUNTIN = [sys.executable, "-c", "from muntin.cli.app import main; main()"]
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        find_chromium() is None, reason="needs Chromium (Debian: apt install chromium)"
    ),
]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = os.environ.get("MUNTIN_SCREENSHOTS")
    return tmp_path if folder is None else ROOT / folder


@contextmanager
def serve_page(command: list[str], log: Path) -> Iterator[str]:
    """Run a command that serves a page, and yield its address."""
    port = free_port()
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [*MUNTIN, *command, "--port", str(port)], stdout=out, stderr=out, cwd=ROOT
        )
    try:
        wait_until(lambda: listens(port), process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def take_screenshot(browser: Browser, path: Path, scheme: str, height: int) -> None:
    """Take a screenshot of the page as it is, so many pixels high."""
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", features=media)
    size = {"width": 1200, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **size)
    drawn = browser.value("document.body.dataset.drawn")
    browser.wait(f"document.body.dataset.drawn !== '{drawn}'", 60)
    image = browser.call("Page.captureScreenshot", format="png")["data"]
    path.write_bytes(base64.b64decode(image))


STATUS = "document.querySelector('#status').textContent"


def count_batches(address: str) -> int:
    """Return how many batches the page has seen."""
    with urllib.request.urlopen(f"{address}/state", timeout=30) as answer:
        queries = json.load(answer)["queries"]
    return max((len(query["batches"]) for query in queries), default=0)


def wait_for(address: str, number: int) -> None:
    """Wait for so many batches."""
    deadline = time.monotonic() + 240
    while count_batches(address) < number:
        assert time.monotonic() < deadline, f"{count_batches(address)} batches"
        time.sleep(0.5)


def test_the_flights(browser: Browser, pictures: Path, tmp_path: Path) -> None:
    replay = write_replay(sort_by_landing(read_flights()), tmp_path / "flights", 3000)
    variables = ["--set", f"data={replay.folder}", "--set", f"out={tmp_path}/out"]
    command = ["serve", "examples/flights/pipeline.sql", *variables]
    with serve_page(command, tmp_path / "log") as address:
        browser.open(address)
        browser.wait("document.querySelectorAll('#windows tr').length > 50", 240)
        wait_for(address, 60)
        browser.value(
            "(() => { document.querySelector('#held-key').value = 'JFK';"
            " document.querySelector('#look button').click(); })()"
        )
        browser.wait("document.querySelectorAll('#held tr').length > 3", 60)
        take_screenshot(browser, pictures / "serve.png", "dark", 1500)
        assert browser.value(STATUS) == "Live"
    assert browser.errors == []
