"""Cautions about a query for production: unbounded state, delays, and large output."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from muntin.explain.size import Rates, estimate, format_amount
from muntin.model.axis import format_duration
from muntin.model.pipeline import DeclaredTable
from muntin.model.policies import Each, parts
from muntin.model.spec import WindowSpec

# A message in more windows than this causes an unreasonable number of results.
MANY_WINDOWS = 100
_STAMPED = {"rate", "rate-micro-batch", "kafka"}
_NOW = re.compile(r"\b(current_timestamp|localtimestamp|now)\b", re.IGNORECASE)
# Results per input message.
FLOOD = 10


def list_cautions(
    spec: WindowSpec,
    rates: Rates | None = None,
    never_late: str | None = None,
    nullable: Collection[str] = (),
    *,
    finite: bool = False,
) -> list[str]:
    """List what to be careful about in a query.

    ``rates`` is the expected input, ``never_late`` why event times can't be late, and ``nullable``
    the columns of the input that may be NULL. None of a ``finite`` input is late.
    """
    listed = [*_check_keys(spec, nullable), *_check_state(spec)]
    listed += _check_policies(spec) if finite else _check_time(spec, never_late)
    return [*listed, *_check_output(spec, rates)]


def _check_keys(spec: WindowSpec, nullable: Collection[str]) -> Iterator[str]:
    # A message whose partition is NULL is malformed, so it isn't counted here.
    partition_key = spec.offset[:1] if spec.offset is not None else ()
    nullable_keys = [
        key for key in spec.non_null_keys if key in nullable and key not in partition_key
    ]
    if spec.zone_column in nullable_keys:
        nullable_keys.remove(str(spec.zone_column))
        yield f"messages in which {spec.zone_column} is NULL have no zone: rejected (null_key)"
    if nullable_keys:
        yield (
            f"messages in which {' or '.join(nullable_keys)} is NULL are rejected (null_key): "
            'nulls="group" makes NULL a group, as GROUP BY does'
        )


def _check_state(spec: WindowSpec) -> Iterator[str]:
    whole = [name for name, aggregate in spec.aggregates.items() if aggregate.entry.full_state]
    if whole:
        # Those of distinct values keep each value once, the others one for each message.
        yield f"large state: the values of {', '.join(whole)} are kept for every open window"
    if spec.by_arrival and spec.keys:
        yield (
            "unbounded state: windows that count arrivals have no end in time, "
            "so every key is kept indefinitely; offset=(partition, offset) bounds them"
        )
    windows = spec.uniform_windows
    if not windows.is_numbered and windows.axis == "time" and windows.longest is None:
        gap = format_duration(windows.pace) if windows.own_gap is None else "its messages' gaps"
        yield (
            f"a session that is never silent for {gap} never ends: "
            "a key that a machine feeds may not be a visit; longest= ends it"
        )
        if windows.conditions:
            yield (
                "large state: one row is kept for each key and time of an open session, "
                "from which its cuts are found; longest= bounds them"
            )


def _check_time(spec: WindowSpec, never_late: str | None) -> Iterator[str]:
    if spec.axis != "time":
        return
    if never_late is not None and spec.lateness:
        yield (
            f"{spec.time} is never late ({never_late}), so a lateness of "
            f"{format_duration(spec.lateness)} only delays every result by as much"
        )
    accepts_late = spec.firing.grace > 0 or spec.windows.result_key is not None
    if never_late is None and not spec.lateness and not accepts_late:
        yield (
            "neither lateness nor grace: the first message of a new window rejects "
            "whatever still comes for the one before"
        )
    if spec.max_ahead is None:
        yield "no max_ahead: one clock that runs ahead closes everybody's windows"


def _check_policies(spec: WindowSpec) -> Iterator[str]:
    """Name the policies that have no effect where all messages are read at once."""
    policies = {"early": spec.firing.early is not None, "late": spec.firing.grace > 0}
    unused = [name for name, is_set in policies.items() if is_set]
    emits_rows = spec.uniform_windows.rolls
    if unused and not emits_rows:
        verb = "has" if len(unused) == 1 else "have"
        yield (
            f"{' and '.join(unused)} {verb} no effect on .results of input that ends, "
            "which has each window once, in full"
        )


def _check_output(spec: WindowSpec, rates: Rates | None) -> Iterator[str]:
    windows = spec.uniform_windows
    each = windows.overlap
    if each > MANY_WINDOWS:
        yield (
            f"the slide is small: a message counts in {each:,} windows, "
            "so that the output may dwarf the input"
        )
    if rates is not None:
        emitted = estimate(spec, rates).emitted
        if emitted > FLOOD * rates.rows:
            yield (
                f"about {format_amount(emitted)} results a second for "
                f"{format_amount(rates.rows)} messages a second: "
                "a larger slide, fewer early emissions or deltas() reduce it"
            )
    floods = any(isinstance(part, Each) for part in parts(spec.firing.early)[-1:])
    if floods and (each > 1 or (windows.moves and windows.is_numbered)):
        yield "early for each message: every batch emits all windows that it touched"


def explain_never_late(
    spec: WindowSpec, clock: str | None = None, table: DeclaredTable | None = None
) -> str | None:
    """Return the reason why a column of event times can't be late, or ``None``."""
    if spec.time is not None and spec.time == clock:
        return "it is the arrival time"
    if table is None or spec.time is None:
        return None
    if table.connector in _STAMPED and spec.time == "timestamp":
        return f"the source {table.connector} sets it when a message is created or arrives"
    for column in table.computed:
        if column.name == spec.time and _NOW.search(column.text):
            return f"it is {column.text}, the time of reading"
    return None
