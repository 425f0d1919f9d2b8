"""Lowers ``EMIT`` to the trigger policies of the model."""

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
    for option, part_name in (("keep", "retain"), ("deltas", "deltas"), ("up_to", "fill")):
        if part_name in spans:
            spans[option] = spans[part_name]
    for clause in () if emit is None else emit.when_clauses:
        spans["when"] = clause.span
    return spans


def lower_emit(
    text: str,
    emit: Emit | None,
    axis: Axis,
    render_over_results: Callable[[exp.Expr], str] | None = None,
    *,
    is_join: bool = False,
) -> Firing:
    """Return the trigger policies that ``EMIT`` asks for.

    ``render_over_results`` returns the text of an expression over results; ``None`` if the query
    has no aggregates.

    Raises:
        SqlError: When clauses exclude each other or the query can't have them.
    """
    firing = Firing()
    if emit is None:
        return firing
    spans = emit.spans
    for part in ("closes", "deltas", "repeat", "fill", "over") if is_join else ():
        if part in spans:
            hint = "leave it out: a pair is emitted once, when its second message arrives"
            raise SqlError(text, spans[part], "this clause doesn't apply to joins", hint)
    if emit.changes and emit.early is not None:
        hint = "CHANGES emits every change: leave EARLY out"
        raise SqlError(text, spans["early"], "CHANGES and EARLY can't be combined", hint)
    if emit.late is not None and (emit.grace is None or not emit.grace.value):
        hint = "add for example GRACE 1 HOUR"
        raise SqlError(text, spans["late"], "without a grace late messages are rejected", hint)
    early = Each() if emit.changes else _lower_policy(text, emit.early, render_over_results)
    if not emit.repeat and early is None:
        hint = "add for example EARLY EVERY 10 SECONDS"
        problem = "without EARLY each window emits once"
        raise SqlError(text, spans["repeat"], problem, hint)
    firing = replace(firing, early=early, over=emit.over)
    firing = replace(firing, accumulate=not emit.deltas, repeat=emit.repeat)
    if emit.grace is not None:
        grace = _measure_along_axis(text, emit.grace, axis, "grace")
        late = _lower_policy(text, emit.late, render_over_results)
        late = late or (Each() if emit.changes else firing.late)
        firing = replace(firing, late=late, grace=grace, retention=grace)
    if emit.retain is not None:
        firing = replace(firing, retention=_measure_along_axis(text, emit.retain, axis, "RETAIN"))
    return replace(firing, rows=emit.retain_rows, fill=emit.fill)


def _lower_policy(
    text: str, policy: PolicyClause | None, render_over_results: Callable[[exp.Expr], str] | None
) -> Policy | None:
    if isinstance(policy, ThenClause):
        return FirstThen(
            *(_lower_single_policy(text, part, render_over_results) for part in policy.parts)
        )
    return None if policy is None else _lower_single_policy(text, policy, render_over_results)


def _lower_single_policy(
    text: str, policy: OnePolicy | WhenClause, render_over_results: Callable[[exp.Expr], str] | None
) -> OnePolicy:
    if not isinstance(policy, WhenClause):
        return policy
    if render_over_results is None:
        hint = "write for example EARLY EVERY 10 SECONDS"
        raise SqlError(text, policy.span, "this query has no aggregates for WHEN", hint)
    condition = render_over_results(policy.condition)
    try:
        read_condition(condition)
    except OptionError as error:
        hint = "compare aggregates and keys with numbers and texts, with AND, OR and NOT"
        raise SqlError(text, policy.span, "WHEN only takes comparisons", hint) from error
    return When(condition)


def _measure_along_axis(text: str, interval: Interval, axis: Axis, clause: str) -> int:
    if interval.axis != axis:
        hint = "write for example 1 HOUR" if axis == "time" else "write for example 3 ROWS"
        raise SqlError(text, interval.span, f"{clause} isn't measured in {axis}", hint)
    return interval.value
