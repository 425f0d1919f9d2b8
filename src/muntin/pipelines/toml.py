"""Reads a pipeline in TOML into the same value as one in SQL."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from muntin.model.axis import Length, parse_duration, rows
from muntin.model.errors import MuntinError, OptionError, ProblemsError, SqlError
from muntin.model.inputs import INPUT_OPTIONS, InputOptions
from muntin.model.pipeline import (
    EMISSION_COLUMNS,
    WINDOW_BOUNDS,
    Column,
    DeclaredTable,
    Derived,
    Flow,
    Pipeline,
    TableRelation,
    WindowRelation,
    quote_name,
)
from muntin.model.placeholders import (
    OutsideQuotesError,
    check_secret,
    fill_expression,
    placeholder_names,
)
from muntin.model.rolling import emits_messages
from muntin.model.secrets import names_secret
from muntin.model.sentence import Sentence
from muntin.model.sessions import CONDITION_OPTIONS
from muntin.model.spec import WindowSpec
from muntin.pipelines.form import PipelineForm, QueryForm, TableForm, ValidationError, WindowsForm
from muntin.sql.api import compile_aggregate
from muntin.sql.outputs import OUTPUT_HINT, find_shared_table

# What pydantic adds to the path of an entry for each of the forms that it may have.
_CHOICE = re.compile(r"constrained-str|\w+Form|(list|literal)\[.*\]")
_DICTIONARY = re.compile(r"Input should be a valid dictionary( or instance of \w+)?")
_HINTS = {
    "missing": "add it",
    "extra_forbidden": "correct its name, or leave it out",
    "string_type": "write it in quotes",
    "int_type": "write it without quotes",
    "bool_type": "write true or false, without quotes",
    "dict_type": "write { name = value }",
    "model_type": "write { name = value }",
    "list_type": "write it in brackets",
}
_ROWS = re.compile(r"(\d+)\s+rows?")
# The additional entries of each kind of windows.
_ENTRIES = {
    "tumbling": {"origin", "zone", "zone_column"},
    "hopping": {"slide", "origin", "zone", "zone_column", "overlap"},
    "cumulating": {"step", "origin", "zone", "zone_column", "overlap"},
    "sliding": set[str](),
    "rolling": {"closed"},
    "trailing": {"every", "origin"},
    "session": {"closed", "longest", *CONDITION_OPTIONS},
}


class PipelineFileError(MuntinError):
    """A pipeline file can't be read; the message names the entry and what is wrong with it."""


def parse_pipeline(
    text: str, variables: Mapping[str, str] | None = None, problems: list[MuntinError] | None = None
) -> Pipeline:
    """Return the pipeline of a TOML text; ``variables`` are the values of its placeholders.

    ``problems`` collects the errors of entries, which are then left out; ``None`` raises them.
    """
    try:
        form = PipelineForm.model_validate(tomllib.loads(text))
    except RecursionError as error:
        raise PipelineFileError("this isn't a pipeline: it is nested too deep") from error
    except ValidationError as error:
        raise PipelineFileError("\n".join(_format_errors(error))) from error
    except ValueError as error:  # a syntax error, or a number of thousands of digits
        raise PipelineFileError(f"this isn't TOML: {error}") from error
    reader = _Reader(form, variables or {})
    result = reader.read_pipeline(text)
    if problems is None:
        ProblemsError.raise_if_any(reader.problems)
    else:
        problems += reader.problems
    return result


def _format_errors(error: ValidationError) -> list[str]:
    """Return pydantic's errors, a line each: entry, problem, and the value if it isn't secret."""
    lines: dict[str, str] = {}
    for problem in error.errors(include_url=False):
        path = tuple(part for part in problem["loc"] if not _CHOICE.fullmatch(str(part)))
        entry = ".".join(map(str, path))
        kind = problem["type"]
        # The value of an unknown entry may be a misplaced secret.
        shown = kind not in ("missing", "extra_forbidden") and _may_show(path, problem["input"])
        value = f" (not {problem['input']!r})" if shown else ""
        text = _DICTIONARY.sub("input should be a table", problem["msg"])
        problem_text = f"{text[:1].lower()}{text[1:]}{value}"
        hint = _HINTS.get(kind)
        # Errors mask what stands behind the name of a secret and a colon.
        after = " is refused," if names_secret(entry) else ":"
        lines.setdefault(entry, f"{entry}{after} {problem_text}" + (f"; {hint}" if hint else ""))
    # Of an entry that may be a text or a list, the item is to blame, not the whole.
    return [line for entry, line in lines.items() if not _has_blamed_item(entry, lines)]


def _has_blamed_item(entry: str, entries: Iterable[str]) -> bool:
    item = re.compile(rf"{re.escape(entry)}\.\d+")
    return any(item.fullmatch(other) for other in entries)


def _may_show(path: tuple[int | str, ...], value: object) -> bool:
    """Return whether a message may show a value: it isn't a list, table or secret."""
    if isinstance(value, list | dict):
        return False
    try:
        for part in path:
            check_secret(str(part), str(value))
    except OptionError:
        return False
    return True


class _Reader:
    def __init__(self, form: PipelineForm, variables: Mapping[str, str]) -> None:
        self.form = form
        self.variables = variables
        self.tables: dict[str, DeclaredTable] = {}
        self.problems: list[MuntinError] = []
        self.entry = ""

    def read_pipeline(self, text: str) -> Pipeline:
        form, flows = self.form, []
        for name, table in form.tables.items():
            with self._collect_problem(f"tables.{name}"):
                if (earlier := self.tables.get(name.lower())) is not None:
                    problem = f"is the same as {earlier.name}: names are compared without case"
                    raise OptionError("tables", name, problem, "give it another name")
                self.tables[name.lower()] = self._read_table(name, table)
        for name, query in form.queries.items():
            with self._collect_problem(f"queries.{name}"):
                flows.append(self._read_flow(name, query))
        with self._collect_problem(""):
            self._check_outputs(tuple(flows))
        is_available_now, every = (form.trigger or "").lower() == "available now", None
        with self._collect_problem("trigger"):
            if form.trigger is not None and not is_available_now:
                every = parse_duration("trigger", form.trigger)
        placeholders = frozenset(placeholder_names(text))
        return Pipeline(
            self.tables, tuple(flows), form.checkpoint, every, is_available_now, placeholders
        )

    @contextmanager
    def _collect_problem(self, entry: str) -> Iterator[None]:
        self.entry = entry
        try:
            yield
        except (OptionError, SqlError) as error:
            self.problems.append(PipelineFileError(f"{self.entry}: {error}"))

    def _check_outputs(self, flows: tuple[Flow, ...]) -> None:
        if (clash := find_shared_table(flows, self.tables)) is not None:
            first, second = clash
            self.entry = f"queries.{flows[second.query].name}.{second.part}"
            problem = f"is written twice, first by queries.{flows[first.query].name}.{first.part}"
            raise OptionError(second.part, second.table, problem, OUTPUT_HINT)

    def _read_table(self, name: str, table: TableForm) -> DeclaredTable:
        options = {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in table.options.items()
        }
        if table.path is not None:
            options["path"] = table.path
        columns = None
        if table.columns is not None:
            columns = ", ".join(f"{quote_name(n)} {kind}" for n, kind in table.columns.items())
        input_options = table.model_dump(include={one.name for one in INPUT_OPTIONS})
        return DeclaredTable(
            name,
            table.connector,
            columns,
            tuple(Column(n, self._fill_placeholders(e)) for n, e in table.computed.items()),
            options,
            InputOptions.parse(table.time, input_options, table.clock),
            table.mode == "stream",
        )

    def _read_flow(self, name: str, query: QueryForm) -> Flow:
        for part, table in (("into", query.into), ("rejected", query.rejected)):
            if table is not None and table.lower() not in map(str.lower, self.form.tables):
                self.entry = f"queries.{name}.{part}"
                raise OptionError(part, table, "isn't a table of this file", "add it to [tables]")
        source = self.tables.get(query.source.lower())
        keys = [query.key] if isinstance(query.key, str) else list(query.key)
        computed = {}
        for n, text in query.agg.items():
            self.entry = f"queries.{name}.agg.{n}"
            computed[n] = compile_aggregate(self._fill_placeholders(text))
        self.entry = f"queries.{name}"
        marks = InputOptions() if source is None else source.marks
        sentence = _build_sentence(query, marks)
        spec = sentence._spec(computed, sentence._all_keys(tuple(keys)))
        if spec.windows.conditions:
            windows = spec.windows.map_columns(lambda _, text: self._fill_placeholders(text))
            spec = replace(spec, windows=windows)
        relation: TableRelation | Derived = TableRelation(query.source)
        if query.columns:
            added = (Column(n, self._fill_placeholders(text)) for n, text in query.columns.items())
            relation = Derived(relation, (Column("*", "*"), *added))
        each = emits_messages(spec)
        if each and query.having is not None:
            hint = "leave it out, and filter the rows where they are read"
            raise OptionError("having", query.having, "isn't supported by rolling windows", hint)
        windowing = WindowRelation(
            relation,
            spec,
            tuple(Column(key, quote_name(key)) for key in spec.key_columns),
            query.where and self._fill_placeholders(query.where),
            self._select_all(spec) if query.having else None,
            query.having and self._fill_placeholders(query.having),
            marks.find_clock(spec),
            self.form.shards,
            each=each,
        )
        return Flow(name, windowing, query.into, query.rejected)

    def _select_all(self, spec: WindowSpec) -> tuple[Column, ...]:
        names = (*spec.keys, *WINDOW_BOUNDS, *spec.aggregates, *EMISSION_COLUMNS)
        return tuple(
            Column(name, name if name in EMISSION_COLUMNS else quote_name(name)) for name in names
        )

    def _fill_placeholders(self, text: str) -> str:
        """Return an expression whose placeholders, which must be in quotes, are replaced."""

        def value(name: str, _: int) -> str:
            if name not in self.variables:
                hint = f"give --set {name}=..."
                raise OptionError(name, f"${{{name}}}", "has no value", hint)
            return self.variables[name]

        try:
            return fill_expression(text, value)
        except OutsideQuotesError as error:
            hint = f"write '{error}', and cast it where it is a number: int('{error}')"
            raise OptionError("--set", str(error), "stands outside of quotes", hint) from error


def _parse_length(text: str) -> Length:
    match = _ROWS.fullmatch(text.strip())
    return rows(int(match.group(1))) if match else text


def _build_sentence(query: QueryForm, marks: InputOptions) -> Sentence:
    """Return the Python query that the entries of a query stand for."""
    sentence = _choose_windows(query.windows, Sentence(_input_options=marks, _nulls=query.nulls))
    if sentence._windows is not None:
        sentence = replace(sentence, _input_options=marks.on(sentence._windows.axis))
    if query.sets is not None:
        sentence = sentence.sets(*([query.sets] if isinstance(query.sets, str) else query.sets))
    if query.early is not None:
        sentence = sentence.early(**query.early.model_dump())
    if query.full is not None:
        sentence = sentence.full(repeat=query.full.repeat)
    if query.fill is not None:
        fill = query.fill
        sentence = sentence.fill(fill.value, up_to=fill.up_to, **fill.values)
    if query.late is not None and query.grace is None:
        hint = 'add grace = "1 hour"'
        raise OptionError("late", query.late.model_dump(), "has no effect without a grace", hint)
    if query.grace is not None:
        late: dict[str, Any] = {} if query.late is None else query.late.model_dump()
        sentence = sentence.late(grace=_parse_length(query.grace), **late)
    if query.keep is not None:
        sentence = sentence.keep(_parse_length(query.keep))
    return sentence.deltas() if query.deltas else sentence


def _choose_windows(form: WindowsForm, sentence: Sentence) -> Sentence:
    kinds = [kind for kind in _ENTRIES if getattr(form, kind) is not None]
    if len(kinds) != 1:
        hint = f"give exactly one of {', '.join(_ENTRIES)}"
        raise OptionError("windows", ", ".join(kinds) or None, "isn't one kind", hint)
    (kind,) = kinds
    size, options = getattr(form, kind), form.model_dump(exclude_none=True, exclude={kind})
    for option, value in options.items():
        if option not in _ENTRIES[kind]:
            raise OptionError(option, value, f"isn't one of {kind}", "leave it out")
    if kind == "trailing":
        look_backs = [size] if isinstance(size, str) else size
        return sentence.trailing(*look_backs, **{"every": "", **options})
    if kind == "hopping":
        # With a zone, windows slide by their size unless the file has a slide.
        options.setdefault("slide", size if {"zone", "zone_column"} & options.keys() else "")
    if kind == "cumulating":
        options.setdefault("step", "")
    for option in options.keys() & {"slide", "step"}:
        options[option] = _parse_length(options[option])
    windowed: Sentence = getattr(sentence, kind)(_parse_length(size), **options)
    return windowed
