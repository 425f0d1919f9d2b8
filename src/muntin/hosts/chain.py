"""Rules of chains of operators in one query: which results another operator may read, and when.

On both hosts, these rules only depend on the specs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from muntin.engine import columns
from muntin.model.bounds import SideName
from muntin.model.errors import OptionError
from muntin.model.inputs import InputSpec
from muntin.model.joins import JoinSpec
from muntin.model.spec import WindowSpec

Spec = WindowSpec | JoinSpec
_Input = TypeVar("_Input", bound=InputSpec)
WINDOW_TIME = "window_time"
"""The column with the last moment of a window, one microsecond before its end."""
DEPTH = "stage"
"""The column of rejected messages that says which operator of a chain of windows rejected one."""
PAIR = "pair"
"""The side of a message that windows over a join rejected."""


def identifies_window(spec: Spec | None) -> bool:
    """Return whether the window is part of the identity of a result, if there are windows."""
    return not isinstance(spec, WindowSpec) or spec.windows.result_key is None


def emits_again(spec: Spec, *, full: bool, streams: bool) -> bool:
    """Return whether a window can be emitted more than once, where each row would count."""
    if full:
        return False
    if not identifies_window(spec):
        return True  # and retracts a key without messages
    if not streams:
        return False
    if isinstance(spec, JoinSpec):
        return spec.bound.revises
    return spec.firing.emits_early or spec.firing.grace > 0


def refuse_revisions(spec: Spec | None, *, each_change: bool) -> NoReturn:
    """Refuse results that may have several rows for one window."""
    hint = (
        "give .full in place of .results, which has each window once, or take early() and "
        "late() from the inner windows"
    )
    if isinstance(spec, JoinSpec):
        hint = "join without each_change=True, and windows by their .full"
    elif each_change:
        hint = "give the windows themselves, and choose among the pairs"
    raise OptionError(
        "frame", "windows", "emit a window again when it changes, and each would count", hint
    )


def end_ahead(spec: Spec) -> int | None:
    """Return by how many microseconds the least future window end exceeds the watermark."""
    if isinstance(spec, JoinSpec) or spec.axis != "time":
        return None
    # A window is full when the watermark reaches its end, so all windows to come end later. Where
    # the end belongs to the window, it is full only when the watermark has passed it.
    return (0 if spec.windows.includes_end else 1) - spec.lag


def change_grace(spec: Spec, keys: Collection[str], *, full: bool, keeps_windows: bool) -> int:
    """Return how long after its end a window may change, where a join emits each of its changes.

    ``keys`` are the windows' columns that the join compares. ``full`` says that only full emissions
    count, ``keeps_windows`` that each row still has the keys and bounds of one window. Rows that
    aren't one whole window, identified by these columns, are refused.
    """
    if isinstance(spec, JoinSpec) or not keeps_windows or not identifies_window(spec):
        hint = "give windows as agg() makes them"
        raise OptionError("each_change", True, "needs one row of each window and key", hint)
    if not spec.firing.accumulate and not full:
        hint = "leave out deltas()"
        raise OptionError("deltas", True, "gives parts of a window, and a pair has the whole", hint)
    identity = (*spec.keys, columns.WINDOW_START, columns.WINDOW_END)
    if {*keys} != {*identity}:
        hint = f"give {', '.join(identity)}"
        raise OptionError("on", (*keys,), "isn't the key and the bounds of a window", hint)
    return max(spec.lag, 0 if full else spec.firing.grace)


class UpstreamOperator(ABC):
    """An operator whose results another one takes, in one query.

    Attributes:
        plan: Its plan.
        full: Whether only its full emissions count; the others are filtered out.
    """

    plan: Any
    full: bool

    @property
    @abstractmethod
    def keeps_windows(self) -> bool:
        """True if each row of its results still has the keys and bounds of one window."""

    @property
    def emits_again(self) -> bool:
        """True if it may emit a window more than once, and each of these rows counts."""
        return emits_again(self.plan.spec, full=self.full, streams=self.plan.reads_streams)

    @property
    def depth(self) -> int:
        """The number of windows of the chain that its results have passed."""
        return depth_of(self.plan) + (0 if self.plan.is_join else 1)

    def change_grace(self, keys: Collection[str]) -> int:
        """Return how long after its end a window may change, microseconds."""
        return change_grace(self.plan.spec, keys, full=self.full, keeps_windows=self.keeps_windows)


def find_disorder(rows: object) -> int:
    """Return how far rows may be out of order, microseconds, if they are an operator's results."""
    if not isinstance(rows, UpstreamOperator):
        return 0
    lag: int | None = rows.plan.spec.lag
    if lag is None:
        hint = 'say how late pairs may come: lateness="10 minutes"'
        raise OptionError("lateness", None, "doesn't follow from this join", hint)
    return lag


def cover_disorder(spec: _Input, rows: object) -> _Input:
    """Return the spec of an input, with the lateness that its rows need if none is set."""
    return spec if spec.lateness else replace(spec, lateness=find_disorder(rows))


def depth_of(plan: Any) -> int:
    """Return the largest number of windows of the chain that messages of a plan have passed."""
    return max((upstream.depth for upstream in plan.upstreams), default=0)


def has_join(plan: Any) -> bool:
    """Return whether a plan or one upstream of it is a join."""
    return plan.is_join or any(has_join(upstream.plan) for upstream in plan.upstreams)


def with_change_grace(
    spec: JoinSpec, upstreams: Mapping[SideName, UpstreamOperator | None]
) -> JoinSpec:
    """Return a join with at least the grace of the windows on each side."""
    for name, upstream in upstreams.items():
        if upstream is not None:
            side = spec.side(name)
            grace = max(upstream.change_grace(side.keys), side.firing.grace)
            firing = replace(side.firing, grace=grace, retention=grace)
            spec = spec.with_side(name, replace(side, firing=firing))
    return spec
