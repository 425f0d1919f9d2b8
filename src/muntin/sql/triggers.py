"""Lowers ``EMIT`` to the policies that a Python query would set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from muntin.model.axis import Axis
from muntin.model.conditions import read_condition
from muntin.model.errors import OptionError, SqlError
from muntin.model.policies import Each, Firing, FirstThen, OnePolicy, Policy, When
from muntin.sql.cursor import Span
from muntin.sql.intervals import Interval
from muntin.sql.syntax import Emit, PolicyClause, ThenClause, WhenClause


def collect_emit_spans(emit: Emit | None) -> dict[str, Span]:
    """Return the spans of the parts of ``EMIT``, by the names that the model's errors use."""
    spans = {} if emit is None else dict(emit.spans)
    for theirs, ours in (("keep", "retain"), ("deltas", "deltas"), ("up_to", "fill")):
        if ours in spans:
            spans[theirs] = spans[ours]
    for policy in () if emit is None else (emit.early, emit.late):
        for part in policy.parts if isinstance(policy, ThenClause) else (policy,):
            if isinstance(part, WhenClause):
                spans["when"] = part.span
    return spans


def lower_emit(
    text: str,
    emit: Emit | None,
    axis: Axis,
    over_results: Callable[[exp.Expr], str] | None = None,
    *,
    join: bool = False,
) -> Firing:
    """Return the policies that ``EMIT`` asks for.

    Args:
        text: Text of all statements.
        emit: The clause; ``None`` if there is none.
        axis: Axis of the windows.
        over_results: Returns an expression over results; ``None`` for a join, which has none.
        join: Whether the query is a join.
    """
    made = Firing()
    if emit is None:
        return made
    spans = emit.spans
    for part in ("closes", "deltas", "repeat", "fill") if join else ():
        if part in spans:
            hint = "leave it out: a pair is emitted once, as soon as its second message is there"
            raise SqlError(text, spans[part], "a join doesn't wait for windows to close", hint)
    if emit.changes and emit.early is not None:
        hint = "CHANGES emits every change: leave EARLY out"
        raise SqlError(text, spans["early"], "CHANGES and EARLY exclude each other", hint)
    if emit.late is not None and emit.grace is None:
        hint = "add for example GRACE 1 HOUR"
        raise SqlError(text, spans["late"], "without a grace nothing is late, but rejected", hint)
    early = Each() if emit.changes else _lower_policy(text, emit.early, over_results)
    if not emit.repeat and early is None:
        hint = "add for example EARLY EVERY 10 SECONDS"
        problem = "without early firings each window emits once"
        raise SqlError(text, spans["repeat"], problem, hint)
    made = replace(made, early=early, accumulate=not emit.deltas, repeat=emit.repeat)
    if emit.grace is not None:
        grace = _measure_along_axis(text, emit.grace, axis, "grace")
        late = _lower_policy(text, emit.late, over_results)
        late = late or (Each() if emit.changes else made.late)
        made = replace(made, late=late, grace=grace, retention=grace)
    if emit.retain is not None:
        made = replace(made, retention=_measure_along_axis(text, emit.retain, axis, "RETAIN"))
    return replace(made, rows=emit.retain_rows, fill=emit.fill)


def _lower_policy(
    text: str, given: PolicyClause | None, over_results: Callable[[exp.Expr], str] | None
) -> Policy | None:
    if isinstance(given, ThenClause):
        return FirstThen(*(_lower_single_policy(text, part, over_results) for part in given.parts))
    return None if given is None else _lower_single_policy(text, given, over_results)


def _lower_single_policy(
    text: str, given: OnePolicy | WhenClause, over_results: Callable[[exp.Expr], str] | None
) -> OnePolicy:
    if not isinstance(given, WhenClause):
        return given
    if over_results is None:
        hint = "write for example EARLY EVERY 10 SECONDS"
        raise SqlError(text, given.span, "there are no aggregates to look at here", hint)
    condition = over_results(given.condition)
    try:
        read_condition(condition)
    except OptionError as error:
        hint = "compare aggregates and keys with numbers and texts, with AND, OR and NOT"
        raise SqlError(text, given.span, "WHEN compares, and no more", hint) from error
    return When(condition)


def _measure_along_axis(text: str, found: Interval, axis: Axis, what: str) -> int:
    if found.axis != axis:
        hint = "write for example 1 HOUR" if axis == "time" else "write for example 3 ROWS"
        raise SqlError(text, found.span, f"{what} isn't measured in {axis}", hint)
    return found.value
