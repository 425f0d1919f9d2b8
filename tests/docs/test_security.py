"""Tests that SECURITY.md names tests that exist, and that state is read without pickle."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import muntin

ROOT = Path(__file__).parents[2]
NAMED = sorted({*re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", (ROOT / "SECURITY.md").read_text())})
# The packages that read state, topics, registries and the tables of sinks.
READING = ("engine", "hosts", "sinks", "sources", "standalone", "state", "stores")
MODULES = {"pickle", "cloudpickle", "marshal", "shelve", "dill"}


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_each_promise_names_a_test(path: str, name: str) -> None:
    text = (ROOT / "tests" / path).read_text()
    assert re.search(rf"^def {name or 'test_'}", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "heading"),
    re.findall(r"\]\((docs/[\w/]+\.md)#([\w-]+)\)", (ROOT / "SECURITY.md").read_text()),
)
def test_each_link_leads_to_a_heading(page: str, heading: str) -> None:
    headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert heading in {text.lower().replace(" ", "-") for text in headings}


@pytest.mark.parametrize("package", READING)
def test_nothing_is_unpickled_or_evaluated(package: str) -> None:
    assert muntin.__file__ is not None
    for path in (Path(muntin.__file__).parent / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = node.module if isinstance(node, ast.ImportFrom) else ""
                names = {module or "", *(alias.name for alias in node.names)}
                assert not {name.partition(".")[0] for name in names} & MODULES, path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec"}, path
