"""A pipeline in TOML, as the value that SQL gives too."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from muntin.model import cumulating, days, sessions, sliding
from muntin.model import windows as model
from muntin.model.axis import Axis, Length, instant, micros, rows
from muntin.model.errors import MuntinError, OptionError, SqlError
from muntin.model.kinds import Kind
from muntin.model.pipeline import Column, Derived, Flow, Pipeline, Reading, Table, Windowing, quoted
from muntin.model.placeholders import check_secret, names
from muntin.model.policies import Firing, Policy, policy
from muntin.model.spec import WindowSpec
from muntin.pipelines.form import PipelineForm, PolicyForm, QueryForm, TableForm, WindowsForm
from muntin.sql.door import aggregate
from muntin.sql.outputs import HINT, shared

_ROWS = re.compile(r"(\d+)\s+rows?")
_HOLE = re.compile(r"\$\{(\w+)\}")
_KINDS = ("tumbling", "hopping", "cumulating", "sliding", "session")
_OWN = ("emission", "revision")


class PipelineFileError(MuntinError):
    """A pipeline file can't be read; the message names the entry and what is wrong with it."""


def pipeline(text: str, given: Mapping[str, str] | None = None) -> Pipeline:
    """A pipeline out of TOML."""
    try:
        form = PipelineForm.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise PipelineFileError(f"this isn't TOML: {error}") from error
    except ValidationError as error:
        raise PipelineFileError("\n".join(_problems(error))) from error
    reader = _Reader(form, given or {})
    return reader.pipeline(text)


def _problems(error: ValidationError) -> list[str]:
    """What pydantic found, a line each: where, what, and the value where it may be shown."""
    lines = []
    for found in error.errors(include_url=False):
        place = ".".join(str(part) for part in found["loc"])
        # What stands at an unknown name may be a secret that missed its place.
        named = found["type"] in ("missing", "extra_forbidden")
        shown = not named and _showable(found["loc"], found["input"])
        value = f" (not {found['input']!r})" if shown else ""
        lines.append(f"{place}: {found['msg'][:1].lower()}{found['msg'][1:]}{value}")
    return lines


def _showable(place: tuple[int | str, ...], value: object) -> bool:
    """Whether a value holds no secret; what has parts may hold one in any of them."""
    if isinstance(value, list | dict):
        return False
    try:
        for part in place:
            check_secret(str(part), str(value))
    except OptionError:
        return False
    return True


class _Reader:
    def __init__(self, form: PipelineForm, given: Mapping[str, str]) -> None:
        self.form = form
        self.given = given
        self.tables: dict[str, Table] = {}
        self.place = ""

    def pipeline(self, text: str) -> Pipeline:
        form = self.form
        try:
            for name, table in form.tables.items():
                self._add(name, table)
            flows = tuple(self._flow(name, query) for name, query in form.queries.items())
            self._check_outputs(flows)
            self.place = "trigger"
            now = (form.trigger or "").lower() == "available now"
            every = None if now or form.trigger is None else micros("trigger", form.trigger)
        except (OptionError, SqlError) as error:
            raise PipelineFileError(f"{self.place}: {error}") from error
        return Pipeline(self.tables, flows, form.checkpoint, every, now, frozenset(names(text)))

    def _add(self, name: str, table: TableForm) -> None:
        self.place = f"tables.{name}"
        known = self.tables.get(name.lower())
        if known is not None:
            problem = f"is there already as {known.name}: names are compared without case"
            raise OptionError("tables", name, problem, "give it another name")
        self.tables[name.lower()] = self._table(name, table)

    def _check_outputs(self, flows: tuple[Flow, ...]) -> None:
        """Refuse two outputs in one table."""
        clash = shared(flows, self.tables)
        if clash is not None:
            first, second = clash
            self.place = f"queries.{flows[second.query].name}.{second.part}"
            problem = f"is written twice, first by queries.{flows[first.query].name}.{first.part}"
            raise OptionError(second.part, second.table, problem, HINT)

    def _table(self, name: str, table: TableForm) -> Table:
        options = {key: _text(value) for key, value in table.options.items()}
        if table.path is not None:
            options["path"] = table.path
        columns = None
        if table.columns is not None:
            columns = ", ".join(f"{quoted(n)} {kind}" for n, kind in table.columns.items())
        ahead = None if table.max_ahead == "any" else micros("max_ahead", table.max_ahead)
        return Table(
            name,
            table.connector,
            columns,
            tuple(Column(n, self._filled(e)) for n, e in table.computed.items()),
            options,
            table.time,
            micros("lateness", table.lateness),
            ahead,
            None if table.offset is None else (table.offset[0], table.offset[1]),
            table.clock,
            table.mode == "stream",
        )

    def _flow(self, name: str, query: QueryForm) -> Flow:
        for part, table in (("into", query.into), ("rejected", query.rejected)):
            if table is not None and table.lower() not in self.tables:
                self.place = f"queries.{name}.{part}"
                raise OptionError(part, table, "is no table of this file", "add it to [tables]")
        self.place = f"queries.{name}"
        source = self.tables.get(query.source.lower())
        keys = [query.key] if isinstance(query.key, str) else list(query.key)
        computed = {n: self._aggregate(name, n, text) for n, text in query.agg.items()}
        self.place = f"queries.{name}"
        windows = _windows(query.windows)
        marks = source or Table(query.source, "")
        if windows.axis == "rows" and marks.offset is not None and keys[:1] != [marks.offset[0]]:
            keys = [marks.offset[0], *keys]
        spec = WindowSpec(
            keys=tuple(keys),
            time=marks.time if windows.axis == "time" else None,
            windows=windows,
            aggregates=computed,
            firing=_firing(query, windows.axis),
            lateness=marks.lateness if windows.axis == "time" else 0,
            max_ahead=marks.max_ahead,
            offset=marks.offset,
            nulls=query.nulls,
        )
        relation: Reading | Derived = Reading(query.source)
        if query.columns:
            added = (Column(n, self._filled(text)) for n, text in query.columns.items())
            relation = Derived(relation, (Column("*", "*"), *added))
        windowing = Windowing(
            relation,
            spec,
            tuple(Column(key, quoted(key)) for key in keys),
            query.where and self._filled(query.where),
            self._shown(spec) if query.having else None,
            query.having and self._filled(query.having),
            marks.clock,
            self.form.buckets,
        )
        return Flow(name, windowing, query.into, query.rejected)

    def _aggregate(self, query: str, name: str, text: str) -> Any:
        self.place = f"queries.{query}.agg.{name}"
        return aggregate(self._filled(text))

    def _shown(self, spec: WindowSpec) -> tuple[Column, ...]:
        shown = (*spec.keys, "window_start", "window_end", *spec.aggregates, *_OWN)
        return tuple(Column(name, name if name in _OWN else quoted(name)) for name in shown)

    def _filled(self, text: str) -> str:
        """An expression with its placeholders, which stand in quotes, replaced."""

        def value(found: re.Match[str]) -> str:
            name = found.group(1)
            if name not in self.given:
                hint = f"give --set {name}=..."
                raise OptionError(name, found.group(), "has no value", hint)
            return self.given[name].replace("\\", "\\\\").replace("'", "\\'")

        return _HOLE.sub(value, text)


def _text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _length(text: str) -> Length:
    found = _ROWS.fullmatch(text.strip())
    return rows(int(found.group(1))) if found else text


def _windows(form: WindowsForm) -> Kind:
    chosen = [kind for kind in _KINDS if getattr(form, kind) is not None]
    if len(chosen) != 1:
        hint = f"give exactly one of {', '.join(_KINDS)}"
        raise OptionError("windows", ", ".join(chosen) or None, "isn't one kind", hint)
    kind = chosen[0]
    size = _length(getattr(form, kind))
    _check_used(form, kind)
    origin = 0 if form.origin is None else instant("origin", form.origin)
    if form.zone is not None:
        slide = None if form.slide is None else _length(form.slide)
        return days.days(size, form.zone, slide=slide, origin=origin)
    if kind == "tumbling":
        return model.tumbling(size, origin=origin)
    if kind == "hopping":
        return model.hopping(size, _length(form.slide or ""), origin=origin)
    if kind == "cumulating":
        return cumulating.cumulating(size, _length(form.step or ""), origin=origin)
    if kind == "sliding":
        return sliding.sliding(size)
    return sessions.session(size, closed=form.closed or "both")


def _check_used(form: WindowsForm, kind: str) -> None:
    """Refuse what this kind of windows has no use for."""
    uses = {
        "tumbling": {"origin", "zone"},
        "hopping": {"slide", "origin", "zone"},
        "cumulating": {"step", "origin"},
        "sliding": set(),
        "session": {"closed"},
    }[kind]
    for option in ("slide", "step", "origin", "zone", "closed"):
        if getattr(form, option) is not None and option not in uses:
            raise OptionError(option, getattr(form, option), f"isn't one of {kind}", "leave it out")


def _firing(query: QueryForm, axis: Axis) -> Firing:
    repeat = query.full is None or query.full.repeat
    made = Firing(accumulate=not query.deltas, repeat=repeat)
    early = None if query.early is None else _policy("early", query.early)
    grace = 0 if query.grace is None else model.along("grace", _length(query.grace), axis)
    if query.late is not None and query.grace is None:
        hint = 'add grace = "1 hour"'
        raise OptionError("late", query.late.model_dump(), "means nothing without a grace", hint)
    late = made.late if query.late is None else _policy("late", query.late)
    keep = grace if query.keep is None else model.along("keep", _length(query.keep), axis)
    return replace(made, early=early, late=late, grace=grace, retention=keep)


def _policy(option: str, form: PolicyForm) -> Policy:
    return policy(option, form.each, form.rows, form.every, form.at_least)
