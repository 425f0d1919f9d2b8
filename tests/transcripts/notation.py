"""The notation of the transcripts: YAML whose rows are read as cells between spaces.

A file is a list of cases. A case has a ``name``, a ``spec`` and ``steps``; with ``wrong: true``
its expectations are false, and a run of it must fail. The spec has:

- ``windows``, with ``from TIME`` or ``from ROW`` for the origin of windows that have one::

      tumbling 10 s         hopping 10 s by 4 s     cumulating 1 day by 6 hours
      tumbling 3 rows       hopping 4 rows by 2 rows
      days 1 in Europe/Berlin                       days 2 by 1 in Europe/Berlin
      local 6 h by 1 h in Europe/Berlin             cumulating 1 day by 6 h in Europe/Berlin
      months 1 in Europe/Berlin                     months 3 by 1 in UTC
      days 1 in each tz                             (a column with the zone of each key)
      sliding 10 s          sliding 3 rows
      rolling 10 s          rolling 3 rows closed left
      trailing 30 s, 10 s every 5 s
      session 10 s          session 10 s open       (``open``: a whole gap ends a session)
      session by gap        session by gap open     (a column with each message's gap, microseconds)
      session 10 s, at most 25 s, start login, end logout, same state open      (any of these)

- ``columns``: names and types of a row's cells (default ``key:string time value:long``);
- ``keys`` (default ``key``), ``aggregates`` by output name, for example ``max(value)``, and of
  sliding and rolling windows ``max(value) over 5 s`` or ``over 3 rows`` (0: only the last
  position);
- ``lateness``, ``ahead``, ``idle``, ``grace``, ``keep`` (default: the grace), ``rows`` (the number
  of retained messages of past windows), ``accumulate``, ``repeat`` (of full firings); on the rows
  axis, grace and keep are in rows, such as ``2 rows``;
- ``early`` (default never) and ``late`` (default ``each``): ``each``, ``every 3 rows``,
  ``every 1 minute``, ``every 3 rows or 1 minute``, ``every 1 minute, at least 3 rows`` or
  ``when sum > 10``; two of them as ``each, then every 1 minute`` or ``each, then never``;
- ``over``: ``2 windows``, the greatest number that wait to emit early; the query has one shard;
- ``offset: partition offset``: the columns of a message's partition and of its offset;
- ``nulls: group``: NULL is a value of keys like any other;
- ``fill``: ``zero up to 1 minute``, or ``null``, ``previous`` or ``linear``; or with a method for
  single aggregates: ``null, n=0, price=linear, city='Rome' up to 1 minute``;
- ``sets``: grouping sets, ``rollup``, ``cube`` or ``(region key) (region) ()``;
- ``watermark``: ``greatest``, or the columns whose values have a clock each;
- ``time: none``: there is no column of event times (by default it is ``time``).

A step has the ``wall`` clock, ``messages``, ``final`` if the input ends, ``backlog`` if the source
has partitions (the column ``partition``; ``p0 p1+`` reads two, of which one has more messages), and
the expected output: ``expect`` (the firings, in order), ``rejected`` (in any order), ``watermark``
(after the step) and ``duplicates`` (their number). The last two are optional.

- A message is its cells in order: ``a 3 5``; ``""`` is the empty text, ``"null"`` the word.
- A firing is the key cells, the window, the aggregates, emission and revision:
  ``a 0..10 5 full 0``. Trailing windows have their look-back before it: ``a 10s 0..10 5 full 2``.
  A list is ``[1,2]``, without spaces; on the rows axis a window's bounds are
  whole numbers.
- A rejected message is its cells, the reason and the watermark in force: ``a 3 5 late 20``.

A time is seconds (``7``, ``-2.5``), a time of the first day (``09:00:01``), an ISO time
(``2026-01-01T00:00:00``) or ``null``; anything else in the time column is text that is no time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml
from tests.runners import Batch

from muntin.model import aggregates, cumulating, days, months, sessions, sliding, trailing, windows
from muntin.model.aggregates import Aggregate
from muntin.model.axis import (
    SECOND,
    Length,
    format_duration,
    parse_duration,
    parse_length,
    parse_time,
    rows,
)
from muntin.model.fill import FILL_WORDS, Fill, fill_of
from muntin.model.grouping_sets import GROUPING_ID, number_sets
from muntin.model.inputs import BY_GREATEST, read_watermark
from muntin.model.kinds import Kind
from muntin.model.policies import (
    After,
    Each,
    Every,
    EveryRows,
    Firing,
    FirstThen,
    Never,
    OnePolicy,
    Policy,
    RowsOrEvery,
    WaitingLimit,
    When,
)
from muntin.model.sessions import Closed
from muntin.model.spec import WindowSpec
from muntin.model.trailing import LOOK_BACK
from muntin.model.zones import ZonedWindows

# Reading all transcripts takes a second with libyaml, and many without.
LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_SECONDS = re.compile(r"-?\d+(\.\d+)?")
_CLOCK = re.compile(r"\d\d:\d\d:\d\d(\.\d+)?")
_OF_STEPS = {"expect", "rejected", "watermark", "duplicates"}
_CONSTANTS = {"True": True, "null": None, "true": True, "false": False, '""': ""}
_READERS = {
    "string": lambda text: text[1:-1] if text.startswith('"') else text,
    "long": int,
    "double": float,
    "boolean": {"true": True, "false": False}.__getitem__,
    "length": lambda text: format_duration(parse_duration("length", text)),
}


@dataclass(frozen=True)
class Expected:
    """The expected output of a step; ``...`` stands for unspecified watermark or duplicates."""

    firings: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    watermark: Any
    duplicates: Any


@dataclass(frozen=True)
class Case:
    """One transcript."""

    name: str
    spec: WindowSpec
    steps: list[Batch]
    expected: list[Expected]
    wrong: bool


def read_cases(folder: Path) -> list[Case]:
    """Read all cases of a folder, file by file."""
    files = sorted(folder.glob("*.yaml"))
    return [_read_case(item) for path in files for item in yaml.load(path.read_text(), LOADER)]


def _read_case(item: dict[str, Any]) -> Case:
    check_keys(item, {"name", "spec", "steps", "wrong"})
    columns = read_columns(item["spec"].get("columns", "key:string time value:long"))
    spec = _read_spec(item["spec"], columns)
    for step in item["steps"]:
        check_keys(step, {"wall", "messages", "final", "backlog"} | _OF_STEPS)
    steps = [
        Batch(
            messages=[read_message(row, columns) for row in step.get("messages", [])],
            wall=read_time(step["wall"]),
            final=step.get("final") == "true",
            backlog={p.rstrip("+"): p.endswith("+") for p in step.get("backlog", "").split()},
        )
        for step in item["steps"]
    ]
    expected = [_read_expected(step, spec, columns) for step in item["steps"]]
    return Case(item["name"], spec, steps, expected, item.get("wrong") == "true")


def _read_expected(step: dict[str, Any], spec: WindowSpec, columns: dict[str, str]) -> Expected:
    return Expected(
        firings=[_read_firing(row, spec, columns) for row in step.get("expect", [])],
        rejected=[_read_rejected(row, columns) for row in step.get("rejected", [])],
        watermark=read_time(step["watermark"]) if "watermark" in step else ...,
        duplicates=int(step["duplicates"]) if "duplicates" in step else ...,
    )


def _read_spec(item: dict[str, str], columns: dict[str, str]) -> WindowSpec:
    options = {"windows", "columns", "keys", "aggregates", "lateness", "ahead", "time", "offset"}
    options |= {"idle", "grace", "keep", "rows", "accumulate", "early", "late", "repeat", "nulls"}
    options |= {"sets", "fill", "over", "watermark"}
    check_keys(item, options)
    offset = item.get("offset", "").split()
    clock_text = item.get("watermark")
    clock_columns = clock_text if clock_text in (None, BY_GREATEST) else clock_text.split()
    follows, clocks = read_watermark(clock_columns)
    keys = tuple(item.get("keys", "key").split())
    sets = None
    if "sets" in item:
        set_texts = re.findall(r"\((.*?)\)", item["sets"])
        sets = number_sets(
            tuple(tuple(set_text.split()) for set_text in set_texts) or item["sets"], keys
        )
    kind = read_windows(item["windows"])
    result_keys = () if kind.result_key is None else (kind.result_key,)
    if sets is not None:
        result_keys = (GROUPING_ID,)
    return WindowSpec(
        keys=(*keys, *result_keys),
        time=None if item.get("time") == "none" else "time",
        windows=kind,
        aggregates={name: _read_aggregate(text) for name, text in dict(item["aggregates"]).items()},
        firing=_read_firing_policies(item),
        lateness=parse_duration("lateness", item.get("lateness", "0 s")),
        max_ahead=parse_duration("ahead", item["ahead"]) if "ahead" in item else None,
        idle=parse_duration("idle", item["idle"]) if "idle" in item else None,
        types={name: kind for name, kind in columns.items() if name != "time"},
        offset=(offset[0], offset[1]) if offset else None,
        nulls=item.get("nulls", "reject"),
        shards=1 if "over" in item else None,
        sets=sets,
        watermark=follows,
        clocks=clocks,
    )


def _read_firing_policies(item: dict[str, str]) -> Firing:
    grace = item.get("grace", "0 s")
    over = WaitingLimit(int(item["over"].removesuffix(" windows"))) if "over" in item else None
    return Firing(
        early=read_policy(item["early"]) if "early" in item else over and Never(),
        late=read_policy(item.get("late", "each")),
        grace=read_extent("grace", grace),
        retention=read_extent("keep", item.get("keep", grace)),
        rows=int(item["rows"]) if "rows" in item else None,
        accumulate=item.get("accumulate", "true") == "true",
        repeat=item.get("repeat", "true") == "true",
        over=over,
        fill=read_fill(item["fill"]) if "fill" in item else None,
    )


def read_fill(text: str) -> Fill:
    methods, _, up_to = text.rpartition(" up to ")
    first, *others = methods.split(", ")
    values = [first, *others] if "=" in first else others
    methods_by_name = (method.split("=") for method in values)
    return fill_of(
        None if "=" in first else first,
        up_to,
        {
            name: method if method in FILL_WORDS else read_value(method)
            for name, method in methods_by_name
        },
    )


def read_extent(option: str, text: str) -> int:
    length = read_length(text)
    return parse_duration(option, length) if isinstance(length, str) else length.count


def check_keys(item: dict[str, Any], keys: set[str]) -> None:
    unknown = item.keys() - keys
    assert not unknown, f"{sorted(unknown)} means nothing in a transcript"


def read_columns(text: str) -> dict[str, str]:
    return dict(f"{cell}:timestamp".split(":")[:2] for cell in text.split())


def read_windows(text: str) -> Kind:
    calendar, each, column = text.partition(" in each ")
    if each:
        column, origin, start = column.partition(" from ")
        return ZonedWindows(read_windows(f"{calendar} in UTC{origin}{start}"), column)
    lengths, _, origin = text.partition(" from ")
    start = 0
    if origin:
        start = int(origin) if "row" in lengths else read_time(origin)
    kind, _, rest = lengths.partition(" ")
    if kind == "days":
        grid, _, zone = rest.partition(" in ")
        size, _, slide = grid.partition(" by ")
        hop = f"{slide} days" if slide else None
        return days.days(f"{size} days", zone, slide=hop, origin=start)
    if kind in ("local", "cumulating") and " in " in rest:
        grid, _, zone = rest.partition(" in ")
        size, *slides = map(read_length, grid.split(" by "))
        if kind == "cumulating":
            return days.cumulating_days(size, slides[0], zone, origin=start)
        return days.days(size, zone, slide=slides[0] if slides else None, origin=start)
    if kind == "months":
        grid, _, zone = rest.partition(" in ")
        size, _, slide = grid.partition(" by ")
        hop = f"{slide} months" if slide else None
        return months.months(f"{size} months", zone, slide=hop, origin=start)
    size, _, slide = rest.partition(" by ")
    match kind:
        case "tumbling":
            return windows.tumbling(read_length(size), origin=start)
        case "hopping":
            return windows.hopping(read_length(size), read_length(slide), origin=start)
        case "cumulating":
            return cumulating.cumulating(read_length(size), read_length(slide), origin=start)
        case "sliding":
            return sliding.sliding(read_length(size))
        case "rolling":
            length, _, closed = size.partition(" closed ")
            return sliding.rolling(read_length(length), closed or "right")
        case "trailing":
            look_backs, _, every = rest.partition(" every ")
            return trailing.trailing(look_backs.split(", "), every, origin=start)
    assert kind == "session", kind
    size, *words = rest.removesuffix(" open").split(", ")
    closed: Closed = "left" if rest.endswith(" open") else "both"
    if size.startswith("by "):
        return sessions.make_sessions(by=size.removeprefix("by "), closed=closed)
    options: dict[str, Any] = {}
    for word in words:
        option, _, value = word.replace("at most", "longest").partition(" ")
        options[option] = value
    return sessions.make_sessions(read_length(size), closed=closed, **options)


def read_length(text: str) -> Length:
    count = text.removesuffix("s").removesuffix(" row")
    return rows(int(count)) if count.isdigit() else text


def read_policy(text: str) -> Policy:
    first, then, other = text.partition(", then ")
    return (
        FirstThen(_read_one_policy(first), _read_one_policy(other))
        if then
        else _read_one_policy(text)
    )


def _read_one_policy(text: str) -> OnePolicy:
    if text == "each":
        return Each()
    if text == "never":
        return Never()
    if text.startswith("when "):
        return When(text.removeprefix("when "))
    if " after the " in text:
        count, wait, since = re.fullmatch(
            r"(?:every (\d+) rows or )?(.+) after the (first|last) new message", text
        ).groups()
        return After(parse_duration("after", wait), since, None if count is None else int(count))
    period = text.removeprefix("every ")
    assert period != text, text
    count, either, other = period.partition(" rows or ")
    if either:
        return RowsOrEvery(int(count), parse_duration("every", other))
    period, _, least = period.partition(", at least ")
    if least:
        return Every(parse_duration("every", period), int(least.removesuffix(" rows")))
    if period.endswith(" rows"):
        return EveryRows(int(period.removesuffix(" rows")))
    return Every(parse_duration("every", period))


def _read_aggregate(text: str) -> Aggregate:
    text, _, frame = text.partition(" over ")
    kind, inside = re.fullmatch(r"(\w+)\((.*)\)", text).groups()
    parts = [part.strip() for part in inside.split(",") if part]
    options = dict(part.split("=") for part in parts if "=" in part)
    names = [part for part in parts if "=" not in part]
    user_aggregates = {"product": multiply, "written": format_rows}
    make_aggregate = user_aggregates.get(kind) or getattr(aggregates, kind)
    aggregate = make_aggregate(
        *names, **{name: read_value(value) for name, value in options.items()}
    )
    if not frame:
        return aggregate
    back, axis = (0, "time") if frame.startswith("0 ") else parse_length("over", read_length(frame))
    return replace(aggregate, frame=back, frame_axis=axis)


def multiply(column: str) -> Aggregate:
    """Return a user-defined aggregate that multiplies all values."""
    return aggregates.aggregate(
        column,
        initializer=lambda: 1.0,
        aggregator=lambda state, value: state * value,
        merger=lambda one, other: one * other,
    )


def format_rows(*columns: str) -> Aggregate:
    """Return a user-defined function that formats all rows of a window as ``<5,a|7,null>``."""

    def text(rows: list[dict[str, Any]]) -> str:
        assert all(list(row) == list(columns) for row in rows)
        cells = [["null" if cell is None else str(cell) for cell in row.values()] for row in rows]
        return f"<{'|'.join(','.join(row) for row in cells)}>"

    return aggregates.apply(text, *columns, result_type="string")


def read_message(row: str, columns: dict[str, str]) -> dict[str, Any]:
    cells = zip(row.split(), columns.items(), strict=True)
    return {name: read_cell(text, kind) for text, (name, kind) in cells}


def read_cell(text: str, kind: str) -> Any:
    if kind == "timestamp":
        return _read_time_or_text(text)
    return None if text == "null" else _READERS[kind](text)


def _read_firing(row: str, spec: WindowSpec, columns: dict[str, str]) -> dict[str, Any]:
    cells = iter(row.split())
    kinds = {**columns, GROUPING_ID: "long", LOOK_BACK: "length"}
    firing = {name: read_cell(next(cells), kinds[name]) for name in spec.keys}
    start, _, end = next(cells).partition("..")
    bound = read_time if spec.axis == "time" else int
    firing |= {"window_start": bound(start), "window_end": bound(end)}
    firing |= {name: read_value(next(cells)) for name in spec.aggregates}
    firing |= {"emission": next(cells), "revision": int(next(cells))}
    assert not list(cells), f"too many cells in {row!r}"
    return firing


def _read_rejected(row: str, columns: dict[str, str]) -> dict[str, Any]:
    *cells, reason, watermark = row.split()
    message = read_message(" ".join(cells), columns)
    return {**message, "reason": reason, "watermark": read_time(watermark)}


def read_value(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text.startswith("["):
        return [read_value(cell) for cell in text[1:-1].split(",") if cell]
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _read_time_or_text(text: str) -> int | str | None:
    if text == "null":
        return None
    if _SECONDS.fullmatch(text):
        return int(Decimal(text) * SECOND)
    if _CLOCK.fullmatch(text):
        return parse_time("time", f"1970-01-01T{text}")
    if "T" in text and text[:4].isdigit():
        return parse_time("time", text)
    return text


def read_time(text: str) -> Any:
    time = _read_time_or_text(text)
    assert not isinstance(time, str), f"{text!r} is no time"
    return time
