"""A query in words: its windows, when they emit, its state, and what Spark does with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from textwrap import wrap

from muntin.explain.cautions import cautions
from muntin.explain.ruler import ruler
from muntin.explain.size import Rates, amount, estimate, memory
from muntin.model.axis import phrase, spell
from muntin.model.grouping_sets import words
from muntin.model.pipeline import ROWS
from muntin.model.policies import Every, FirstThen, Policy, When
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec

_INDENT = 10


@dataclass(frozen=True)
class Circumstances:
    """What is known of a query beyond its spec.

    Attributes:
        buckets: In how many shards its keys are kept, if that is known.
        columnar: Whether the workers read the input's files themselves, if that is known.
        rates: What comes in, if that is known.
        never_late: Why the event-time column can't be late, if it can't.
        where: Which messages are taken.
        having: Which firings hold.
        source: What is read.
        target: What is written.
        nullable: The columns of the input that may be NULL.
        local: Whether the query runs in one process, without Spark.
    """

    buckets: int | None = None
    columnar: bool | None = None
    rates: Rates | None = None
    never_late: str | None = None
    where: str | None = None
    having: str | None = None
    source: str | None = None
    target: str | None = None
    nullable: Collection[str] = ()
    local: bool = False


def story(spec: WindowSpec, known: Circumstances | None = None) -> str:
    """Say what a query does."""
    known = known or Circumstances()
    lines: list[str] = []
    for title, text in _parts(spec, known):
        lines += windows_of(spec) if title == "windows" else titled(title, text)
    return "\n".join(lines)


def windows_of(spec: WindowSpec) -> list[str]:
    """The lines that say which windows, with a ruler."""
    place = f"on {spec.time}" if spec.axis == "time" else _rows_place(spec)
    whose = f"by {', '.join(spec.key_columns)}" if spec.keys else "of all messages"
    if spec.sets is not None:
        whose = f"by each of the sets {words(spec.sets, spec.key_columns)}"
    drawn = (" " * _INDENT + line for line in ruler(spec.windows))
    text = [*titled("windows", f"{spec.windows}, {whose} {place}"), "", *drawn, ""]
    return [line.rstrip() for line in text]


def titled(title: str, text: str) -> list[str]:
    """A part of the story, in lines."""
    found = wrap(text, 100 - _INDENT, break_long_words=False, break_on_hyphens=False)
    first, *rest = found or [""]
    return [f"{title:<{_INDENT}}{first}".rstrip(), *(" " * _INDENT + line for line in rest)]


def _parts(spec: WindowSpec, known: Circumstances) -> Iterator[tuple[str, str]]:
    yield "reads", _reads(known)
    if known.where is not None:
        yield "takes", f"messages for which {known.where}; the others are counted as filtered"
    yield "windows", ""
    yield "panes", spec.windows.stored
    shown = ", ".join(f"{name}={agg}" for name, agg in spec.aggregates.items() if name != ROWS)
    # Each message that a window ends with is a row, with all that is computed.
    yield "computes", f"for each message: {shown}" if ROWS in spec.aggregates else shown
    yield from _emissions(spec)
    if known.having is not None:
        yield "having", f"{known.having}; a window that was emitted and holds no more is taken back"
    yield from _state(spec, known)
    if known.local:
        yield "runs", _local(spec)
    else:
        yield "spark", _spark(spec, known)
    if known.target is not None:
        yield "writes", known.target
    for caution in cautions(spec, known.rates, known.never_late, known.nullable):
        yield "careful", caution


def _reads(known: Circumstances) -> str:
    source = "" if known.source is None else f"{known.source}: "
    if known.columnar is None:
        return source.removesuffix(": ") or "a DataFrame"
    if known.columnar:
        return f"{source}Parquet, in columns, by the workers"
    return f"{source}rows, as Spark hands them over"


def _rows_place(spec: WindowSpec) -> str:
    if spec.offset is None:
        return "in the order of arrival"
    return f"on {spec.offset[1]} of each {spec.offset[0]}"


def _emissions(spec: WindowSpec) -> Iterator[tuple[str, str]]:
    firing = spec.firing
    early = "never" if firing.early is None else f"while it is current, {policy(firing.early)}"
    yield "early", early
    often = "once" if firing.repeat else "unless nothing is new since it emitted early"
    yield "full", f"{often}, {_full(spec)}"
    if firing.fill is not None:
        long = phrase(firing.fill.up_to)
        sums = "sums and counts" if firing.fill.value == "zero" else "counts"
        yield "empty", f"filled for {long} after a key's last window with a message; {sums} are 0"
    if firing.grace:
        grace = spell(firing.grace, spec.axis)
        yield "late", f"taken for {grace} after the end, emitted {policy(firing.late)}"
    elif spec.by_arrival:
        yield "late", "never: windows follow the order of arrival"
    else:
        yield "late", "rejected: there is no grace"
    yield "emits", "the whole result so far" if firing.accumulate else "what is new"
    if spec.max_ahead is None:
        yield "future", "any time is taken"
    elif spec.axis == "time":
        ahead = phrase(spec.max_ahead)
        yield "future", f"rejected beyond {ahead} ahead of the wall clock; max_ahead= widens it"
    if spec.clocks:
        silent = "" if spec.idle is None else f", unless it was silent for {phrase(spec.idle)}"
        each = ", ".join(spec.clocks)
        yield "clocks", f"one for each {each}; the slowest holds the watermark{silent}"
    if spec.idle is not None:
        yield "idle", f"after {phrase(spec.idle)} without messages the watermark follows the clock"


def policy(chosen: Policy) -> str:
    """When a window emits, as part of a sentence."""
    if isinstance(chosen, FirstThen):
        return f"first {policy(chosen.first)}; then {policy(chosen.then)}"
    if isinstance(chosen, When):
        return f"after each batch that changed it, if {chosen.condition}"
    text = []
    if chosen.rows is not None:
        text.append(f"after {chosen.rows:,} new message{'s' * (chosen.rows > 1)}")
    if chosen.period is not None:
        least = chosen.least if isinstance(chosen, Every) else 1
        news = "changed" if least == 1 else f"at least {least:,} new messages"
        text.append(f"every {phrase(chosen.period)} of wall clock if it has {news}")
    return ", or ".join(text) or "after each batch that changed it"


def _full(spec: WindowSpec) -> str:
    if spec.axis == "rows":
        return "when its last row has come"
    trails = f"{phrase(spec.lateness)} behind the latest event time"
    behind = trails if spec.lateness > 0 else "the latest event time"
    if spec.own_gap is not None:
        return f"when the watermark ({behind}) has passed all of its messages' own gaps"
    if isinstance(spec.windows, Sessions):
        return f"when the watermark ({behind}) is {phrase(spec.windows.gap)} past its last message"
    return f"when the watermark ({behind}) reaches its end"


def _state(spec: WindowSpec, known: Circumstances) -> Iterator[tuple[str, str]]:
    shards = "a shard a core" if known.buckets is None else f"{known.buckets} shards"
    kept = spell(spec.firing.retention, spec.axis)
    until = f"kept until {kept} after its last window"
    if spec.by_arrival:
        until = "kept until its window is full"
    if spec.firing.rows is not None:
        until += f", and at most {spec.firing.rows:,} messages of closed windows"
    yield "state", f"{shards}; {spec.windows.row}, {until}"
    if known.rates is None:
        return
    made, rates = estimate(spec, known.rates), known.rates
    panes = f" in {made.panes:,} panes" if made.panes > 1 else ""
    yield (
        "size",
        f"for {amount(rates.rows)} messages a second of {amount(rates.keys)} keys about "
        f"{amount(made.rows)} rows{panes}, {memory(made.bytes)} before compression; "
        f"about {amount(made.emitted)} results a second",
    )


def _local(spec: WindowSpec) -> str:
    text = "in this process, without Spark; state, offsets and watermark are committed together"
    if spec.firing.on_wall_clock or spec.idle is not None:
        text += "; the clock starts a batch when no input arrives"
    return text


def _spark(spec: WindowSpec, known: Circumstances) -> str:
    before = "combines each batch before the shuffle, a row per key and pane"
    if spec.by_arrival or spec.windows.retracts or spec.offset is not None:
        before = "sorts each batch by key before the shuffle"
    buckets = "each partition" if known.buckets is None else f"{known.buckets} partitions"
    text = f"{before}; then transformWithState in {buckets}, with the state in RocksDB"
    if spec.firing.on_wall_clock or spec.idle is not None:
        text += "; a heartbeat wakes the shards when no input arrives"
    return text
