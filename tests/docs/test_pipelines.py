"""Tests that pipelines, errors, rulers and outputs of the shell in the docs are right."""

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


def read_fences(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [body for name, body in blocks if name == language]


def test_the_pipelines_in_sql_and_in_toml_are_the_same() -> None:
    (sql,), (toml,) = read_fences("pipelines.md", "sql"), read_fences("pipelines.md", "toml")
    in_sql, in_toml = api.compile_pipeline(sql), parse_pipeline(toml)
    assert in_sql.flows == in_toml.flows
    assert in_sql.checkpoint == in_toml.checkpoint


def test_the_explanation_is_what_is_said() -> None:
    (example,) = read_fences("pipelines.md", "")
    for line in draw_ruler(hopping("10 minutes", "4 minutes")):
        assert " " * 10 + line in example
    (sql,) = read_fences("pipelines.md", "sql")
    explanation = describe_spec(api.compile_pipeline(sql).flows[0].query.spec)
    for part in ("early ", "full ", "late "):
        (line,) = [line for line in example.splitlines() if line.startswith(part)]
        assert line in explanation.splitlines()


def test_the_error_is_what_is_said() -> None:
    (example,) = read_fences("sql.md", "")
    source_line = example.splitlines()[1].strip()
    text = f"SELECT page, count(*)\n\n{source_line}\nGROUP BY page, window_start, window_end"
    with pytest.raises(SqlError) as caught:
        api.compile_query(text)
    assert str(caught.value) == example.rstrip()


@pytest.mark.parametrize("page", ["flink", "ksqldb"])
def test_the_statements_beside_those_of_a_peer_are_pipelines(page: str) -> None:
    (sql,) = read_fences(f"coming-from/{page}.md", "sql")
    pipeline = api.compile_pipeline(sql)
    assert [flow.results for flow in pipeline.flows] == ["views"]
    assert pipeline.checkpoint == "checkpoints"


def test_the_shell_prints_what_its_page_shows(tmp_path: Path) -> None:
    example, *_ = read_fences("shell.md", "console")
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
