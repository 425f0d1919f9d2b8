"""Tests of the counters of words, and of what they pass over."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.check_words import check_modules, check_prose, check_tests, is_participle

MODULE = '''"""What a module holds."""

def kept(frame):
    """Return the rows."""
    found = frame.told
    return [row for row in found]

def _filter_rows(given):
    return given

def _is_grid(windows, rows):
    return isinstance(windows, (Days, Sliding)) and not isinstance(rows, list)

class Frame:
    @property
    def kept_rows(self):
        return self
'''


def test_each_counter_names_its_places(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(MODULE)
    (tmp_path / "two.py").write_text("def kept(rows): return rows")
    assert sorted(check_modules(tmp_path)) == [
        ("docstrings with an unclear start", "one.py:1 What a module holds."),
        ("functions named by a participle", "one.py:3 kept"),
        ("functions named by a participle", "two.py:1 kept"),
        (
            "isinstance on window kinds",
            "one.py:12 isinstance(windows, (Days, Sliding))",
        ),
        ("private words as identifiers", "one.py:5 found"),
        ("private words as identifiers", "one.py:5 told"),
        ("private words as identifiers", "one.py:6 found"),
        ("private words as identifiers", "one.py:8 given"),
        ("private words as identifiers", "one.py:9 given"),
        ("public names in several modules", "kept: one.py, two.py"),
    ]


def test_tests_have_counters_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(MODULE)
    (tmp_path / "two.py").write_text("def kept(rows): return rows")
    (tmp_path / "three.py").write_text("from hypothesis import given\n\n@given()\ndef test(): 1")
    (tmp_path / ".venvs").mkdir()
    (tmp_path / ".venvs" / "four.py").write_text(MODULE)
    private_words = "private words as identifiers in tests"
    findings = list(check_tests([tmp_path]))
    assert (private_words, f"{tmp_path.name}/one.py:5 told") in findings
    assert not any("three.py" in finding or "four.py" in finding for _, finding in findings)
    assert {counter for counter, _ in findings} == {
        "docstrings of tests with an unclear start",
        "functions of tests named by a participle",
        private_words,
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("placed", True),
        ("_told", True),
        ("written_rows", True),
        ("beside", True),
        ("assign_panes", False),
        ("speed", False),
        ("read_seed", False),
        ("is_closed", False),
        ("cut_range", False),
        ("onQueryStarted", False),
        ("__init__", False),
    ],
)
def test_participles(name: str, expected: bool) -> None:
    assert is_participle(name) == expected


def test_sentences_of_tables_and_code_are_passed_over(tmp_path: Path) -> None:
    page, long = tmp_path / "page.md", " ".join(["word"] * 36)
    page.write_text(f"Short.\n\n{long}.\n\n| {long} |\n\n```\n{long}\n```\n")
    start = " ".join(["word"] * 8)
    assert list(check_prose([page])) == [("long sentences", f"page.md: {start} … (36)")]
