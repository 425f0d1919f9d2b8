"""Reads a pipeline in TOML into the same value as one in SQL."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from muntin.model.axis import Length, micros, rows
from muntin.model.errors import MuntinError, OptionError, ProblemsError, SqlError
from muntin.model.inputs import InputOptions
from muntin.model.pipeline import (
    Column,
    DeclaredTable,
    Derived,
    Flow,
    Pipeline,
    Reading,
    Windowing,
    quote_name,
)
from muntin.model.placeholders import OutsideQuotesError, check_secret, fill_expression, find_names
from muntin.model.rolling import emits_messages
from muntin.model.sentence import Sentence
from muntin.model.spec import WindowSpec
from muntin.pipelines.form import (
    PipelineForm,
    QueryForm,
    TableForm,
    ValidationError,
    WindowsForm,
)
from muntin.sql.door import aggregate
from muntin.sql.outputs import HINT, shared

_ROWS = re.compile(r"(\d+)\s+rows?")
# The additional entries of each kind of windows.
_USES = {
    "tumbling": {"origin", "zone"},
    "hopping": {"slide", "origin", "zone", "overlap"},
    "cumulating": {"step", "origin", "zone", "overlap"},
    "sliding": set[str](),
    "rolling": {"closed"},
    "session": {"closed"},
}
_OWN = ("emission", "revision")


class PipelineFileError(MuntinError):
    """A pipeline file can't be read; the message names the entry and what is wrong with it."""


def pipeline(
    text: str,
    given: Mapping[str, str] | None = None,
    problems: list[MuntinError] | None = None,
) -> Pipeline:
    """Return the pipeline of a TOML text.

    Args:
        text: Text of the file.
        given: Values of the placeholders ``${name}``.
        problems: Collects the mistakes of tables and queries, which are then left out;
            ``None`` raises them.

    Raises:
        PipelineFileError: When an entry is wrong.
        ProblemsError: When several entries are wrong.
    """
    try:
        form = PipelineForm.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise PipelineFileError(f"this isn't TOML: {error}") from error
    except ValidationError as error:
        raise PipelineFileError("\n".join(_problems(error))) from error
    reader = _Reader(form, given or {})
    made = reader.pipeline(text)
    if problems is None:
        ProblemsError.raise_if_any(reader.problems)
    else:
        problems += reader.problems
    return made


def _problems(error: ValidationError) -> list[str]:
    """Return pydantic's errors, a line each: entry, problem, and the value if it isn't secret."""
    lines = []
    for found in error.errors(include_url=False):
        place = ".".join(str(part) for part in found["loc"])
        # The value of an unknown entry may be a misplaced secret.
        named = found["type"] in ("missing", "extra_forbidden")
        shown = not named and _showable(found["loc"], found["input"])
        value = f" (not {found['input']!r})" if shown else ""
        lines.append(f"{place}: {found['msg'][:1].lower()}{found['msg'][1:]}{value}")
    return lines


def _showable(place: tuple[int | str, ...], value: object) -> bool:
    """Return whether a value may be shown: it is plain, and its entry isn't secret."""
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
        self.tables: dict[str, DeclaredTable] = {}
        self.problems: list[MuntinError] = []
        self.place = ""

    def pipeline(self, text: str) -> Pipeline:
        form, flows = self.form, []
        for name, table in form.tables.items():
            with self._noted(f"tables.{name}"):
                if (known := self.tables.get(name.lower())) is not None:
                    problem = f"is there already as {known.name}: names are compared without case"
                    raise OptionError("tables", name, problem, "give it another name")
                self.tables[name.lower()] = self._table(name, table)
        for name, query in form.queries.items():
            with self._noted(f"queries.{name}"):
                flows.append(self._flow(name, query))
        with self._noted(""):
            self._check_outputs(tuple(flows))
        now, every = (form.trigger or "").lower() == "available now", None
        with self._noted("trigger"):
            every = None if now or form.trigger is None else micros("trigger", form.trigger)
        asked = frozenset(find_names(text))
        return Pipeline(self.tables, tuple(flows), form.checkpoint, every, now, asked)

    @contextmanager
    def _noted(self, place: str) -> Iterator[None]:
        """Collect the mistake of an entry."""
        self.place = place
        try:
            yield
        except (OptionError, SqlError) as error:
            self.problems.append(PipelineFileError(f"{self.place}: {error}"))

    def _check_outputs(self, flows: tuple[Flow, ...]) -> None:
        """Refuse two outputs in one table."""
        if (clash := shared(flows, self.tables)) is not None:
            first, second = clash
            self.place = f"queries.{flows[second.query].name}.{second.part}"
            problem = f"is written twice, first by queries.{flows[first.query].name}.{first.part}"
            raise OptionError(second.part, second.table, problem, HINT)

    def _table(self, name: str, table: TableForm) -> DeclaredTable:
        options = {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in table.options.items()
        }
        if table.path is not None:
            options["path"] = table.path
        columns = None
        if table.columns is not None:
            columns = ", ".join(f"{quote_name(n)} {kind}" for n, kind in table.columns.items())
        ahead = None if table.max_ahead == "any" else table.max_ahead
        offset = None if table.offset is None else (table.offset[0], table.offset[1])
        marks = InputOptions.parse(
            table.time, table.lateness, ahead, offset, table.idle, table.clock, table.watermark
        )
        return DeclaredTable(
            name,
            table.connector,
            columns,
            tuple(Column(n, self._filled(e)) for n, e in table.computed.items()),
            options,
            marks,
            table.mode == "stream",
        )

    def _flow(self, name: str, query: QueryForm) -> Flow:
        for part, table in (("into", query.into), ("rejected", query.rejected)):
            if table is not None and table.lower() not in map(str.lower, self.form.tables):
                self.place = f"queries.{name}.{part}"
                raise OptionError(part, table, "is no table of this file", "add it to [tables]")
        source = self.tables.get(query.source.lower())
        keys = [query.key] if isinstance(query.key, str) else list(query.key)
        computed = {}
        for n, text in query.agg.items():
            self.place = f"queries.{name}.agg.{n}"
            computed[n] = aggregate(self._filled(text))
        self.place = f"queries.{name}"
        marks = InputOptions() if source is None else source.marks
        sentence = _sentence(query, marks)
        spec = sentence._spec(computed, sentence._all_keys(tuple(keys)))
        relation: Reading | Derived = Reading(query.source)
        if query.columns:
            added = (Column(n, self._filled(text)) for n, text in query.columns.items())
            relation = Derived(relation, (Column("*", "*"), *added))
        each = emits_messages(spec)
        if each and query.having is not None:
            hint = "leave it out, and choose among the rows where they are read"
            raise OptionError("having", query.having, "isn't taken with rolling windows", hint)
        windowing = Windowing(
            relation,
            spec,
            tuple(Column(key, quote_name(key)) for key in spec.key_columns),
            query.where and self._filled(query.where),
            self._shown(spec) if query.having else None,
            query.having and self._filled(query.having),
            marks.clock,
            self.form.shards,
            each=each,
        )
        return Flow(name, windowing, query.into, query.rejected)

    def _shown(self, spec: WindowSpec) -> tuple[Column, ...]:
        shown = (*spec.keys, "window_start", "window_end", *spec.aggregates, *_OWN)
        return tuple(Column(name, name if name in _OWN else quote_name(name)) for name in shown)

    def _filled(self, text: str) -> str:
        """Return an expression whose placeholders, which must be in quotes, are replaced."""

        def value(name: str, _: int) -> str:
            if name not in self.given:
                hint = f"give --set {name}=..."
                raise OptionError(name, f"${{{name}}}", "has no value", hint)
            return self.given[name]

        try:
            return fill_expression(text, value)
        except OutsideQuotesError as error:
            hint = f"write '{error}', and cast it where it is a number: int('{error}')"
            raise OptionError("--set", str(error), "stands outside of quotes", hint) from error


def _length(text: str) -> Length:
    found = _ROWS.fullmatch(text.strip())
    return rows(int(found.group(1))) if found else text


def _sentence(query: QueryForm, marks: InputOptions) -> Sentence:
    """Return the Python query that the entries of a query stand for."""
    sentence = _windows(query.windows, Sentence(_input_options=marks, _nulls=query.nulls))
    if sentence._windows is not None:
        sentence = replace(sentence, _input_options=marks.on(sentence._windows.axis))
    if query.sets is not None:
        sentence = sentence.sets(*([query.sets] if isinstance(query.sets, str) else query.sets))
    if query.early is not None:
        sentence = sentence.early(**query.early.model_dump())
    if query.full is not None:
        sentence = sentence.full(repeat=query.full.repeat)
    if query.fill is not None:
        sentence = sentence.fill(query.fill.value, up_to=query.fill.up_to)
    if query.late is not None and query.grace is None:
        hint = 'add grace = "1 hour"'
        raise OptionError("late", query.late.model_dump(), "means nothing without a grace", hint)
    if query.grace is not None:
        late: dict[str, Any] = {} if query.late is None else query.late.model_dump()
        sentence = sentence.late(grace=_length(query.grace), **late)
    if query.keep is not None:
        sentence = sentence.keep(_length(query.keep))
    return sentence.deltas() if query.deltas else sentence


def _windows(form: WindowsForm, sentence: Sentence) -> Sentence:
    chosen = [kind for kind in _USES if getattr(form, kind) is not None]
    if len(chosen) != 1:
        hint = f"give exactly one of {', '.join(_USES)}"
        raise OptionError("windows", ", ".join(chosen) or None, "isn't one kind", hint)
    (kind,) = chosen
    size, given = getattr(form, kind), form.model_dump(exclude_none=True, exclude={kind})
    for option, value in given.items():
        if option not in _USES[kind]:
            raise OptionError(option, value, f"isn't one of {kind}", "leave it out")
    if kind == "hopping":
        # Windows of whole days slide by a day, unless the file says otherwise.
        given.setdefault("slide", size if "zone" in given else "")
    if kind == "cumulating":
        given.setdefault("step", "")
    for option in given.keys() & {"slide", "step"}:
        given[option] = _length(given[option])
    over: Sentence = getattr(sentence, kind)(_length(size), **given)
    return over
