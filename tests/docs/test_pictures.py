"""Tests that docs/pictures has the pictures that scripts/pictures.py draws, all shown on pages."""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
NAMES = sorted(path.name for path in FOLDER.iterdir())


@cache
def draw() -> dict[str, str]:
    """Run the queries and draw them, once and not at collection, since that takes seconds."""
    return runpy.run_path(str(ROOT / "scripts" / "pictures.py"))["pictures"]()


def test_no_picture_is_left_over() -> None:
    assert {*NAMES} == draw().keys()


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_what_its_query_emits(name: str) -> None:
    assert (FOLDER / name).read_text() == draw()[name], "run scripts/pictures.py"


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_has_a_title_and_is_on_a_page(name: str) -> None:
    root = ElementTree.fromstring((FOLDER / name).read_text())
    assert root.get("aria-label")
    pages = (ROOT / "docs").glob("*.md")
    assert any(f"(pictures/{name})" in page.read_text() for page in pages)
