"""Explains why a window hasn't emitted, or why a message is rejected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from muntin.model.axis import (
    MIN_POSITION,
    SECOND,
    format_duration,
    format_length,
    format_position,
    format_time,
)
from muntin.model.counts import format_rejections
from muntin.model.fill import Fill
from muntin.model.policies import After, Every, Never, OnePolicy, turn
from muntin.model.seen import SessionSeen, WindowSeen
from muntin.model.spec import PARTLY_LATE, WindowSpec
from muntin.model.trailing import Trailing
from muntin.state.manifest import Reopened, find_edges

# More windows than this aren't listed one by one.
MAX_LISTED = 12


@dataclass(frozen=True)
class Clocks:
    """The clocks of a shard.

    Attributes:
        watermark: The watermark, microseconds; ``None`` before the first message.
        counts: Messages so far, by what became of them.
        times: The times of the input's clocks, the slowest first, where it has several.
        held_by: The clock that holds the watermark back, if one does.
        ahead: How far the watermark is ahead of the machine's clock, microseconds.
        reopened: The windows that stay closed after the watermark was set back.
    """

    watermark: int | None
    wall: int | None
    counts: Mapping[str, int]
    times: Mapping[str, int] = field(default_factory=dict)
    held_by: str | None = None
    ahead: int = 0
    reopened: Reopened | None = None

    def find_edges(self, grace: int) -> tuple[int, int] | None:
        """Return the positions by which windows have closed, and by which they have ended."""
        return find_edges(self.watermark, grace, self.reopened)


def describe_query_state(spec: WindowSpec, clocks: Clocks) -> Iterator[str]:
    """Describe the query now: its windows, its watermark, its rejected messages."""
    yield f"windows    {spec.windows}, on {spec.time or 'the order of messages'}"
    if clocks.watermark is None:
        yield "watermark  none: no message has moved it yet"
    elif spec.axis == "rows":
        yield f"watermark  row {clocks.watermark} of this key's partition is the next"
    else:
        seen = format_time(clocks.watermark + spec.lateness)
        latest = "the latest event time" if clocks.held_by is None else f"{clocks.held_by} at"
        behind = f"{format_duration(spec.lateness)} behind {latest} {seen}"
        yield f"watermark  {format_time(clocks.watermark)}, {behind}"
    if clocks.ahead:
        seconds = format_duration(clocks.ahead // SECOND * SECOND)
        yield f"ahead      {seconds} of this machine's clock: right messages are late"
        yield "           muntin reset-watermark sets it back"
    yield from _describe_clocks(spec, clocks)
    if clocks.wall is not None:
        yield f"clock      {format_time(clocks.wall)}, at the last batch of this key's shard"
    rejected = format_rejections(clocks.counts)
    if rejected:
        yield f"rejected   {rejected}, of all keys so far"
    partly = clocks.counts.get(PARTLY_LATE, 0)
    if partly:
        yield f"late       {partly:,} of the counted were too late for some of their windows"


def _describe_clocks(spec: WindowSpec, clocks: Clocks) -> Iterator[str]:
    """Describe the clocks of the input, and the one that holds the watermark back."""
    if not clocks.times:
        return
    if clocks.held_by is not None:
        more = "it isn't read to its end"
        if spec.clocks:
            idle = (
                ""
                if spec.idle is None
                else f", for {format_duration(spec.idle)} of silence at most"
            )
            more = f"more messages of it may come{idle}"
        yield f"held by    {clocks.held_by}: {more}"
    for name, time in [*clocks.times.items()][:MAX_LISTED]:
        yield f"clock      {name} has reached {format_time(time)}"
    if len(clocks.times) > MAX_LISTED:
        yield f"…          {len(clocks.times) - MAX_LISTED:,} more clocks, which are ahead"


def explain_windows(
    spec: WindowSpec, clocks: Clocks, windows: Sequence[WindowSeen], at: int | None
) -> Iterator[str]:
    """Explain some windows of a key, and a message at a time, if one is asked about."""
    closed, ended = _find_last_closed(spec, clocks)
    open_windows = [window for window in windows if window.number > closed]
    half, many = MAX_LISTED // 2, len(windows) > MAX_LISTED
    for index, window in enumerate([*windows[:half], *windows[-half:]] if many else windows):
        if index == half and many:
            yield f"…          {len(windows) - MAX_LISTED:,} windows between"
        start, end = (format_position(p, spec.axis) for p in (window.start, window.end))
        yield f"window     {start} to {end}"
        if window.number <= closed:
            lines = _explain_closed(spec, window)
        elif window.number <= ended:
            lines = _explain_past(spec, clocks, window)
        else:
            lines = _explain_current(spec, clocks, window)
        yield from (f"           {line}" for line in lines)
    if at is not None:
        yield _explain_message(spec, clocks, windows, open_windows, at)
    elif not windows:
        yield "window     none in the state: the key never had a message, or all are expired"


def _find_last_closed(spec: WindowSpec, clocks: Clocks) -> tuple[int, int]:
    """Return the latest window that is closed, and the latest that has ended."""
    kind, edges = spec.uniform_windows, clocks.find_edges(spec.firing.grace)
    if edges is None:
        return MIN_POSITION, MIN_POSITION
    return kind.last_ended(edges[0]), kind.last_ended(edges[1])


def _explain_current(spec: WindowSpec, clocks: Clocks, window: WindowSeen) -> Iterator[str]:
    met = _describe_progress_needed(spec, window.end)
    if spec.idle is not None:
        met += f", or by the wall clock after {format_duration(spec.idle)} without messages"
    yield f"not full yet: the watermark hasn't reached its end. It will when {met}"
    if not window.messages:
        fill = spec.firing.fill
        empty = "a window without messages "
        empty += "doesn't emit" if fill is None else f"is {_describe_filling(fill)}"
        yield f"holds no message of this key, and {empty}"
        return
    emitted = f"has emitted early {window.fired} times" if window.fired else "hasn't emitted early"
    waits = "nothing is new since"
    if spec.firing.early is None:
        waits = "there is no early policy"
    elif window.unemitted_early:
        policy = turn(spec.firing.early, window.fired > 0)
        waits = _describe_waiting(policy, clocks, window.unemitted_early)
    yield f"holds {window.messages:,} messages, and {emitted}: {waits}"


def _describe_progress_needed(spec: WindowSpec, position: int) -> str:
    """Describe the message that lets the watermark reach a position."""
    if spec.axis == "rows":
        return f"row {position - 1} of the partition has arrived"
    at = format_time(position + spec.lateness)
    return f"a message of any key has the event time {at} or later"


def explain_ended_input(
    spec: WindowSpec, windows: Sequence[WindowSeen] | Sequence[SessionSeen]
) -> Iterator[str]:
    """Explain the windows or sessions of a key after the input has ended."""
    yield "input      has ended: every window has emitted its final result"
    for window in windows:
        if isinstance(window, SessionSeen):
            bounds, name = (window.first, window.end), "session"
        else:
            bounds, name = (window.start, window.end), "window "
        start, end = (format_position(bound, spec.axis) for bound in bounds)
        yield f"{name}    {start} to {end}"
        yield f"           {window.messages:,} messages of it are still in the state"


def explain_arrivals(spec: WindowSpec, arrived: int, at: int) -> Iterator[str]:
    """Explain the windows of a key that counts its messages, and the message numbered ``at``.

    ``arrived`` is the number of messages of the key so far.
    """
    kind = spec.uniform_windows
    assert kind.is_numbered
    yield f"windows    {spec.windows}, in the order in which messages arrive"
    yield f"messages   {arrived:,} of this key so far, numbered from 0"
    for number in kind.windows_at(at):
        start, end = kind.start(number), kind.end(number)
        yield f"window     row {start} to row {end}"
        if end <= arrived:
            yield f"           emitted in full when row {end - 1} came, and isn't kept"
            continue
        early = "there is no early policy"
        if spec.firing.early is not None:
            early = f"it emits early: {spec.firing.early}"
        kept_count = max(0, arrived - max(0, start))
        yield (
            f"           not full yet: holds {kept_count:,} messages, and {end - arrived:,} "
            f"more of this key have to come; {early}"
        )
    if at < arrived:
        yield f"message {at} has come: by their arrival none is late"
    else:
        yield f"message {at} is still to come: the next of this key is {arrived}"


def _describe_waiting(policy: OnePolicy, clocks: Clocks, unemitted: int) -> str:
    if isinstance(policy, Never):
        return f"{unemitted:,} new messages wait for it to end or to close, unless too many wait"
    left = []
    if policy.rows is not None:
        left.append(f"{unemitted:,} of {policy.rows:,} new messages have arrived")
    if isinstance(policy, After):
        left.append(
            f"{unemitted:,} new messages wait until {format_duration(policy.wait)} of wall clock "
            f"have passed since the {policy.since} of them"
        )
    elif policy.period is not None:
        due = ((clocks.wall or 0) // policy.period + 1) * policy.period
        often = f"every {format_duration(policy.period)}"
        if isinstance(policy, Every) and policy.least > 1:
            often += f", with at least {policy.least:,} of them"
        left.append(
            f"{unemitted:,} new messages wait for the clock to pass {format_time(due)} ({often}); "
            "no batch has run since"
        )
    return ", or ".join(left) or f"{unemitted:,} new messages emit with the next batch"


def _describe_filling(fill: Fill) -> str:
    lately = f"filled if the key had a message in the {format_duration(fill.up_to)} before"
    when = "; it emits when the next window with messages has closed" if fill.waits else ""
    return f"{lately}{when}"


def _explain_past(spec: WindowSpec, clocks: Clocks, window: WindowSeen) -> Iterator[str]:
    fill = spec.firing.fill
    if not window.messages and fill is not None:
        yield f"has ended without a message of this key, and is {_describe_filling(fill)}"
    elif not window.messages:
        yield "has ended without a message of this key, and emitted nothing"
    elif window.messages > window.late:
        held = f"holds {window.messages:,} messages"
        unless = "" if spec.firing.repeat else ", unless nothing was new since it emitted early"
        yield f"emitted in full when the watermark passed its end{unless}; {held}"
    else:
        yield f"held only late messages when its end was passed: {window.messages:,} now"
    needed = _describe_progress_needed(spec, window.end + spec.firing.grace)
    yield f"takes late messages until {needed}"
    if window.unemitted_late:
        policy = turn(spec.firing.late, window.late > window.unemitted_late)
        yield f"not emitted again yet: {_describe_waiting(policy, clocks, window.unemitted_late)}"
    elif window.late:
        yield f"its {window.late:,} late messages have been emitted"


def _explain_closed(spec: WindowSpec, window: WindowSeen) -> Iterator[str]:
    grace = (
        f" and its grace of {format_length(spec.firing.grace, spec.axis)}"
        if spec.firing.grace
        else ""
    )
    yield f"closed: the watermark has passed its end{grace}; its final result has been emitted"
    fill = spec.firing.fill
    if fill is not None and not window.messages:
        yield f"without a message of this key it is {_describe_filling(fill)}"
    if window.messages:
        yield f"{window.messages:,} messages of it are still in the state"
    else:
        retention = format_length(spec.firing.retention, spec.axis)
        yield f"its state is gone (kept {retention} after its end), or it never held this key"


def _explain_message(
    spec: WindowSpec,
    clocks: Clocks,
    windows: Sequence[WindowSeen],
    open_windows: Sequence[WindowSeen],
    at: int,
) -> str:
    if open_windows or not windows:
        many = (
            "its window"
            if len(windows) == 1
            else f"{len(open_windows)} of its {len(windows)} windows"
        )
        return f"a message at {format_position(at, spec.axis)} would be taken now, by {many}"
    assert clocks.watermark is not None
    last = windows[-1]
    closed = last.end + spec.firing.grace
    past = format_length(max(0, clocks.watermark - closed), spec.axis)
    hint = "a larger lateness or grace would take it"
    position, closing = (format_position(p, spec.axis) for p in (at, closed))
    return (
        f"a message at {position} is rejected as late: its last window takes nothing "
        f"since the watermark passed {closing}, {past} ago; {hint}"
    )


def explain_look_backs(
    spec: WindowSpec, clocks: Clocks, windows: Sequence[WindowSeen], at: int
) -> Iterator[str]:
    """Explain the newest window of each look-back of a key, and a message at a time."""
    kind = spec.windows
    assert isinstance(kind, Trailing)
    message_time = format_time(at)
    for window in windows:
        yield f"window     {format_time(window.start)} to {format_time(window.end)}"
        held = f"holds {window.messages:,} messages now"
        if not window.messages:
            held = "holds no message of this key, and has no row"
        yield f"           {format_duration(window.end - window.start)}: {held}"
    first = kind.end(kind.first_window(kind.pane_of(at)))
    if windows:
        upcoming = windows[-1].end + kind.every
        needed = _describe_progress_needed(spec, upcoming)
        yield f"next       {format_time(upcoming)}, as soon as {needed}"
        if first < upcoming and at < upcoming - kind.length:
            oldest = format_time(upcoming - kind.length)
            reason = f"the next row begins at {oldest}"
            yield f"a message at {message_time} is rejected as late: {reason}"
            return
        first = max(first, upcoming)
    lasting = (
        f"for {format_duration(size)} until {format_time(end)}"
        for size in reversed(kind.sizes)
        if (end := kind.pane_start(kind.pane_of(at)) + size) >= first
    )
    yield f"a message at {message_time} counts from {format_time(first)} on: {', '.join(lasting)}"


def explain_sessions(
    spec: WindowSpec, clocks: Clocks, sessions: Sequence[SessionSeen], at: int | None
) -> Iterator[str]:
    """Explain the sessions around a time and a message at that time, or all sessions."""
    kind = spec.uniform_windows
    last_closed, _ = _find_last_closed(spec, clocks)
    reach = kind.reach - 1
    near = [s for s in sessions if at is None or s.first - reach <= at <= s.last + reach]
    if not near:
        where = "in the state" if at is None else "around this time"
        yield f"session    none {where}: it never was, or its state is gone"
    for session in near:
        end = format_position(session.end, spec.axis)
        yield f"session    {format_position(session.first, spec.axis)} to {end}"
        yield from (f"           {line}" for line in _explain_session(spec, clocks, session))
    if at is None:
        return
    if any(session.last > last_closed for session in near) or at > last_closed:
        unless = ", or is rejected as outside if no session has it" * ("start" in kind.conditions)
        yield f"a message at {format_position(at, spec.axis)} would be taken now{unless}"
    else:
        closed = format_position(at + kind.reach + spec.firing.grace, spec.axis)
        yield (
            f"a message at {format_position(at, spec.axis)} is rejected as late: no session that "
            f"it would join is open, and one of its own closed when the watermark passed {closed}"
        )


def _explain_session(spec: WindowSpec, clocks: Clocks, session: SessionSeen) -> Iterator[str]:
    kind = spec.uniform_windows
    last_closed, last_ended = _find_last_closed(spec, clocks)
    emitted = f"has emitted {session.fired} times" if session.fired else "hasn't emitted"
    yield f"holds {session.messages:,} messages, and {emitted}"
    if session.last > last_ended:
        sooner = ", unless a message cuts it sooner" * bool(kind.conditions)
        yield f"lives until {_describe_progress_needed(spec, session.last + kind.reach)}{sooner}"
        if session.unemitted and spec.firing.early is not None:
            policy = turn(spec.firing.early, session.fired > 0)
            yield f"early: {_describe_waiting(policy, clocks, session.unemitted)}"
        elif session.unemitted:
            yield "there is no early policy: it emits when it ends"
    elif session.last > last_closed:
        yield "has ended, and takes late messages"
        if session.unemitted:
            policy = turn(spec.firing.late, session.fired_late > 0)
            yield f"not emitted again yet: {_describe_waiting(policy, clocks, session.unemitted)}"
    else:
        yield "closed: its final result has been emitted"
