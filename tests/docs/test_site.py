"""What the site has for language models, and the reference, are complete."""

from __future__ import annotations

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
    whole = TEXTS["llms-full.txt"]
    assert [name for name in muntin.__all__ if f"## muntin.{name}" not in whole] == []
    assert "<!-- transcript" not in whole
    assert "| wall | arrives | emitted | rejected |" in whole


def directives() -> set[str]:
    pages = [DOCS / page for page in TEXTS if page.startswith("reference/")]
    shown = "\n".join(SITE["on_page_markdown"](page.read_text()) for page in pages)
    return set(re.findall(r"^::: (\S+)$", shown, re.MULTILINE))


@pytest.mark.parametrize("name", muntin.__all__)
def test_the_reference_has_every_public_name(name: str) -> None:
    value = getattr(muntin, name)
    module = getattr(value, "__module__", None)
    places = {f"{module}.{name}", str(module), f"muntin.{name}"}
    assert places & directives()
