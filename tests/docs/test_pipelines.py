"""What the docs show of pipelines, errors, rulers and the shell is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from muntin.explain.ruler import draw_ruler
from muntin.explain.windows import describe_spec
from muntin.model.errors import SqlError
from muntin.model.windows import hopping
from muntin.pipelines.toml import parse_pipeline
from muntin.sql import api

DOCS = Path(__file__).parents[2] / "docs"


def fences(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text()
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [body for name, body in found if name == language]


def test_the_pipelines_in_sql_and_in_toml_are_the_same() -> None:
    (sql,), (toml,) = fences("pipelines.md", "sql"), fences("pipelines.md", "toml")
    ours, theirs = api.compile_pipeline(sql), parse_pipeline(toml)
    assert ours.flows == theirs.flows
    assert ours.checkpoint == theirs.checkpoint


def test_the_explanation_is_what_is_said() -> None:
    (shown,) = fences("pipelines.md", "")
    for line in draw_ruler(hopping("10 minutes", "4 minutes")):
        assert " " * 10 + line in shown
    (sql,) = fences("pipelines.md", "sql")
    said = describe_spec(api.compile_pipeline(sql).flows[0].query.spec)
    for part in ("early ", "full ", "late "):
        (line,) = [line for line in shown.splitlines() if line.startswith(part)]
        assert line in said.splitlines()


def test_the_error_is_what_is_said() -> None:
    (shown,) = fences("sql.md", "")
    place = shown.splitlines()[1].strip()
    text = f"SELECT page, count(*)\n\n{place}\nGROUP BY page, window_start, window_end"
    with pytest.raises(SqlError) as caught:
        api.compile_query(text)
    assert str(caught.value) == shown.rstrip()


@pytest.mark.parametrize("page", ["flink", "ksqldb"])
def test_the_statements_beside_those_of_a_peer_are_pipelines(page: str) -> None:
    (sql,) = fences(f"coming-from/{page}.md", "sql")
    read = api.compile_pipeline(sql)
    assert [flow.results for flow in read.flows] == ["views"]
    assert read.checkpoint == "checkpoints"


def test_the_shell_prints_what_its_page_shows(tmp_path: Path) -> None:
    example, *_ = fences("shell.md", "console")
    blocks = dict(re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", example, re.MULTILINE))
    for name in ("clicks.csv", "report.sql"):
        (tmp_path / name).write_text(blocks[f"cat {name}"])
    (command,) = [command for command in blocks if command.startswith("muntin ")]
    *options, _, file = command.split()[1:]
    with (tmp_path / file).open() as statements:
        ran = subprocess.run(
            [Path(sys.executable).with_name("muntin"), *options],
            stdin=statements, cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert ran.stdout == blocks[command]
