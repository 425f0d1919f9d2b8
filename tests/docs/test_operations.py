"""Tests that the docs name the metrics that are served, and quote texts that are printed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import muntin
from muntin.hosts.inspect.metrics import Metrics

DOCS = Path(__file__).parents[2] / "docs"
MONITORING = (DOCS / "monitoring.md").read_text()
TROUBLES = (DOCS / "troubleshooting.md").read_text()
TABLE = TROUBLES.partition("| you see | it is | do |")[2].partition("\n\n")[0]
# The texts that the rows quote; a quotation without a space is a name.
QUOTED = [
    quoted
    for row in TABLE.splitlines()[2:]
    for quoted in re.findall(r"`([^`]+)`", row.split(" | ")[0])
    if " " in quoted
]
# Words that stand for a value: a number, a path, an option, or a word of the example.
VALUE = re.compile(
    r".*[\d…=/'*$:].*|clicks|views|refused\.|\(signal|\(answers|spark\.autenticate|spark\.authenticate\?"
)


def test_the_page_names_the_metrics_that_are_served() -> None:
    served = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in Metrics(()).collect()
    }
    assert set(re.findall(r"\bmuntin_\w+", MONITORING)) == served


@cache
def list_texts() -> str:
    """Return all texts in the package's code, one a line."""
    assert muntin.__file__ is not None
    trees = (ast.parse(path.read_text()) for path in Path(muntin.__file__).parent.rglob("*.py"))
    constants = (n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Constant))
    return "\n".join(f" {n.value} " for n in constants if isinstance(n.value, str))


def find_unprinted_words(words: list[str]) -> Iterator[str]:
    """Yield the words that no text in the code has; next to a value, a single word counts."""
    at = 0
    while at < len(words):
        ends = (
            end for end in range(len(words), at + 1, -1) if " ".join(words[at:end]) in list_texts()
        )
        end = next(ends, at)
        neighbours = [*words[max(at - 1, 0) : at], *words[at + 1 : at + 2]]
        if end == at and not (
            any(map(VALUE.fullmatch, neighbours)) and f" {words[at]}" in list_texts()
        ):
            yield words[at]
        at = max(end, at + 1)


@pytest.mark.parametrize("quoted", QUOTED)
def test_a_quoted_text_is_printed(quoted: str) -> None:
    words = quoted.split()
    unprinted = [*find_unprinted_words(words)]
    assert [word for word in unprinted if not VALUE.fullmatch(word)] == []
    assert len(unprinted) < len(words)
