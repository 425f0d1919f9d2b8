"""A browser for each test of a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.web.browser import Browser, found


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    path = found()
    assert path is not None
    made = Browser(path, tmp_path / "profile")
    yield made
    made.close()
