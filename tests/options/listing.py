"""Writes the page that lists every option of Python, SQL's ``WITH``, TOML and the commands."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import typer
from tests.options.calls import CALLS

import muntin as mt
from muntin.cli.app import build
from muntin.model.reader_options import READERS, ReaderOption
from muntin.model.table_options import options_of
from muntin.pipelines import form

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "options.md"
_OTHERS = ("to_kafka", "to_memory")
_HEAD = """# All options

This page lists the options of all public functions, of `CREATE TABLE … WITH (…)`, of files in TOML
and of the command line. An option that isn't listed is refused by its name. The tests of muntin
go through these tables. They try each option of a function with the value that is accepted here,
which has to change the query, and with the one that is refused.

"""
_KINDS = {"parse_boolean": "`true` or `false`", "parse_whole": "a whole number",
          "parse_count": "a whole number from 1",
          "parse_number": "a number", "parse_bytes": "bytes, such as `64 MB`", "accept_any": "text",
          "check_choice": "one of a few words"}  # fmt: skip
_WHEN = {"always": "", "stream": "streams", "batch": "tables read once",
         "no columns": "tables without declared columns"}  # fmt: skip


def format_page() -> str:
    """Return the text of the page."""
    parts = [_HEAD, *_functions(), "## Sinks in SQL and files\n\n"]
    parts.append("| connector | option | default |\n| --- | --- | --- |\n")
    for name in sorted(
        public_name
        for public_name in dir(mt)
        if public_name.startswith("to_") and public_name not in _OTHERS
    ):
        function = getattr(mt, name)
        for option in options_of(function):
            default = signature(function).parameters[option].default
            needed = default is signature(function).empty
            requirement = "the table's name" if option == "table" else "required" if needed else ""
            default_text = requirement or ("" if default is None else _code(default))
            parts.append(f"| `{name.removeprefix('to_')}` | `{option}` | {default_text} |\n")
    parts.append("\n## Sources in SQL and files\n\n")
    parts.append("The options of `kafka` are on [its page](../kafka.md).\n\n")
    parts.append("| connector | option | takes | has an effect on |\n")
    parts.append("| --- | --- | --- | --- |\n")
    for connector, options in READERS.items():
        parts += [_row(connector, option) for option in options]
    parts.append("\n## Keys of a file in TOML\n\n| part | key | meaning |\n| --- | --- | --- |\n")
    for part, model in (("file", form.PipelineForm), ("tables", form.TableForm),
                        ("queries", form.QueryForm), ("windows", form.WindowsForm),
                        ("early, late", form.PolicyForm), ("early", form.EarlyForm),
                        ("full", form.FullForm),
                        ("fill", form.FillForm)):  # fmt: skip
        default_text = form.PolicyForm.model_fields if model is form.EarlyForm else {}
        for name, field in model.model_fields.items():
            if name in default_text:
                continue
            parts.append(f"| {part} | `{field.alias or name}` | {field.description or ''} |\n")
    return "".join([*parts, *_flags()])


def _functions() -> Iterator[str]:
    """Yield the section of each public function's options."""
    yield "## Functions of Python\n\n"
    yield "| function | option | default | accepted, for example | refused, for example |\n"
    yield "| --- | --- | --- | --- | --- |\n"
    for name, call in CALLS.items():
        for option, (valid, invalid) in call.options.items():
            default = signature(call.function).parameters[option].default
            needed = default is Parameter.empty
            cells = ("required" if needed else _code(default), _code(valid), _code(invalid))
            yield f"| `{name}` | `{option}` | {' | '.join(cells)} |\n"
    yield "\n"


def _flags() -> Iterator[str]:
    """Yield the section of the command line's flags."""
    yield "\n## Flags of the command line\n\n| command | flag | default | meaning |\n"
    yield "| --- | --- | --- | --- |\n"
    for name, command in list_commands():
        for flag in command.params:
            if flag.param_type_name == "option" and flag.name != "help":
                default = "" if flag.default in (None, False, ()) else f"`{flag.default}`"
                meaning = (flag.help or "").replace("|", "\\|")
                yield f"| `muntin {name}` | `{flag.opts[0]}` | {default} | {meaning} |\n"


def list_commands(group: Any = None, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each command with its name, including those of groups."""
    group = group or typer.main.get_command(build())
    for command_name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from list_commands(command, f"{name}{command_name} ")
        else:
            yield f"{name}{command_name}", command


def _code(value: Any) -> str:
    plain = isinstance(value, str | int | float | tuple | list | dict)
    return f"`{value!r}`".replace("|", "\\|") if plain and value != () else ""


def _row(connector: str, option: ReaderOption) -> str:
    kind = _KINDS[option.convert.__name__] + (", required" if option.required else "")
    return f"| `{connector}` | `{option.name}` | {kind} | {_WHEN[option.when]} |\n"


if __name__ == "__main__":
    PAGE.write_text(format_page())
