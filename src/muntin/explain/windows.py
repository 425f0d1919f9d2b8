"""Describes a query in words: its windows, when they emit, its state, and how it runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from textwrap import wrap

from muntin.explain.cautions import list_cautions
from muntin.explain.ruler import draw_ruler
from muntin.explain.size import Rates, estimate, format_amount, format_bytes
from muntin.model.axis import Axis, format_duration, format_length
from muntin.model.fill import Fill, write_constant
from muntin.model.grouping_sets import format_sets
from muntin.model.inputs import BY_GREATEST, BY_SOURCE, DURATIONS, InputSpec
from muntin.model.pipeline import ROWS
from muntin.model.policies import After, Every, FirstThen, Never, Policy, When
from muntin.model.printable import format_count
from muntin.model.rolling import emits_plain_rows
from muntin.model.sessions import AN_EXPRESSION, Sessions
from muntin.model.spec import WindowSpec

_INDENT = 10


@dataclass(frozen=True)
class Circumstances:
    """Facts about a query that its spec doesn't have.

    Attributes:
        columnar: Whether the workers read the input's files themselves, if known.
        never_late: Why the event times can't be late, if they can't.
        where: The condition on messages.
        having: The condition on emissions.
        nullable: The columns of the input that may be NULL.
        local: Whether the query runs in one process, without Spark.
        finite: Whether all of the input exists, so that none of it can be late.
    """

    shards: int | None = None
    columnar: bool | None = None
    rates: Rates | None = None
    never_late: str | None = None
    where: str | None = None
    having: str | None = None
    source: str | None = None
    target: str | None = None
    nullable: Collection[str] = ()
    local: bool = False
    finite: bool = False


def describe_spec(spec: WindowSpec, circumstances: Circumstances | None = None) -> str:
    """Describe a query."""
    circumstances = circumstances or Circumstances()
    lines: list[str] = []
    for title, text in _describe_parts(spec, circumstances):
        lines += describe_windows(spec) if title == "windows" else format_part(title, text)
    return "\n".join(lines)


def describe_windows(spec: WindowSpec) -> list[str]:
    """Describe the windows, with a ruler."""
    if emits_plain_rows(spec):
        return format_part("windows", "none: each message is a row of the results, as it comes")
    position_text = f"on {spec.time}" if spec.axis == "time" else _describe_row_axis(spec)
    keys = f"by {', '.join(spec.key_columns)}" if spec.keys else "of all messages"
    if spec.sets is not None:
        keys = f"by each of the sets {format_sets(spec.sets, spec.key_columns)}"
    drawn = (" " * _INDENT + line for line in draw_ruler(spec.windows))
    text = [*format_part("windows", f"{spec.windows}, {keys} {position_text}"), "", *drawn, ""]
    return [line.rstrip() for line in text]


def format_part(title: str, text: str) -> list[str]:
    """Format a part of the description, in lines."""
    wrapped = wrap(text, 100 - _INDENT, break_long_words=False, break_on_hyphens=False)
    first, *rest = wrapped or [""]
    return [f"{title:<{_INDENT}}{first}".rstrip(), *(" " * _INDENT + line for line in rest)]


def _describe_parts(spec: WindowSpec, circumstances: Circumstances) -> Iterator[tuple[str, str]]:
    yield "reads", _describe_input(circumstances)
    if circumstances.where is not None:
        yield (
            "takes",
            f"messages for which {circumstances.where}; the others are counted as filtered",
        )
    yield "windows", ""
    if emits_plain_rows(spec):
        yield "state", f"{format_shards(circumstances.shards)}; the number of messages"
    else:
        yield from _describe_results(spec, circumstances)
    if circumstances.local:
        yield "runs", _describe_local(spec)
    else:
        yield "spark", _describe_spark(spec, circumstances)
    if circumstances.target is not None:
        yield "writes", circumstances.target
    for caution in list_cautions(
        spec,
        circumstances.rates,
        circumstances.never_late,
        circumstances.nullable,
        finite=circumstances.finite,
    ):
        yield "careful", caution


def _describe_results(spec: WindowSpec, circumstances: Circumstances) -> Iterator[tuple[str, str]]:
    yield "panes", spec.windows.storage
    shown = ", ".join(f"{name}={agg}" for name, agg in spec.aggregates.items() if name != ROWS)
    # Each message that a window ends with is a row, with all that is computed.
    yield "computes", f"for each message: {shown}" if ROWS in spec.aggregates else shown
    yield from _describe_emissions(spec)
    if circumstances.having is not None:
        yield (
            "having",
            f"{circumstances.having}; a window that was emitted and holds no more is taken back",
        )
    yield from _describe_state(spec, circumstances)


def _describe_input(circumstances: Circumstances) -> str:
    source = "" if circumstances.source is None else f"{circumstances.source}: "
    if circumstances.columnar is None:
        return source.removesuffix(": ") or "a DataFrame"
    if circumstances.columnar:
        return f"{source}Parquet, in columns, by the workers"
    return f"{source}rows, as Spark hands them over"


def _describe_fill(fill: Fill) -> Iterator[str]:
    """Yield what windows without messages have, for all aggregates and for single ones."""
    words = {
        "zero": "sums and counts are 0",
        "null": "counts are 0",
        "previous": "values as in that window",
        "linear": "values on the line to the next one",
    }
    yield f"{'other ' if fill.values else ''}{words[fill.value]}"
    for name, way in fill.values:
        match way:
            case "previous":
                yield f"{name} as in that window"
            case "linear":
                yield f"{name} on the line to the next one"
            case _:
                yield f"{name} is {write_constant(way)}"
    if fill.waits:
        yield "emitted when the next one has closed"


def _describe_row_axis(spec: WindowSpec) -> str:
    if spec.offset is None:
        return "in the order of arrival"
    return f"on {spec.offset[1]} of each {spec.offset[0]}"


def _describe_emissions(spec: WindowSpec) -> Iterator[tuple[str, str]]:
    if spec.windows.result_key is not None:
        yield from _describe_instants(spec)
    else:
        yield from _describe_firings(spec)
    yield from describe_input_options(spec, spec.axis)


def describe_input_options(spec: InputSpec, axis: Axis) -> Iterator[tuple[str, str]]:
    """Describe the options of an input, apart from its lateness: titles and texts."""
    clocks = ", ".join(spec.clocks)
    if spec.watermark == BY_SOURCE:
        clocks = "partition of the source"
    if clocks:
        idle = spec.idle
        silent = "" if idle is None else f", unless it was silent for {format_duration(idle)}"
        yield "clocks", f"one for each {clocks}; the slowest holds the watermark{silent}"
    elif spec.watermark == BY_GREATEST:
        yield "clocks", "one for the whole input, which the greatest event time advances"
    if spec.offset is not None and axis == "time":
        partition, offset = spec.offset
        yield "offset", f"{offset} of each {partition}; a message that was read before is ignored"
    for option in DURATIONS:
        yield from option.describe(getattr(spec, option.name), axis)


def _describe_instants(spec: WindowSpec) -> Iterator[tuple[str, str]]:
    windows = spec.uniform_windows
    yield (
        "emits",
        f"when the watermark ({_describe_lag(spec)}) reaches a multiple of "
        f"{format_duration(windows.pace)}, the keys and look-backs that have changed; "
        "one without messages is retracted",
    )
    oldest = format_duration(windows.length)
    yield "late", f"counted from the next multiple on, and rejected if older than {oldest} then"


def _describe_firings(spec: WindowSpec) -> Iterator[tuple[str, str]]:
    firing = spec.firing
    early = "never"
    if isinstance(firing.early, Never):
        early = "while it is current, only when too many wait"
    elif firing.early is not None:
        early = f"while it is current, {describe_policy(firing.early)}"
    if firing.over is not None:
        share = ", of which each shard has an equal part" if spec.shards != 1 else ""
        early += f"; {firing.over}{share}"
    yield "early", early
    often = "once" if firing.repeat else "unless nothing is new since it emitted early"
    yield "full", f"{often}, {_describe_full(spec)}"
    if "start" in spec.windows.conditions:
        yield "outside", "messages that no session has are rejected when the watermark passes them"
    if firing.fill is not None:
        long = format_duration(firing.fill.up_to)
        ways = "; ".join(_describe_fill(firing.fill))
        yield "empty", f"filled for {long} after a key's last window with a message; {ways}"
    if firing.grace:
        grace = format_length(firing.grace, spec.axis)
        yield "late", f"taken for {grace} after the end, emitted {describe_policy(firing.late)}"
    elif spec.by_arrival:
        yield "late", "never: windows follow the order of arrival"
    else:
        yield "late", "rejected: there is no grace"
    yield "emits", "the whole result so far" if firing.accumulate else "what is new"


def describe_policy(policy: Policy) -> str:
    """Describe a trigger policy, as part of a sentence."""
    if isinstance(policy, FirstThen):
        return f"first {describe_policy(policy.first)}; then {describe_policy(policy.then)}"
    if isinstance(policy, Never):
        return str(policy)
    if isinstance(policy, When):
        return f"after each batch that changed it, if {policy.condition}"
    text = []
    if policy.rows is not None:
        text.append(f"after {format_count(policy.rows, 'new message')}")
    if isinstance(policy, After):
        text.append(
            f"{format_duration(policy.wait)} of wall clock after the {policy.since} new message"
        )
    elif policy.period is not None:
        least = policy.least if isinstance(policy, Every) else 1
        news = "changed" if least == 1 else f"at least {least:,} new messages"
        text.append(f"every {format_duration(policy.period)} of wall clock if it has {news}")
    return ", or ".join(text) or "after each batch that changed it"


def _describe_full(spec: WindowSpec) -> str:
    if spec.axis == "rows":
        return "when its last row has come"
    behind = _describe_lag(spec)
    windows = spec.windows
    if windows.own_gap is not None:
        return f"when the watermark ({behind}) has passed all of its messages' own gaps"
    if not windows.is_numbered:
        gap, longest = format_duration(windows.gap), windows.longest
        most = "" if longest is None else f", or {format_duration(longest)} past its first"
        sooner = "".join(f", or past {cut}" for cut in _describe_cuts(windows))
        return f"when the watermark ({behind}) is {gap} past its last message{most}{sooner}"
    return f"when the watermark ({behind}) reaches its end"


def _describe_lag(spec: WindowSpec) -> str:
    trails = f"{format_duration(spec.lateness)} behind the latest event time"
    return trails if spec.lateness > 0 else "the latest event time"


def _describe_cuts(windows: Sessions) -> Iterator[str]:
    """Describe the messages that end a session before a gap does."""
    if windows.end is not None:
        yield f"a message that ends it: {_describe_condition(windows.end)}"
    elif windows.start is not None:
        yield f"one that begins another: {_describe_condition(windows.start)}"
    if windows.same is not None:
        yield f"one with another value of {_describe_condition(windows.same)}"


def _describe_condition(condition: object) -> str:
    return condition if isinstance(condition, str) else AN_EXPRESSION


def format_shards(shards: int | None) -> str:
    """Format a number of shards, or what it will be where it isn't set."""
    if shards is None:
        return "one shard for each core"
    return "1 shard" if shards == 1 else f"{shards:,} shards"


def _describe_state(spec: WindowSpec, circumstances: Circumstances) -> Iterator[tuple[str, str]]:
    shards = format_shards(circumstances.shards)
    until = "kept until the end of its last window"
    if spec.firing.retention:
        until = (
            f"kept until {format_length(spec.firing.retention, spec.axis)} after its last window"
        )
    if spec.by_arrival:
        until = "kept until its window is full"
    if spec.windows.result_key is not None:
        until = "kept until it has left the longest look-back"
    if spec.firing.rows is not None:
        until += f", and at most {spec.firing.rows:,} messages of closed windows"
    yield "state", f"{shards}; {spec.windows.row}, {until}"
    if circumstances.rates is None:
        return
    load, rates = estimate(spec, circumstances.rates), circumstances.rates
    panes = f" in {load.panes:,} panes" if load.panes > 1 else ""
    yield (
        "size",
        f"for {format_amount(rates.rows)} messages a second of {format_amount(rates.keys)} keys "
        f"about {format_amount(load.rows)} rows{panes}, {format_bytes(load.bytes)} before "
        f"compression; about {format_amount(load.emitted)} results a second",
    )


def _describe_local(spec: WindowSpec) -> str:
    text = "in this process, without Spark; state, offsets and watermark are committed together"
    if spec.follows_clock:
        text += "; the clock starts a batch when no input arrives"
    return text


def _describe_spark(spec: WindowSpec, circumstances: Circumstances) -> str:
    preparation = "combines each batch before the shuffle, a row per key and pane"
    if spec.by_arrival or not spec.windows.is_numbered or spec.offset is not None:
        preparation = "sorts each batch by key before the shuffle"
    partitions = (
        "each partition" if circumstances.shards is None else f"{circumstances.shards} partitions"
    )
    text = f"{preparation}; then transformWithState in {partitions}, with the state in RocksDB"
    if spec.follows_clock:
        text += "; a heartbeat wakes the shards when no input arrives"
    return text
