"""Tests that the site's texts for language models, and the reference, are complete."""

from __future__ import annotations

import pkgutil
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

import muntin

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
SITE = runpy.run_path(str(ROOT / "scripts" / "site.py"))
TEXTS: dict[str, str] = SITE["texts"](CONFIG["nav"], CONFIG["site_description"])
ENTRY = re.compile(r"^- \[(.+?)\]\((.+?)\): (.+)$", re.MULTILINE)


def test_every_page_is_in_the_navigation_and_in_llms_txt() -> None:
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    listed = [page for _, page, _ in ENTRY.findall(TEXTS["llms.txt"])]
    assert sorted(listed) == sorted(pages)
    assert pages <= TEXTS.keys()


def test_every_title_is_there_once() -> None:
    titles = [title for title, _, _ in ENTRY.findall(TEXTS["llms.txt"])]
    assert len(set(titles)) == len(titles)


def test_the_whole_text_has_every_public_name_and_the_transcripts() -> None:
    text = TEXTS["llms-full.txt"]
    assert [name for name in muntin.__all__ if f"## muntin.{name}" not in text] == []
    assert "<!-- transcript" not in text
    assert "| wall | arrives | emitted | rejected |" in text


PAGES = [DOCS / page for page in TEXTS if page.startswith("reference/")]
DIRECTIVES = {
    name
    for page in PAGES
    for name in re.findall(r"^::: (\S+)$", SITE["on_page_markdown"](page.read_text()), re.MULTILINE)
}


@pytest.mark.parametrize("name", sorted(DIRECTIVES))
def test_the_reference_has_no_name_that_is_gone(name: str) -> None:
    assert pkgutil.resolve_name(name) is not None


@pytest.mark.parametrize("name", muntin.__all__)
def test_the_reference_has_every_public_name(name: str) -> None:
    value = getattr(muntin, name)
    module = getattr(value, "__module__", None)
    names = {f"{module}.{name}", str(module), f"muntin.{name}"}
    assert names & DIRECTIVES
