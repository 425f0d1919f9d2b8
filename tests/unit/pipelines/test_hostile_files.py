"""Tests that pipeline files which aren't text, or are too deep or long, end in muntin's errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from muntin.cli.app import build

SQL = """
CREATE TABLE s (k STRING, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '1' SECOND)
WITH (connector = 'json', path = 'in/');
CREATE TABLE v WITH (connector = 'parquet', path = 'out');
SET checkpoint = 'checkpoint';
INSERT INTO v SELECT k, count(*) AS n
FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(at), INTERVAL '1' MINUTE))
WHERE {condition} GROUP BY k, window_start, window_end;
"""


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.sql", bytes(range(256)), "can't be read: it isn't text in UTF-8"),
        ("a.toml", bytes(range(256)), "can't be read: it isn't text in UTF-8"),
        ("a.toml", b"x = " + b"[" * 5000 + b"]" * 5000, "nested too deep"),
        ("a.toml", b"x = " + b"9" * 5000, "isn't TOML"),
    ],
)
def test_a_hostile_file_is_refused(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    check_refusal(tmp_path / name, problem)


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        (" OR ".join(["k = 'a'"] * 5000), "the expression is too long"),
        ("(" * 5000 + "true" + ")" * 5000, "nested too deep"),
        ("(" * 150 + "true" + ")" * 150, "nested too deep"),
        ("k = '" + "a" * 5000 + "' AND " + "NOT " * 300 + "true", "nested too deep"),
        ("1 < " + "9" * 5000, "a number of 5,000 characters"),
        ("1 < 1e" + "9" * 5000, "characters"),
    ],
)
def test_a_hostile_condition_is_refused(tmp_path: Path, condition: str, problem: str) -> None:
    path = tmp_path / "a.sql"
    path.write_text(SQL.format(condition=condition))
    check_refusal(path, problem)


def test_a_condition_of_a_hundred_terms_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "a.sql"
    path.write_text(SQL.format(condition=" OR ".join(["k = 'a'"] * 100)))
    checked = CliRunner().invoke(build(), ["check", str(path)])
    assert checked.exit_code == 0, checked.output


def check_refusal(path: Path, problem: str) -> None:
    checked = CliRunner().invoke(build(), ["check", str(path)])
    assert checked.exit_code == 1
    assert isinstance(checked.exception, SystemExit), checked.exception
    assert problem in " ".join((checked.output + checked.stderr).split())
