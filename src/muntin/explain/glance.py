"""A finished query at a glance: its windows on a ruler, and the columns of its results."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from muntin.explain.joins import head_of
from muntin.explain.story import titled, windows_of
from muntin.model.joins import JoinSpec
from muntin.model.spec import WindowSpec

Columns = Iterable[tuple[str, str]]
"""Names and types."""


def glance(spec: WindowSpec | JoinSpec, columns: Columns) -> str:
    """A query in a few lines.

    Example:
        >>> from muntin import count
        >>> from muntin.standalone import windowed
        >>> spec = windowed(key="k", time="at").tumbling("10 s").agg(n=count())
        >>> print(glance(spec, [("k", "string"), ("n", "bigint")]).splitlines()[-1])
        columns   k string, n bigint
    """
    shown = ", ".join(f"{name} {kind}" for name, kind in columns)
    return "\n".join([*_head(spec), *titled("columns", shown)])


def glance_html(spec: WindowSpec | JoinSpec, columns: Columns) -> str:
    """The same for a notebook, with the columns in a table."""
    head = escape("\n".join(_head(spec)))
    return f"<pre>{head}</pre>{table_html('column', 'type', columns)}"


def table_html(left: str, right: str, rows: Iterable[tuple[str, str]]) -> str:
    """Two columns with their heads.

    Example:
        >>> table_html("figure", "value", [("seen", "3")]).partition("<tbody>")[2]
        '<tr><td>seen</td><td>3</td></tr></tbody></table>'
    """
    body = "".join(f"<tr><td>{escape(one)}</td><td>{escape(two)}</td></tr>" for one, two in rows)
    head = f"<thead><tr><th>{escape(left)}</th><th>{escape(right)}</th></tr></thead>"
    return f"<table>{head}<tbody>{body}</tbody></table>"


def _head(spec: WindowSpec | JoinSpec) -> list[str]:
    return head_of(spec) if isinstance(spec, JoinSpec) else windows_of(spec)
