"""A short summary of a query: its windows on a ruler, and the columns of its results."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from muntin.explain.joins import describe_join_head
from muntin.explain.windows import describe_windows, format_part
from muntin.model.joins import JoinSpec
from muntin.model.spec import WindowSpec

ColumnTypes = Iterable[tuple[str, str]]
"""Pairs of a column's name and type."""


def format_summary(spec: WindowSpec | JoinSpec, columns: ColumnTypes) -> str:
    """Summarize a query in a few lines.

    Example:
        >>> from muntin import count
        >>> from muntin.standalone import windowed
        >>> spec = windowed(key="k", time="at").tumbling("10 s").agg(n=count())
        >>> print(format_summary(spec, [("k", "string"), ("n", "bigint")]).splitlines()[-1])
        columns   k string, n bigint
    """
    shown = ", ".join(f"{name} {kind}" for name, kind in columns)
    return "\n".join([*_describe_head(spec), *format_part("columns", shown)])


def format_html_summary(spec: WindowSpec | JoinSpec, columns: ColumnTypes) -> str:
    """Summarize a query as HTML for a notebook, with the columns in a table."""
    head = escape("\n".join(_describe_head(spec)))
    return f"<pre>{head}</pre>{format_html_table('column', 'type', columns)}"


def format_html_table(left: str, right: str, rows: Iterable[tuple[str, str]]) -> str:
    """Format two columns with headers as an HTML table.

    Example:
        >>> format_html_table("figure", "value", [("seen", "3")]).partition("<tbody>")[2]
        '<tr><td>seen</td><td>3</td></tr></tbody></table>'
    """
    body = "".join(f"<tr><td>{escape(one)}</td><td>{escape(two)}</td></tr>" for one, two in rows)
    head = f"<thead><tr><th>{escape(left)}</th><th>{escape(right)}</th></tr></thead>"
    return f"<table>{head}<tbody>{body}</tbody></table>"


def _describe_head(spec: WindowSpec | JoinSpec) -> list[str]:
    return describe_join_head(spec) if isinstance(spec, JoinSpec) else describe_windows(spec)
