"""Hooks of MkDocs: tables of the tests, the list of aggregates, and pages for language models.

Where a page says ``<!-- transcript: FILE: NAME -->``, the site shows the case of that name in
``tests/transcripts/FILE`` as a table, and where it says ``<!-- aggregates -->`` all aggregates.
Beside the pages the site has their Markdown, ``llms.txt``, which lists them, and
``llms-full.txt``, which holds them all and each public name with its docstring.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

import muntin
from muntin.model.aggregates.entry import ENTRIES

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
MARK = re.compile(r"^<!-- transcript: (\S+): (.+) -->$", re.MULTILINE)
# A reference page is a list of names: llms-full.txt has them from the package.
GENERATED = "reference/"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for each page."""
    markdown = markdown.replace("<!-- aggregates -->", _aggregates())
    return MARK.sub(lambda match: _table(match[1], match[2]), markdown)


def on_post_build(config: Mapping[str, Any], **_: Any) -> None:
    """Called by MkDocs when all pages are written."""
    for name, text in texts(config["nav"], config["site_description"]).items():
        file = Path(config["site_dir"]) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def texts(nav: list[Any], description: str) -> dict[str, str]:
    """Return the plain texts of the site by the names of their files.

    Args:
        nav: The navigation, as mkdocs.yml has it.
        description: The sentence that says what the package is.
    """
    pages = dict(_pages(nav))
    markdown = {page: on_page_markdown((DOCS / page).read_text()) for page in pages}
    lines = [f"# muntin\n\n> {description}\n"]
    lines += [f"- [{pages[page]}]({page}): {_first_line(text)}" for page, text in markdown.items()]
    prose = [text for page, text in markdown.items() if not page.startswith(GENERATED)]
    return {
        **markdown,
        "llms.txt": "\n".join(lines) + "\n",
        "llms-full.txt": "\n\n".join([*prose, "# Public names", *_public_names()]) + "\n",
    }


def _pages(nav: list[Any], section: str = "") -> Iterator[tuple[str, str]]:
    """Yield the pages of a navigation, each with its title."""
    for entry in nav:
        if isinstance(entry, str):
            yield entry, f"{section}overview"
            continue
        for title, target in entry.items():
            if isinstance(target, str):
                yield target, section + title
            else:
                yield from _pages(target, f"{title}: ")


def _first_line(markdown: str) -> str:
    """Return the first paragraph of a page, without links and pictures."""
    prose = re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    paragraphs = [part for part in prose.split("\n\n") if part.strip() and part[0] not in "#:<|!"]
    line = " ".join(paragraphs[0].split()) if paragraphs else "generated from the docstrings."
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line)


def _public_names() -> Iterator[str]:
    """Yield each public name with its signature and docstring."""
    for name in vars(muntin)["__all__"]:
        value = getattr(muntin, name)
        signature = str(inspect.signature(value)) if inspect.isfunction(value) else ""
        yield f"## muntin.{name}{signature}\n\n{inspect.getdoc(value) or ''}"


def _aggregates() -> str:
    functions = [entry.make for entry in ENTRIES.values()]
    return "\n\n".join(f"::: {function.__module__}.{function.__name__}" for function in functions)


def _table(file: str, name: str) -> str:
    cases = yaml.load((ROOT / "tests" / "transcripts" / file).read_text(), _LOADER)
    case = next(c for c in cases if c["name"] == name)
    spec = "; ".join(f"{key}: {_format_value(value)}" for key, value in case["spec"].items())
    lines = [
        f"**{name}** — `{spec}`",
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


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {part}" for name, part in value.items())
    return str(value)
