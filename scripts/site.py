"""What the documentation shows of the tests and of what is registered.

A page says ``<!-- transcript: FILE: NAME -->``; there the case of that name in
``tests/transcripts/FILE`` stands as a table when the site is built. Where it says
``<!-- aggregates -->`` stand all aggregates.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from muntin.model.aggregates.entry import ENTRIES

ROOT = Path(__file__).resolve().parents[1]
MARK = re.compile(r"^<!-- transcript: (\S+): (.+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for each page."""
    markdown = markdown.replace("<!-- aggregates -->", _aggregates())
    return MARK.sub(lambda found: _table(found[1], found[2]), markdown)


def _aggregates() -> str:
    made = [entry.make for entry in ENTRIES.values()]
    return "\n\n".join(f"::: {make.__module__}.{make.__name__}" for make in made)


def _table(file: str, name: str) -> str:
    cases = yaml.safe_load((ROOT / "tests" / "transcripts" / file).read_text())
    case = next(c for c in cases if c["name"] == name)
    said = "; ".join(f"{key}: {_said(value)}" for key, value in case["spec"].items())
    lines = [
        f"**{name}** — `{said}`",
        "",
        "| wall | arrives | emitted | rejected |",
        "|---|---|---|---|",
    ]
    for step in case["steps"]:
        arrives = [*step.get("messages", []), *(["*the input ends*"] if step.get("final") else [])]
        arrives += [f"*read: {step['backlog']}*"] if "backlog" in step else []
        cells = [_cell(arrives), _cell(step.get("expect", [])), _cell(step.get("rejected", []))]
        lines.append(f"| {step['wall']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(rows: list[str]) -> str:
    return "<br>".join(row if row.startswith("*") else f"`{row}`" for row in rows)


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {one}" for name, one in value.items())
    return str(value)
