"""``EMIT`` as the policies that the Python sentence would set."""

from __future__ import annotations

from dataclasses import replace

from muntin.model.axis import Axis
from muntin.model.errors import SqlError
from muntin.model.policies import Each, Firing
from muntin.sql.cursor import Span
from muntin.sql.lengths import Length
from muntin.sql.syntax import Emit


def emit_spans(emit: Emit | None) -> dict[str, Span]:
    """Where the parts of ``EMIT`` stand, by the names that the model's errors give them."""
    spans = {} if emit is None else dict(emit.spans)
    for theirs, ours in (("keep", "retain"), ("deltas", "deltas")):
        if ours in spans:
            spans[theirs] = spans[ours]
    return spans


def firing(text: str, emit: Emit | None, axis: Axis, *, join: bool = False) -> Firing:
    """The policies that ``EMIT`` asks for, as the sentence would set them."""
    made = Firing()
    if emit is None:
        return made
    spans = emit.spans
    for part in ("closes", "deltas", "repeat") if join else ():
        if part in spans:
            hint = "leave it out: a pair is emitted once, as soon as its second message is there"
            raise SqlError(text, spans[part], "a join doesn't wait for windows to close", hint)
    if emit.changes and emit.early is not None:
        hint = "CHANGES emits every change: leave EARLY out"
        raise SqlError(text, spans["early"], "CHANGES and EARLY exclude each other", hint)
    if emit.late is not None and emit.grace is None:
        hint = "add for example GRACE 1 HOUR"
        raise SqlError(text, spans["late"], "without a grace nothing is late, but rejected", hint)
    early = Each() if emit.changes else emit.early
    if not emit.repeat and early is None:
        hint = "add for example EARLY EVERY 10 SECONDS"
        problem = "without early firings each window emits once"
        raise SqlError(text, spans["repeat"], problem, hint)
    made = replace(made, early=early, accumulate=not emit.deltas, repeat=emit.repeat)
    if emit.grace is not None:
        grace = _along(text, emit.grace, axis, "grace")
        late = emit.late or (Each() if emit.changes else made.late)
        made = replace(made, late=late, grace=grace, retention=grace)
    if emit.retain is not None:
        made = replace(made, retention=_along(text, emit.retain, axis, "RETAIN"))
    return replace(made, rows=emit.retain_rows)


def _along(text: str, found: Length, axis: Axis, what: str) -> int:
    if found.axis != axis:
        hint = "write for example 1 HOUR" if axis == "time" else "write for example 3 ROWS"
        raise SqlError(text, found.span, f"{what} isn't measured in {axis}", hint)
    return found.value
