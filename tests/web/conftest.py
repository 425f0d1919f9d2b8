"""A fixture with a browser for each test of a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.web.browser import Browser, find_chromium


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    path = find_chromium()
    assert path is not None
    chromium = Browser(path, tmp_path / "profile")
    yield chromium
    chromium.close()
