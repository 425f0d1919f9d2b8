"""A query around windows: what it shows, and holds, of what they emit."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from muntin.model.pipeline import Choice, Column, Windowing, quoted
from muntin.sql import ranked
from muntin.sql.expressions import Scope
from muntin.sql.selectlist import END, OWN, START, complete
from muntin.sql.syntax import Select


def around(scope: Scope, select: Select, made: Windowing) -> Windowing:
    """Windows with a select list and a condition over them; the condition holds of firings."""
    if made.ranking is not None:
        return _of_rows(scope, select, made)
    identity = (*made.spec.keys, START, END)
    inner = made.columns or tuple(
        Column(name, quoted(name)) for name in (*identity, *made.spec.aggregates, *OWN)
    )
    known = {column.name.lower(): column for column in inner}
    shown: list[Column] = []
    for item in select.items:
        found = list(inner)
        if item.scalar is not None:
            own = scope.own(item.scalar)
            same = known.get((own or "").lower())
            text = _over(scope, item.scalar, known) if same is None else same.text
            found = [Column(item.alias or own or scope.plain(item.scalar).lower(), text)]
        for column in found:
            taken = {one.name.lower() for one in shown}
            mine = column.name in (*identity, *OWN) and not column.bare
            if mine or column.name.lower() in taken:
                problem = f"{column.name} is a column of the output already"
                scope.fail(item.span, problem, "give it another name with AS")
        shown += found
    having = made.having
    if select.where is not None:
        condition = _over(scope, select.where, known)
        having = condition if having is None else f"({having}) AND ({condition})"
    return replace(made, columns=complete(shown, identity), having=having)


def _of_rows(scope: Scope, select: Select, made: Windowing) -> Windowing:
    """The rows of windows with one more select list over them."""
    if select.where is not None:
        firing = made.spec.firing
        if firing.early is not None or firing.grace:
            hint = "let windows emit once"
            scope.fail(scope.span(select.where), "a row that was emitted may hold no more", hint)
        made = ranked.chosen(made, Choice(None, scope.plain(select.where)))
    return ranked.chosen(made, ranked.listed(scope, select, made, None))


def _over(scope: Scope, node: exp.Expr, known: dict[str, Column]) -> str:
    """An expression over the inner query's columns as one over what windows emit."""

    def named(part: exp.Expr) -> str | None:
        if not isinstance(part, exp.Column):
            return None
        first, *fields = scope.unqualified(part)
        found = known.get(first.lower())
        if found is None:
            hint = f"give some of {', '.join(one.name for one in known.values())}"
            scope.fail(scope.span(part), "the inner query has no such column", hint)
        text = found.text if found.bare else f"({found.text})"
        return ".".join([text, *map(quoted, fields)])

    return scope.rewritten(node, named)
